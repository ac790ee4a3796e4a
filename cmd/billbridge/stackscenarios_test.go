package main

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"billbridge/proxy/proxytest"

	"github.com/tidwall/sjson"
)

// What HTTP stacks make of calls through a gateway whose connections end. The table is the result. The test fails if the
// gateway sends a create twice, or if a stack was told of a success without a bill. .ci/stacks installs the stacks.
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
		s.twentyCalls, s.slowReply, s.busy, s.idleMoment, s.restarts, s.restartsBehindHAProxy, s.kills, s.overTLS, s.callbacks,
	} {
		scenario(t)
	}
}

// A stackTrial is the stacks, a backend, and what was counted.
type stackTrial struct {
	folder, modules string // modules is that of npm's modules
	network         string // 127.x.y.; its addresses have ports of this test only
	backend         *countingBackend
	drivers         []*driver
	bills           atomic.Int64
	rows            []stackRow
}

func newStackTrial(t *testing.T, modules string) *stackTrial {
	t.Helper()
	s := &stackTrial{folder: t.TempDir(), modules: modules, network: fmt.Sprintf("127.%d.%d.", 1+rand.IntN(250), rand.IntN(250)), backend: newCountingBackend(t)}
	authority := proxytest.NewCertificate(t, "authority", nil)
	front := proxytest.NewCertificate(t, "front", &authority)
	for name, data := range map[string][]byte{"ca.pem": authority.Cert, "front.crt": front.Cert, "front.key": front.Key} {
		proxytest.WriteFile(t, filepath.Join(s.folder, name), data)
	}
	stacks := httpStacks(t, s.folder, modules)
	for _, command := range [][]string{
		{"go", "build", "-o", "nethttp", filepath.Join(stackFolder(t), "nethttp.go")},
		{"keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", "ca.pem", "-keystore", "ca.p12", "-storepass", "changeit"},
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
func (s *stackTrial) create(t *testing.T, d *driver, r *stackRow, url, merchant string) {
	bill := s.newBill()
	said, ok := d.post(t, url+operationPath("legacy", "create"), operationBody("legacy", "create", billRef{trialKey, bill}, merchant, false))
	if r.calls++; !ok {
		r.errors++
		r.note = cmp.Or(r.note, said)
	}
	r.bills[bill] = ok
}

func (s *stackTrial) newBill() string { return fmt.Sprintf("S%08d", s.bills.Add(1)) }

// run does a scenario with all stacks at the same time, each over a link of its own to a gateway.
func (s *stackTrial) run(t *testing.T, scenario, scheme, to string, takes time.Duration, calls func(create func(merchant string))) {
	t.Helper()
	rows := make([]stackRow, len(s.drivers))
	var running sync.WaitGroup
	for i, d := range s.drivers {
		running.Go(func() {
			r := &rows[i]
			r.stack, r.scenario, r.bills = d.stack, scenario, map[string]bool{}
			address, connections := newStackLink(t, takes, to)
			calls(func(merchant string) { s.create(t, d, r, scheme+"://"+address, merchant) })
			if r.note == "" {
				r.note = fmt.Sprint("connections: ", connections.Load())
			}
		})
	}
	running.Wait()
	s.rows = append(s.rows, rows...)
	s.drivers = slices.DeleteFunc(s.drivers, func(d *driver) bool { return d.broken })
}

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
		proxytest.Eventually(t, func() bool { return made.Load() >= until }, func() string { return "the stacks make no calls" })
	})
}

const (
	networkTime = 5 * time.Millisecond // from a stack to the gateway
	restarts    = 4                    // or kills
	between     = 300                  // calls between two of them
)

// config is that of a gateway, with further lines.
func (s *stackTrial) config(listen, admin string, lines ...string) string {
	return fmt.Sprintf("listen: %s\nadmin: {listen: %q}\nupstreams: {only: {form: v2, url: %q}}\nlog: {level: warn}\n%s\n",
		listen, admin, s.backend.url, strings.Join(lines, "\n"))
}

func (s *stackTrial) serve(t *testing.T, listen string, lines ...string) *gateway {
	t.Helper()
	return serve(t, t.TempDir(), nil, s.config(listen, "127.0.0.1:0", lines...))
}

func (s *stackTrial) twentyCalls(t *testing.T) {
	s.run(t, "20 calls", "http", s.serve(t, "127.0.0.1:0").partners, 0, func(create func(string)) {
		for range 20 {
			create("m")
		}
	})
}

// slowReply and busy show what a stack does by default with a reply that is late, or that says to come again.
func (s *stackTrial) slowReply(t *testing.T) {
	s.secondCall(t, "reply after "+slowReply.String(), merchantSlow)
}

func (s *stackTrial) busy(t *testing.T) { s.secondCall(t, "503, Retry-After: 1", merchantBusy) }

func (s *stackTrial) secondCall(t *testing.T, scenario, merchant string) {
	s.run(t, scenario, "http", s.serve(t, "127.0.0.1:0").partners, 0, func(create func(string)) {
		create("m")
		create(merchant)
	})
}

// idleMoment makes every other call at the moment when the gateway closes the idle connection. The stack cannot know it
// yet. A stack that obeys Keep-Alive uses another connection.
func (s *stackTrial) idleMoment(t *testing.T) {
	const idle, takes = 2 * time.Second, 50 * time.Millisecond
	g := s.serve(t, "127.0.0.1:0", "timeouts: {idle: 2s}")
	s.run(t, "idle moment", "http", g.partners, takes, func(create func(string)) {
		for range 8 {
			create("m")
			<-time.After(idle - takes) // the gateway has counted for one takes longer, and does not have the next call for another one
			create("m")
		}
	})
}

// restarts restarts a gateway whose socket systemd holds.
func (s *stackTrial) restarts(t *testing.T) {
	address, socket := openSocket(t)
	g := s.startOnSocket(t, address, socket)
	s.runDuring(t, "restart, socket unit", address, func(await func(int64)) {
		for range restarts {
			await(between)
			stopGateway(t, g)
			g = s.startOnSocket(t, address, socket)
		}
		await(between)
	})
}

func (s *stackTrial) startOnSocket(t *testing.T, address string, socket *os.File) *process {
	t.Helper()
	p := startWithSockets(t, "listen", s.config("192.0.2.1:1", "127.0.0.1:0"), socket)
	if _, err := p.await("stdout", "partners on "+address+","); err != nil {
		t.Fatal(err)
	}
	return p
}

func stopGateway(t *testing.T, p *process) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if code, err := p.end(); err != nil || code != exitOK {
		t.Errorf("exit code %d, %v:\n%s", code, err, p.all("stderr"))
	}
}

// kills ends gateways by kill -9: at any moment, and while the backend has a call of every stack.
func (s *stackTrial) kills(t *testing.T) {
	address, socket := openSocket(t)
	g := s.startOnSocket(t, address, socket)
	s.runDuring(t, "kill -9", address, func(await func(int64)) {
		for n := range restarts {
			await(between)
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
		await(between)
	})
}

func (s *stackTrial) overTLS(t *testing.T) {
	tls := fmt.Sprintf("tls: {cert: %q, key: %q}", filepath.Join(s.folder, "front.crt"), filepath.Join(s.folder, "front.key"))
	s.run(t, "TLS", "https", s.serve(t, "127.0.0.1:0", tls).partners, 0, func(create func(string)) {
		for range 5 {
			create("m")
		}
	})
}

// restartsBehindHAProxy restarts two gateways in turn, each when HAProxy uses both.
func (s *stackTrial) restartsBehindHAProxy(t *testing.T) {
	const scenario = "restart, HAProxy"
	if _, err := exec.LookPath("haproxy"); err != nil {
		t.Logf("%s: not tested, since haproxy is missing", scenario)
		return
	}
	file, partners, page := filepath.Join(t.TempDir(), "haproxy.cfg"), s.address(3, 8080), s.address(3, 9090)
	proxytest.WriteFile(t, file, strings.NewReplacer("ONE", s.address(1, 8080), "TWO", s.address(2, 8080), "PARTNERS", partners, "PAGE", page).Replace(`
defaults
	mode http
	timeout connect 5s
	timeout client 2m
	timeout server 2m
listen partners
	bind PARTNERS
	option httpchk GET /-/ready
	default-server check port 9090 inter 500ms fall 1 rise 1
	server one ONE
	server two TWO
listen page
	bind PAGE
	stats enable
	stats uri /
`))
	gateways := make([]*gateway, 2)
	start := func(i int) {
		gateways[i] = serve(t, t.TempDir(), nil, s.config(s.address(i+1, 8080), s.address(i+1, 9090)))
	}
	start(0)
	start(1)
	proxy, err := launch(t.TempDir(), "haproxy", "-db", "-f", file)
	if err != nil {
		t.Fatal(err)
	}
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
		for n := range restarts {
			await(between)
			stopGateway(t, gateways[n%2].process)
			start(n % 2)
			bothUp()
		}
		await(between)
	})
}

// serverUp matches a line of HAProxy's page.
var serverUp = regexp.MustCompile(`(?m)^partners,(one|two),.*,UP,`)

func (s *stackTrial) address(host, port int) string { return fmt.Sprint(s.network, host, ":", port) }

// callbacks delivers callbacks of payments to receivers.
func (s *stackTrial) callbacks(t *testing.T) {
	at := s.address(4, 8080)
	g := s.serve(t, at, `store: {url: "sqlite:billbridge.db"}`,
		"callbacks: {public_url: \"http://"+at+"\", allow: [127.0.0.0/8], ports: []}")
	folder := stackFolder(t)
	for i, c := range [][]string{
		{"Java", "java", folder + "/Receiver.java", "HOST", "PORT"},
		{"PHP", "php", "-S", "HOST:PORT", folder + "/receiver.php"},
		{"Node", "node", folder + "/receiver.js", "HOST", "PORT"},
		{"Python", "/usr/bin/python3", folder + "/receiver.py", "HOST", "PORT"},
	} {
		if _, err := exec.LookPath(c[1]); err != nil {
			t.Logf("callbacks: not tested with %s, since %s is missing", c[0], c[1])
			continue
		}
		host := fmt.Sprint(s.network, 5+i)
		for n := range c {
			c[n] = strings.NewReplacer("HOST", host, "PORT", "8080").Replace(c[n])
		}
		p, err := launch(s.folder, c[1], c[2:]...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		proxytest.Eventually(t, func() bool {
			c, err := net.Dial("tcp", host+":8080")
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		}, func() string { return p.all("stdout", "stderr") })
		s.rows = append(s.rows, s.callBack(t, p, c[0], "http://"+g.partners, "http://"+host+":8080/paid"))
	}
}

// callBack pays bills whose callbacks go to a receiver.
func (s *stackTrial) callBack(t *testing.T, p *process, name, gateway, address string) stackRow {
	r := stackRow{stack: name, scenario: "callbacks", bills: map[string]bool{}}
	for range 20 {
		bill := s.newBill()
		body, err := sjson.Set(operationBody("legacy", "create", billRef{trialKey, bill}, "m", false), "bill.callbackURL", address)
		if status, answer := httpCall(t, http.MethodPost, gateway+operationPath("legacy", "create"), body); err != nil || status != http.StatusOK {
			t.Fatal(status, answer, err)
		}
		if err := s.backend.Pay(trialKey, bill); err != nil {
			t.Fatal(err)
		}
		r.bills[bill] = true
	}
	received := map[string]int{}
	for len(received) < len(r.bills) {
		line, err := p.await("stdout", `"bill_id":"(?P<bill>[^"]+)"`)
		if err != nil {
			t.Fatalf("callbacks, %s: %v", name, err)
		}
		received[line["bill"]]++
	}
	for _, n := range received {
		r.calls++
		if n > 1 {
			r.repeated++
		}
	}
	return r
}
