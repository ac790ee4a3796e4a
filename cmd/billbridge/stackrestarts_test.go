package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
		s.run(t, scenario, "http", to, networkTime, func(create func(string)) {
			for !over.Load() {
				create("m")
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
	p := startWithSockets(t, "listen", s.config("192.0.2.1:1", "127.0.0.1:0"), socket)
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

// haproxyForGateways has the addresses of partners, of two gateways, and of a page that says which of them is used.
const haproxyForGateways = `
defaults
	mode http
	timeout connect 5s
	timeout client 2m
	timeout server 2m
listen partners
	bind %s
	option httpchk GET /-/ready
	default-server check port 9090 inter 500ms fall 1 rise 1
	server one %s
	server two %s
listen page
	bind %s
	stats enable
	stats uri /
`

// serverUp matches a line of that page.
var serverUp = regexp.MustCompile(`(?m)^partners,(one|two),.*,UP,`)

// restartsBehindHAProxy restarts two gateways in turn, each when HAProxy uses both.
func (s *stackTrial) restartsBehindHAProxy(t *testing.T) {
	const scenario = "restart, HAProxy"
	if _, err := exec.LookPath("haproxy"); err != nil {
		t.Logf("%s: not tested, since haproxy is missing", scenario)
		return
	}
	partners, page := s.address(3, 8080), s.address(3, 9090)
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	proxytest.WriteFile(t, file, fmt.Sprintf(haproxyForGateways, partners, s.address(1, 8080), s.address(2, 8080), page))
	gateways := make([]*gateway, 2)
	start := func(i int) {
		gateways[i] = serve(t, t.TempDir(), nil, s.config(s.address(i+1, 8080), s.address(i+1, 9090)))
	}
	start(0)
	start(1)
	proxy, err := launch(t.TempDir(), "haproxy", "-db", "-f", file)
	must(t, err)
	t.Cleanup(proxy.kill)
	bothUp := func() {
		t.Helper()
		proxytest.Eventually(t, func() bool {
			reply, err := http.Get("http://" + page + "/;csv")
			if err != nil {
				return false
			}
			defer func() { _ = reply.Body.Close() }()
			text, err := io.ReadAll(reply.Body)
			return err == nil && len(serverUp.FindAll(text, -1)) == 2
		}, func() string { return proxy.all("stdout", "stderr") })
	}
	bothUp()
	s.runDuring(t, scenario, partners, func(await func(int64)) {
		for n := range stackRestarts {
			await(stackCallsBetween)
			stopGateway(t, gateways[n%2].process)
			start(n % 2)
			bothUp()
		}
		await(stackCallsBetween)
	})
}
