package bench

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// A lab has the processes of one measurement and their files, which end with the test.
type lab struct {
	testing.TB
	dir        string
	billbridge string // the binary that was built from this source
	backend    string // address
	processes  int
	runs       int // of wrk
	calls      int // of this program itself
	bound      int // callback addresses of a gateway that receives callbacks
}

// A process is a server that was started.
type process struct {
	at      string // address
	admin   string // address of the admin listener, if it is a gateway
	log     string // file with stdout and stderr
	access  string // file with the access log; "" if that is log
	command *exec.Cmd
}

// newLab builds billbridge and starts the backend.
func newLab(t testing.TB) *lab {
	l := &lab{TB: t, dir: t.TempDir(), bound: 1000}
	l.billbridge = filepath.Join(l.dir, "billbridge")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", l.billbridge, "billbridge/cmd/billbridge")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	l.backend = l.role("backend").at
	return l
}

// must ends the measurement if there is an error.
func (l *lab) must(err error) {
	l.Helper()
	proxytest.Must(l, err)
}

// until calls try, every 50 ms, until it returns nil, at most for a minute.
func (l *lab) until(try func() error) (err error) {
	for range 1200 {
		if err = try(); err == nil {
			return nil
		}
		select {
		case <-l.Context().Done():
			return l.Context().Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return err
}

// role starts this program in one of its roles.
func (l *lab) role(name string, more ...string) *process {
	program, err := os.Executable()
	l.must(err)
	at := l.freeAddress()
	return l.start(at, program, append([]string{"role", name, at}, more...)...)
}

// gateway starts billbridge with a config, to which the listeners are added.
func (l *lab) gateway(config string) *process {
	at, admin := l.freeAddress(), l.freeAddress()
	file := l.file("config%d.yaml")
	proxytest.WriteFile(l, file, fmt.Sprintf("listen: %s\nadmin: {listen: %s}\n%s", at, admin, config))
	p := l.start(at, l.billbridge, "serve", "--config", file)
	p.admin = admin
	return p
}

// file names a file of the next process.
func (l *lab) file(format string) string {
	return filepath.Join(l.dir, fmt.Sprintf(format, l.processes))
}

// start starts a server, with a file for its output.
func (l *lab) start(at, program string, args ...string) *process {
	p := &process{at: at, log: l.file("process%d.log")}
	l.processes++
	// Appended, so that the file can be emptied while the process writes.
	output, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	l.must(err)
	defer func() { _ = output.Close() }()
	p.command = exec.CommandContext(l.Context(), program, args...)
	p.command.Stdout, p.command.Stderr = output, output
	p.command.Cancel = func() error { return p.command.Process.Signal(syscall.SIGTERM) }
	p.command.WaitDelay = 5 * time.Second
	l.must(p.command.Start())
	l.Cleanup(func() { _ = p.command.Wait() })
	return p
}

// emptyLogs empties the logs: they grow by some 100 MB a minute.
func (p *process) emptyLogs() error {
	err := os.Truncate(p.log, 0)
	if p.access != "" {
		err = errors.Join(err, os.Truncate(p.access, 0))
	}
	return err
}

// freeAddress returns an address on which nothing listens.
func (l *lab) freeAddress() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	l.must(err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// proc returns a file of a process in /proc (proc(5)).
func (l *lab) proc(p *process, name string) []byte {
	return proxytest.ReadFile(l, fmt.Sprintf("/proc/%d/%s", p.command.Process.Pid, name))
}

// cpu returns the user and system time that a process has used.
func (l *lab) cpu(p *process) time.Duration {
	used, err := cpuTime(l.proc(p, "stat"))
	l.must(err)
	return used
}

// cpuTime reads fields 14 and 15 of /proc/PID/stat, in ticks of 10 ms.
func cpuTime(stat []byte) (time.Duration, error) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // the name before it can contain spaces
	var user, system int
	_, err := fmt.Sscan(string(fields[11])+" "+string(fields[12]), &user, &system)
	return time.Duration(user+system) * 10 * time.Millisecond, err
}

// The name of a process can contain spaces and parentheses.
func TestCPUTimeIsUserAndSystemTime(t *testing.T) {
	t.Parallel()
	stat := []byte("4711 (a b) c) S 42 4711 4711 0 -1 4194560 1 0 0 0 150 25 0 0 20 0 7 0 1 1 1")
	if got, err := cpuTime(stat); got != 1750*time.Millisecond || err != nil {
		t.Errorf("got %s, %v, want 1.75s", got, err)
	}
}
