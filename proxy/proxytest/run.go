package proxytest

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
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
	keepInMemory()
	if _, given := os.LookupEnv("GOGC"); !given {
		debug.SetGCPercent(400) // a tenth of the time of the tests: they have much short-lived memory
	}
	return t.M.Run()
}

// keepInMemory puts the folders of tests into memory, where Linux has such a folder and it is large enough: hundreds of
// small databases wait for a disk otherwise.
func keepInMemory() {
	const folder, needed = "/dev/shm", 4 << 30
	var space unix.Statfs_t
	if _, given := os.LookupEnv("TMPDIR"); given || unix.Statfs(folder, &space) != nil {
		return
	}
	if space.Bavail*uint64(space.Bsize) >= needed && unix.Access(folder, unix.W_OK) == nil {
		_ = os.Setenv("TMPDIR", folder)
	}
}
