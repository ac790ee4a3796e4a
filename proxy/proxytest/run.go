package proxytest

import (
	"flag"
	"runtime"
	"strconv"
	"testing"
)

// What the flags -parallel and -rapid.checks are unless they are given. Most tests wait for processes, sockets and
// browsers, so more of them can run at the same time than there are processors. The models have 40 runs more in
// .ci/run, and 1,000 in .ci/long.
const (
	atOnce = 8
	checks = 20
)

// Tests are the tests of a package, for its TestMain.
type Tests struct{ *testing.M }

// Run runs the tests and returns the exit code.
func (t Tests) Run() int {
	flag.Parse()
	values := map[string]int{"test.parallel": max(atOnce, runtime.GOMAXPROCS(0)), "rapid.checks": checks}
	for name, value := range values {
		if f := flag.Lookup(name); f != nil && f.Value.String() == f.DefValue {
			_ = f.Value.Set(strconv.Itoa(value))
		}
	}
	return t.M.Run()
}
