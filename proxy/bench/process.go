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
	"slices"
	"strconv"
	"strings"
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
	progress   io.Writer
	started    []*process
	addresses  []string // that freeAddress has returned
	runs       int      // of wrk
	calls      int      // of this program itself
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
func newLab(ctx context.Context, progress io.Writer) (*lab, error) {
	dir, err := os.MkdirTemp("", "billbridge-bench")
	if err != nil {
		return nil, err
	}
	l := &lab{dir: dir, billbridge: filepath.Join(dir, "billbridge"), progress: progress}
	l.ctx, l.cancel = context.WithCancel(ctx)
	if err := l.startBackend(); err != nil {
		l.stop()
		return nil, err
	}
	return l, nil
}

func (l *lab) startBackend() error {
	if out, err := exec.CommandContext(l.ctx, "go", "build", "-o", l.billbridge, "billbridge/cmd/billbridge").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	p, err := l.role("backend")
	if err == nil {
		l.backend = p.at
	}
	return err
}

// stop ends all processes and removes all files.
func (l *lab) stop() {
	l.cancel()
	for _, p := range l.started {
		_ = p.command.Wait()
	}
	_ = os.RemoveAll(l.dir)
}

// sleep returns an error if the run is ended before.
func (l *lab) sleep(d time.Duration) error {
	select {
	case <-l.ctx.Done():
		return l.ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// role starts this program in one of its roles.
func (l *lab) role(name string, more ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	at, err := l.freeAddress()
	if err != nil {
		return nil, err
	}
	return l.start(at, self, append([]string{"role", name, at}, more...)...)
}

// gateway starts a binary of billbridge with a config, to which the listeners are added.
func (l *lab) gateway(binary, config string) (*process, error) {
	at, err := l.freeAddress()
	if err != nil {
		return nil, err
	}
	admin, err := l.freeAddress()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(l.dir, fmt.Sprintf("config%d.yaml", len(l.started)))
	config = fmt.Sprintf("listen: %s\nadmin: {listen: %s}\n", at, admin) + config
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	p, err := l.start(at, binary, "serve", "--config", file)
	if err == nil {
		p.admin = admin
	}
	return p, err
}

// start starts a server, with a file for its output.
func (l *lab) start(at, program string, args ...string) (*process, error) {
	p := &process{at: at, log: filepath.Join(l.dir, fmt.Sprintf("process%d.log", len(l.started)))}
	// Appended, so that the file can be emptied while the process writes.
	output, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }()
	p.command = exec.CommandContext(l.ctx, program, args...)
	p.command.Stdout, p.command.Stderr = output, output
	// nginx must end its worker, so it is not killed at once.
	p.command.Cancel = func() error { return p.command.Process.Signal(syscall.SIGTERM) }
	p.command.WaitDelay = 5 * time.Second
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	l.started = append(l.started, p)
	return p, nil
}

// emptyLogs empties the logs: they grow by some 100 MB a minute.
func (p *process) emptyLogs() error {
	err := os.Truncate(p.log, 0)
	if p.access != "" {
		err = errors.Join(err, os.Truncate(p.access, 0))
	}
	return err
}

// tail returns the last lines that a process has printed.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// freeAddress returns an address on which nothing listens, another one each time.
func (l *lab) freeAddress() (string, error) {
	for {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		at := listener.Addr().String()
		if err := listener.Close(); err != nil {
			return "", err
		}
		if !slices.Contains(l.addresses, at) {
			l.addresses = append(l.addresses, at)
			return at, nil
		}
	}
}

// cpu returns the user and system time that a process and its children have used.
func (p *process) cpu() (time.Duration, error) {
	pid := p.command.Process.Pid
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	var total time.Duration
	found := false
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the process has ended
		}
		s, err := parseStat(text)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		if s.pid == pid || s.parent == pid {
			total += s.cpu
			found = found || s.pid == pid
		}
	}
	if !found {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	return total, nil
}

// A processStat is a part of /proc/PID/stat.
type processStat struct {
	pid, parent int
	cpu         time.Duration
}

// parseStat reads fields 1, 4, 14 and 15 (proc(5)). Times are in ticks of 10 ms.
func parseStat(text []byte) (processStat, error) {
	first, _, _ := bytes.Cut(text, []byte(" "))
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the name before it can contain spaces
	if len(fields) < 13 {
		return processStat{}, fmt.Errorf("%q has too few fields", text)
	}
	pid, err1 := strconv.Atoi(string(first))
	parent, err2 := strconv.Atoi(fields[1])
	user, err3 := strconv.Atoi(fields[11])
	system, err4 := strconv.Atoi(fields[12])
	return processStat{pid, parent, time.Duration(user+system) * 10 * time.Millisecond}, errors.Join(err1, err2, err3, err4)
}
