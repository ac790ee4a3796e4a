package proxytest

import (
	"flag"
	"runtime"
	"strconv"
	"testing"
)

// atOnce is how many parallel tests of a package run at the same time: most of them wait for processes, sockets and browsers.
const atOnce = 8

// Tests are the tests of a package, for its TestMain. More of them run at the same time than there are processors, unless the
// flag -parallel says how many.
type Tests struct{ *testing.M }

// Run runs the tests and returns the exit code.
func (t Tests) Run() int {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue && runtime.GOMAXPROCS(0) < atOnce {
		_ = f.Value.Set(strconv.Itoa(atOnce))
	}
	return t.M.Run()
}
