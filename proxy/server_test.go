package proxy_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/server"
)

// A process is a server that runs in this process, and its admin listener.
type process struct {
	*server.Server
	caller
	logs  *proxytest.Log
	text  atomic.Pointer[string] // the config file
	stop  context.CancelFunc
	ended chan error
}

const anyPort = "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\n"

// newProcess starts a server. A reload reads the current process.text.
func newProcess(t testing.TB, text string) *process {
	t.Helper()
	return newProcessOnSockets(t, text, nil)
}

// newProcessTo starts a server with one upstream.
func newProcessTo(t testing.TB, form string, up *backend, more ...string) *process {
	t.Helper()
	return newProcess(t, anyPort+oneUpstream(form, up.url, more...))
}

// newProcessOnSockets is newProcess with listeners that are already open, as systemd passes them.
func newProcessOnSockets(t testing.TB, text string, sockets map[string]net.Listener) *process {
	t.Helper()
	p := &process{caller: caller{t: t, client: newClient(t, nil)}, logs: &proxytest.Log{}, ended: make(chan error, 1)}
	p.text.Store(&text)
	load := func() (*config.Config, error) { return proxytest.ParseConfig(*p.text.Load()) }
	var err error
	p.Server, err = server.Listen(t.Context(), proxytest.Config(t, text), load, sockets, server.Build{Version: "1.2.3", Revision: "abc", GoVersion: "go1"},
		slog.New(slog.NewJSONHandler(p.logs, nil)))
	must(t, err)
	p.url = "http://" + p.Address()
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() { p.ended <- p.Run(ctx); close(p.ended) }()
	t.Cleanup(func() {
		p.client.CloseIdleConnections()
		stop()
		must(t, receive(t, p.ended, "end of the server"))
	})
	return p
}

// drain stops the server and waits until its drain has begun.
func (p *process) drain() {
	p.t.Helper()
	p.stop()
	p.waitForLog(`"draining"`)
}

// mustRun fails if the server has ended.
func (p *process) mustRun() {
	p.t.Helper()
	select {
	case err := <-p.ended:
		p.t.Fatalf("the server has ended: %v", err)
	default:
	}
}

// waitForAdmin waits until the answer of the admin listener has a word, or with ! before it no longer has it.
func (p *process) waitForAdmin(path, word string) {
	p.t.Helper()
	word, absent := strings.CutPrefix(word, "!")
	body := ""
	proxytest.Eventually(p.t, func() bool { body = p.admin("GET", path).body; return strings.Contains(body, word) != absent },
		func() string { return path + ": " + body })
}

// startFails fails unless a server with this config does not start, with such an error.
func startFails(t *testing.T, ctx context.Context, text string, sockets map[string]net.Listener, says string) {
	t.Helper()
	s, err := server.Listen(ctx, proxytest.Config(t, text), nil, sockets, server.Build{}, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%v %v, want %s", s, err, says)
	}
}

func (p *process) admin(method, path string, headers ...string) answer {
	p.t.Helper()
	return (&caller{p.t, "http://" + p.AdminAddress(), p.client}).do(method, path, "", headers...)
}

// Answers of the admin listener are not stored by browsers and proxies, and are taken for nothing but their type.
func TestAdminAnswersAreNotStored(t *testing.T) {
	t.Parallel()
	p := newProcess(t, strings.Replace(anyPort, "0}", "0, token: letmein-letmein-letmein}", 1)+"upstreams: {up: {form: v2, url: "+refusedURL+"}, other: {form: v2, url: "+refusedURL+"}}\nroute: {default: up}\nrollout: {old: up, new: other, bills: shared}\n")
	for _, path := range []string{"/rollout", "/rollout/bills", "/callbacks", "/audit", "/store/clock", "/metrics", "/-/healthy", "/-/ready", "/-/identity", "/", "/none"} {
		for _, token := range []string{"Bearer letmein-letmein-letmein", "-"} {
			h := p.admin("GET", path, "Authorization", token).header
			if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %v", path, h)
			}
		}
	}
}

// Health, build info, reload and the metrics of reloads.
func TestAdminListener(t *testing.T) {
	t.Parallel()
	back := newBackend(t, newService())
	p := newProcessTo(t, "v2", back)
	p.expect(legacy("create"), success)
	equal(t, back.first(t).header.Get("User-Agent"), "billbridge/1.2.3")
	for _, row := range tableOf(t) {
		status, target, _ := strings.Cut(row[0], " ")
		code, err := strconv.Atoi(status)
		must(t, err)
		equal(t, strings.TrimSpace(p.ask(code, target)), row[1], target)
	}
	scraped := filterMetrics(p.metrics(), "billbridge_config", "billbridge_build")
	got := regexp.MustCompile(`\d\.\d+e\+09`).ReplaceAllString(scraped, "NOW")
	want := `billbridge_build_info{goversion="go1",revision="abc",version="1.2.3"} 1
billbridge_config_last_reload_success_timestamp_seconds NOW
billbridge_config_last_reload_successful 1
`
	equal(t, got, want)
	checkText(t, p.metrics(), "\ngo_goroutines ", "\nprocess_open_fds ", "\nbillbridge_requests_total{")
}

// An invalid config, and one that needs a restart, leave the last good config in use. Answer and metrics show it.
func TestReload(t *testing.T) {
	t.Parallel()
	first, second := newBackend(t, newService()), newBackend(t, newService())
	good := anyPort + oneUpstream("v2", first.url)
	p := newProcess(t, good)
	for text, says := range map[string]string{
		"listen: [":            "billbridge.yaml:",
		good + "nonsense: 1\n": "unknown key",
		strings.Replace(good, "listen: 127.0.0.1:0\n", "listen: 127.0.0.1:1\n", 1): "listen has changed: restart to change it",
		strings.Replace(good, "{listen: 127.0.0.1:0}", "{listen: 127.0.0.1:1}", 1): "admin.listen has changed: restart to change it",
	} {
		p.text.Store(&text)
		p.reload(400, text, says, "not reloaded, the last good config stays:\n")
		play(p, "metric billbridge_config_last_reload_successful 0\nnoSuchBill legacy resend")
	}
	first.expectCalls(t, 4)
	p.reload(200, anyPort+"upstreams: {other: {form: v2, url: "+second.url+"}}\n")
	p.expect(legacy("resend"), noSuchBill)
	first.expectCalls(t, 4)
	second.expectCalls(t, 1)
	checkText(t, p.metrics(), "billbridge_config_last_reload_successful 1\n", `!upstream="up"`)
}

// An error of a listener names its key, and the other listeners are closed. The admin socket that systemd passes can have
// another address than the config.
func TestListenErrors(t *testing.T) {
	t.Parallel()
	taken, up := newSocket(t).Addr().String(), oneUpstream("v2", refusedURL)
	startFails(t, t.Context(), strings.Replace(anyPort, "127.0.0.1:0", taken, 1)+up, nil, "listen: listen tcp "+taken)
	startFails(t, t.Context(), strings.Replace(anyPort, "{listen: 127.0.0.1:0", "{listen: "+taken, 1)+up, nil, "admin.listen: listen tcp "+taken)
	l, err := net.Listen("tcp", "0.0.0.0:0")
	must(t, err)
	defer l.Close()
	startFails(t, t.Context(), anyPort+up, map[string]net.Listener{"admin.listen": l}, "admin.token is not set, and the admin socket listens on ")
}

// After the signal to stop, the server is not ready and accepts no new connection. Calls in progress are completed, and their
// connections are closed, on which the next call would be lost; also while the drain still waits for a silent one.
func TestR38_Drain(t *testing.T) {
	t.Parallel()
	g, back := newHeldBackend(t, "/send", 8)
	p := newProcessTo(t, "legacy", back)
	p.open("") // it says nothing
	done := make(chan []answer, 8)
	for i := range 8 {
		go func() {
			done <- p.raw(false, nextCall(legacy("create").with("billId", fmt.Sprintf("1234567890ABCDEFGH%02d", i))))
		}()
		receive(t, g.reached, "call at the backend")
	}
	p.drain()
	p.ask(503, "GET /-/ready")
	eventually(t, "new connections are accepted during the drain", func() bool { // the listener closes right after
		conn, err := net.Dial("tcp", p.Address())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	p.mustRun()
	g.open()
	for range 8 {
		got := receive(t, done, "answer")
		if len(got) != 1 || got[0].header.Get("Connection") != "close" {
			t.Fatalf("%+v", got)
		}
		got[0].check(t, "legacy", success)
	}
}

// During hundreds of calls the config changes between two settings of one upstream, and between upstreams.
func TestR38_ReloadUnderLoadDropsNothing(t *testing.T) {
	t.Parallel()
	service := newService()
	a, b := newBackend(t, service), newBackend(t, service)
	texts := []string{
		anyPort + oneUpstream("v2", a.url),
		anyPort + strings.Replace(oneUpstream("v2", a.url), "30s", "31s", 1),
		anyPort + oneUpstream("legacy", b.url),
		anyPort + "upstreams: {x: {form: legacy, url: " + b.url + "}, up: {form: v2, url: " + a.url + "}}\nroute: {default: up}\n" + waitsLonger,
	}
	p := newProcess(t, texts[0])
	const callers, each = 8, 40
	var calling sync.WaitGroup
	var done atomic.Int64
	for c := range callers {
		calling.Go(func() {
			for i := range each {
				p.expect(newCall(forms[i%2], "create").with("billId", fmt.Sprintf("12345678%04d%08d", c, i)), success)
				done.Add(1)
			}
		})
	}
	reloads := 0
	for ; done.Load() < callers*each; reloads++ {
		p.text.Store(&texts[reloads%len(texts)])
		must(t, p.Reload())
	}
	calling.Wait()
	equal(t, reloads >= 4, true, reloads)
	equal(t, service.Calls()["bill.create"], callers*each)
	equal(t, len(service.Bills()), callers*each)
}
