package main

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

const (
	networkTime       = 5 * time.Millisecond // from a stack to the gateway
	stackRestarts     = 4                    // or kills
	stackCallsBetween = 300
)

// runDuring makes calls with all stacks until a function returns. The function can wait for a number of calls.
func (s *stackTrial) runDuring(t *testing.T, scenario, to string, during func(await func(calls int64))) {
	t.Helper()
	var over atomic.Bool
	var made atomic.Int64
	var running sync.WaitGroup
	running.Go(func() {
		s.run(t, scenario, "http", to, networkTime, func(create func()) {
			for !over.Load() {
				create()
				made.Add(1)
			}
		})
	})
	defer running.Wait()
	defer over.Store(true)
	during(func(calls int64) {
		until := made.Load() + calls
		proxytest.Eventually(t, func() bool { return made.Load() >= until },
			func() string { return "the stacks make no calls" })
	})
}

// restarts restarts a gateway whose socket systemd holds.
func (s *stackTrial) restarts(t *testing.T) {
	address, socket := openSocket(t)
	g := s.startOnSocket(t, address, socket)
	s.runDuring(t, "restart, socket unit", address, func(await func(int64)) {
		for range stackRestarts {
			await(stackCallsBetween)
			stopGateway(t, g)
			g = s.startOnSocket(t, address, socket)
		}
		await(stackCallsBetween)
	})
}

func (s *stackTrial) startOnSocket(t *testing.T, address string, socket *os.File) *process {
	t.Helper()
	p := startWithEnv(t, []string{"LISTEN_FDNAMES=listen"}, s.config("192.0.2.1:1", "127.0.0.1:0"), socket)
	works(t)(p.await("stdout", "partners on "+address+","))
	return p
}

func stopGateway(t *testing.T, p *process) {
	t.Helper()
	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.ends(t)
}

// kills ends gateways by kill -9: at any moment, and while the backend has a call of every stack.
func (s *stackTrial) kills(t *testing.T) {
	address, socket := openSocket(t)
	g := s.startOnSocket(t, address, socket)
	s.runDuring(t, "kill -9", address, func(await func(int64)) {
		for n := range stackRestarts {
			await(stackCallsBetween)
			release := func() {}
			if n%2 == 1 {
				release = s.backend.hold()
				proxytest.Eventually(t, func() bool { return s.backend.waiting.Load() == int64(len(s.drivers)) },
					func() string {
						return fmt.Sprintf("%d of %d creates wait at the backend", s.backend.waiting.Load(), len(s.drivers))
					})
			}
			g.kill()
			_, _ = g.end()
			release()
			g = s.startOnSocket(t, address, socket)
		}
		await(stackCallsBetween)
	})
}
