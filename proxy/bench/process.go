package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// A lab has the processes of one run and their files.
type lab struct {
	ctx        context.Context
	cancel     context.CancelFunc
	dir        string // is removed at the end
	billbridge string // the binary that was built from this source
	backend    string // address
	front      string // address of the backend for the processes that are measured: the backend, or a relay with a delay
	scheme     string // of the processes and of the backend
	pair       string // file with the certificate of all servers, and its key; "" without TLS
	progress   io.Writer
	server     *process // the backend
	started    []*process
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

// newLab builds billbridge and starts the backend. The caller must call stop.
func newLab(ctx context.Context, o options, progress io.Writer) *lab {
	dir := get(os.MkdirTemp("", "billbridge-bench"))
	l := &lab{dir: dir, billbridge: filepath.Join(dir, "billbridge"), progress: progress, bound: 1000, scheme: "http"}
	if o.tls {
		l.scheme, l.pair = "https", filepath.Join(dir, "pair.pem")
		must(os.WriteFile(l.pair, certificate(), 0o600))
	}
	l.ctx, l.cancel = context.WithCancel(ctx)
	build := exec.CommandContext(l.ctx, "go", "build", "-o", l.billbridge, "billbridge/cmd/billbridge")
	out, err := build.CombinedOutput()
	if err != nil {
		l.stop()
		must(fmt.Errorf("go build: %w\n%s", err, out))
	}
	l.server = l.role("backend", l.pair)
	l.backend, l.front = l.server.at, l.server.at
	if o.delay > 0 {
		l.front = l.role("delay", l.backend, o.delay.String()).at
	}
	return l
}

// stop ends all processes and removes all files.
func (l *lab) stop() {
	l.cancel()
	for _, p := range l.started {
		_ = p.command.Wait()
	}
	_ = os.RemoveAll(l.dir)
}

// until calls try, every 50 ms, until it returns nil, at most for a minute.
func (l *lab) until(try func() error) (err error) {
	for range 1200 {
		if err = try(); err == nil {
			return nil
		}
		select {
		case <-l.ctx.Done():
			return l.ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return err
}

// role starts this program in one of its roles.
func (l *lab) role(name string, more ...string) *process {
	at := freeAddress()
	return l.start(at, get(os.Executable()), append([]string{"role", name, at}, more...)...)
}

// gateway starts billbridge with a config, to which the listeners are added.
func (l *lab) gateway(config string) *process { return l.gatewayOf(l.billbridge, config) }

// gatewayOf is gateway of a binary.
func (l *lab) gatewayOf(binary, config string) *process {
	at, admin := freeAddress(), freeAddress()
	file := filepath.Join(l.dir, fmt.Sprintf("config%d.yaml", len(l.started)))
	must(os.WriteFile(file, fmt.Appendf(nil, "listen: %s\nadmin: {listen: %s}\n%s", at, admin, config), 0o600))
	p := l.start(at, binary, "serve", "--config", file)
	p.admin = admin
	return p
}

// start starts a server, with a file for its output.
func (l *lab) start(at, program string, args ...string) *process {
	p := &process{at: at, log: filepath.Join(l.dir, fmt.Sprintf("process%d.log", len(l.started)))}
	// Appended, so that the file can be emptied while the process writes.
	output := get(os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	defer func() { _ = output.Close() }()
	p.command = exec.CommandContext(l.ctx, program, args...)
	p.command.Stdout, p.command.Stderr = output, output
	p.command.Cancel = func() error { return p.command.Process.Signal(syscall.SIGTERM) }
	p.command.WaitDelay = 5 * time.Second
	must(p.command.Start())
	l.started = append(l.started, p)
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
func freeAddress() string {
	listener := get(net.Listen("tcp", "127.0.0.1:0"))
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// proc returns a file of the process in /proc (proc(5)).
func (p *process) proc(name string) []byte {
	return get(os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.command.Process.Pid, name)))
}

// cpu returns the user and system time that a process has used.
func (p *process) cpu() time.Duration { return cpuTime(p.proc("stat")) }

// cpuTime reads fields 14 and 15 of /proc/PID/stat, in ticks of 10 ms.
func cpuTime(stat []byte) time.Duration {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // the name before it can contain spaces
	var user, system int
	get(fmt.Sscan(string(fields[11])+" "+string(fields[12]), &user, &system))
	return time.Duration(user+system) * 10 * time.Millisecond
}
