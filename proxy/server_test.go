package proxy_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
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
	p.Server, err = server.Listen(t.Context(), parse(t, text), load, sockets, server.Build{Version: "1.2.3", Revision: "abc", GoVersion: "go1"},
		slog.New(slog.NewJSONHandler(p.logs, nil)))
	must(t, err)
	p.url = "http://" + p.Address()
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() { p.ended <- p.Run(ctx); close(p.ended) }()
	t.Cleanup(func() {
		p.client.CloseIdleConnections()
		stop()
		if err := receive(t, p.ended, "end of the server"); err != nil {
			t.Error(err)
		}
	})
	return p
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
	equal(t, back.received()[0].header.Get("User-Agent"), "billbridge/1.2.3")
	for _, row := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/-/healthy", 200, "healthy\n"},
		{"GET", "/-/ready", 200, "ready\n"},
		{"POST", "/-/reload", 200, "reloaded\n"},
		{"GET", "/-/reload", 405, ""},
		{"GET", "/callbacks", 404, "it has no callbacks: its config has no store section\n"},
		{"GET", "/rollout", 404, "it has no rollout: its config has no rollout section\n"},
		{"POST", "/rollout/stop?by=anna", 404, "it has no rollout: its config has no rollout section\n"},
		{"POST", "/metrics", 405, ""},
		{"GET", "/-/nothing", 404, "404 page not found\n"},
		{"GET", "/store", 404, "it has no store: its config has no store section\n"},
	} {
		if got := p.admin(row.method, row.path); got.status != row.status || got.body != row.body {
			t.Errorf("%s %s: %d %q", row.method, row.path, got.status, got.body)
		}
	}
	scraped := filterMetrics(p.metrics(), "billbridge_config", "billbridge_build")
	got := regexp.MustCompile(`\d\.\d+e\+09`).ReplaceAllString(scraped, "NOW")
	want := `billbridge_build_info{goversion="go1",revision="abc",version="1.2.3"} 1
billbridge_config_last_reload_success_timestamp_seconds NOW
billbridge_config_last_reload_successful 1
`
	equal(t, got, want)
	for _, name := range []string{"go_goroutines ", "process_open_fds ", "billbridge_requests_total{"} {
		checkText(t, p.metrics(), "\n"+name)
	}
}

// An invalid config, and one that needs a restart, leave the last good config in use. Answer and metrics show it.
func TestReload(t *testing.T) {
	t.Parallel()
	first, second := newBackend(t, newService()), newBackend(t, newService())
	good := anyPort + oneUpstream("v2", first.url)
	p := newProcess(t, good)
	asked := func() (int, int) {
		p.expect(legacy("read"), noSuchBill)
		return first.count(), second.count()
	}
	asked()
	for _, row := range []struct{ text, says string }{
		{"listen: [", "billbridge.yaml:"},
		{good + "nonsense: 1\n", "unknown key"},
		{strings.Replace(good, "listen: 127.0.0.1:0\n", "listen: 127.0.0.1:1\n", 1), "listen has changed: restart to change it"},
		{strings.Replace(good, "{listen: 127.0.0.1:0}", "{listen: 127.0.0.1:1}", 1), "admin.listen has changed: restart to change it"},
		{good + "timeouts: {idle: 1s}\n", "timeouts has changed: restart to change it"},
	} {
		p.text.Store(&row.text)
		got := p.admin("POST", "/-/reload")
		if got.status != 400 || !strings.Contains(got.body, row.says) || !strings.HasPrefix(got.body, "not reloaded, the last good config stays:\n") {
			t.Errorf("%d %s, want %s", got.status, got.body, row.says)
		}
		equal(t, filterMetrics(p.metrics(), "billbridge_config_last_reload_successful"), "billbridge_config_last_reload_successful 0\n")
	}
	if a, b := asked(); a != 2 || b != 0 {
		t.Errorf("after bad reloads the upstreams got %d and %d calls", a, b)
	}
	next := anyPort + "upstreams: {other: {form: v2, url: " + second.url + "}}\n"
	p.text.Store(&next)
	p.mustPost("/-/reload")
	if a, b := asked(); a != 2 || b != 1 {
		t.Errorf("after a good reload the upstreams got %d and %d calls", a, b)
	}
	metrics := p.metrics()
	checkText(t, metrics, "billbridge_config_last_reload_successful 1\n", `!upstream="up"`)
}

// An error of a listener names its key, and the other listeners are closed.
func TestListenErrors(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	for _, key := range []string{"listen", "admin.listen"} {
		text := fmt.Sprintf("listen: %s\nadmin: {listen: 127.0.0.1:0}\n", taken.Addr())
		if key == "admin.listen" {
			text = fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: %q}\n", taken.Addr())
		}
		_, err := server.Listen(t.Context(), parse(t, text+oneUpstream("v2", refusedURL)), nil, nil, server.Build{}, slog.New(slog.DiscardHandler))
		if err == nil || !strings.HasPrefix(err.Error(), key+": ") {
			t.Errorf("%v", err)
		}
	}
}

// After the signal to stop, the server is not ready and accepts no new connection. Calls in progress are completed.
func TestR38_Drain(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan struct{}, 8), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	service := newService()
	back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-goOn
		service.ServeHTTP(w, r)
	})
	p := newProcessTo(t, "v2", back)
	done := make(chan answer, 8)
	for i := range 8 {
		q := legacy("create").with("billId", fmt.Sprintf("1234567890ABCDEFGH%02d", i))
		go func() {
			got, _ := doRequest(p.client, http.MethodPost, "http://"+p.Address()+q.path(), q.body())
			done <- got
		}()
	}
	for range 8 {
		receive(t, arrived, "call at the upstream")
	}
	p.stop()
	for !strings.Contains(p.logs.Next(t), `"draining"`) {
	}
	p.ask(503, "GET /-/ready")
	eventually(t, "new connections are accepted during the drain", func() bool { // the listener closes right after
		conn, err := net.Dial("tcp", p.Address())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	select {
	case err := <-p.ended:
		t.Fatalf("the server ended with calls under way: %v", err)
	default:
	}
	release()
	for range 8 {
		receive(t, done, "answer").check(t, "legacy", success)
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
		anyPort + "upstreams: {x: {form: legacy, url: " + b.url + "}, up: {form: v2, url: " + a.url + "}}\nroute: {default: up}\n",
	}
	for i, text := range texts { // a busy machine accepts connections slowly
		texts[i] = strings.ReplaceAll(text, "url:", "wait: 20s, url:")
	}
	p := newProcess(t, texts[0])
	const callers, each = 8, 40
	var calling sync.WaitGroup
	var done atomic.Int64
	for c := range callers {
		calling.Go(func() {
			for i := range each {
				q := newCall(forms[i%2], "create").with("billId", fmt.Sprintf("12345678%04d%08d", c, i))
				got, err := doRequest(p.client, http.MethodPost, "http://"+p.Address()+q.path(), q.body())
				if err != nil || got.status != 200 || codeOf(t, q.form, got.body) != "0000" {
					t.Errorf("%v %d %s", err, got.status, got.body)
				}
				done.Add(1)
			}
		})
	}
	reloads := 0
	for ; done.Load() < callers*each; reloads++ {
		p.text.Store(&texts[reloads%len(texts)])
		if err := p.Reload(); err != nil {
			t.Error(err)
		}
	}
	calling.Wait()
	if reloads < 4 {
		t.Errorf("only %d reloads", reloads)
	}
	if n := service.Calls()["bill.create"]; n != callers*each || len(service.Bills()) != n {
		t.Errorf("%d calls created %d bills of %d", n, len(service.Bills()), callers*each)
	}
}
