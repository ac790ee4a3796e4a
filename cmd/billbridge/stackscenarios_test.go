package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// What HTTP stacks make of calls through a gateway whose connections end. The table is the result. The test fails if
// the gateway sends a create twice, a stack was told of a success without a bill, or no call of a stack succeeds.
// .ci/stacks installs the stacks.
func TestHTTPStacks(t *testing.T) {
	t.Parallel()
	modules := os.Getenv("BILLBRIDGE_STACKS")
	if modules == "" {
		t.Skip("not tested: BILLBRIDGE_STACKS does not name the folder of npm's modules; .ci/stacks sets it")
	}
	s := newStackTrial(t, modules)
	defer func() {
		for i := range s.rows {
			s.backend.judge(&s.rows[i])
			s.rows[i].check(t)
		}
		t.Logf("\n%s", stackTable(s.rows))
	}()
	for _, scenario := range []func(*testing.T){
		s.twentyCalls, s.overTLS, s.idleMoment, s.restarts, s.kills,
	} {
		scenario(t)
	}
}

// A stackTrial is the stacks, a backend, and what was counted.
type stackTrial struct {
	folder, modules string // modules is that of npm's modules
	backend         *countingBackend
	drivers         []*driver
	bills           atomic.Int64
	rows            []stackRow
}

func newStackTrial(t *testing.T, modules string) *stackTrial {
	t.Helper()
	s := &stackTrial{folder: t.TempDir(), modules: modules, backend: newCountingBackend(t)}
	authority := proxytest.NewCertificate(t, "authority", nil)
	front := proxytest.NewCertificate(t, "front", &authority)
	files := map[string][]byte{"ca.pem": authority.Cert, "front.crt": front.Cert, "front.key": front.Key}
	for name, data := range files {
		proxytest.WriteFile(t, filepath.Join(s.folder, name), data)
	}
	stacks := httpStacks(t, s.folder, modules)
	for _, command := range [][]string{
		{"go", "build", "-o", "nethttp", filepath.Join(stackFolder(t), "nethttp.go")},
		{"keytool", "-importcert", "-noprompt", "-file", "ca.pem", "-keystore", "ca.p12", "-storepass", "changeit"},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = s.folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("%s: %v\n%s", command[0], err, out) // the stacks that need it say so
		}
	}
	for _, stack := range stacks {
		if missing := stack.missing(); missing != "" {
			t.Logf("%s: not tested, since %s is missing", stack.name, missing)
			continue
		}
		s.drivers = append(s.drivers, s.startDriver(t, stack))
	}
	return s
}

// create makes a create of a new bill with a stack.
func (s *stackTrial) create(t *testing.T, d *driver, r *stackRow, url string) {
	bill := s.newBill()
	r.bills[bill] = false // the driver may not answer
	body := operationBody("legacy", "create", billRef{trialKey, bill}, "m", false)
	said, ok := d.post(t, url+operationPath("legacy", "create"), body)
	if r.calls++; !ok {
		r.errors++
		r.note = cmp.Or(r.note, said)
	}
	r.bills[bill] = ok
}

func (s *stackTrial) newBill() string { return fmt.Sprintf("S%08d", s.bills.Add(1)) }

// run does a scenario with all stacks at the same time, each over a link of its own to a gateway.
func (s *stackTrial) run(
	t *testing.T, scenario, scheme, to string, takes time.Duration, calls func(create func()),
) {
	t.Helper()
	rows := make([]stackRow, len(s.drivers))
	var running sync.WaitGroup
	for i, d := range s.drivers {
		running.Go(func() {
			r := &rows[i]
			r.stack, r.scenario, r.bills = d.stack, scenario, map[string]bool{}
			address, connections := newStackLink(t, takes, to)
			calls(func() { s.create(t, d, r, scheme+"://"+address) })
			if r.note == "" {
				r.note = fmt.Sprint("connections: ", connections.Load())
			}
		})
	}
	running.Wait()
	s.rows = append(s.rows, rows...)
	s.drivers = slices.DeleteFunc(s.drivers, func(d *driver) bool { return d.broken })
}

// config is that of a gateway, with further lines.
func (s *stackTrial) config(listen, admin string, lines ...string) string {
	const text = "listen: %s\nadmin: {listen: %q}\nupstreams: {only: {form: v2, url: %q}}\nlog: {level: warn}\n%s\n"
	return fmt.Sprintf(text, listen, admin, s.backend.url, strings.Join(lines, "\n"))
}

func (s *stackTrial) serve(t *testing.T, listen string, lines ...string) *gateway {
	t.Helper()
	return serve(t, t.TempDir(), nil, s.config(listen, "127.0.0.1:0", lines...))
}

func (s *stackTrial) twentyCalls(t *testing.T) {
	s.run(t, "20 calls", "http", s.serve(t, "127.0.0.1:0").partners, 0, func(create func()) {
		for range 20 {
			create()
		}
	})
}

// idleMoment makes every other call at the moment when the gateway closes the idle connection. The stack cannot know
// it yet. A stack that obeys Keep-Alive, or that closes idle connections earlier, uses another connection.
func (s *stackTrial) idleMoment(t *testing.T) {
	const takes = 50 * time.Millisecond
	for _, c := range []struct {
		idle  time.Duration
		calls int
	}{{2 * time.Second, 8}, {8 * time.Second, 3}} {
		g := s.serve(t, "127.0.0.1:0", fmt.Sprintf("timeouts: {idle: %s}", c.idle))
		s.run(t, "idle for "+c.idle.String(), "http", g.partners, takes, func(create func()) {
			for range c.calls {
				create()
				<-time.After(c.idle - takes) // the gateway has waited for takes longer, and closes now
				create()
			}
		})
	}
}

func (s *stackTrial) overTLS(t *testing.T) {
	// The first handshake of a Java program on a busy machine takes longer than the 5 s that a header has by default.
	g := s.serve(t, "127.0.0.1:0", fmt.Sprintf("tls: {cert: %s/front.crt, key: %[1]s/front.key}", s.folder),
		"timeouts: {header: 1m, body: 1m}")
	s.run(t, "TLS", "https", g.partners, 0, func(create func()) {
		for range 5 {
			create()
		}
	})
}
