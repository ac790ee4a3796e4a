package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/accesslog"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"
	"billbridge/proxy/sandbox"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"pgregory.net/rapid"
)

// testTimeout ends a test that would hang. No test sleeps.
const testTimeout = 2 * time.Minute

// refusedURL is an address at which nothing listens: it refuses every connection.
const refusedURL = "http://127.0.0.2:9"

// fixedTime is 12:34:56 in Seoul.
var fixedTime = time.Date(2026, 11, 21, 3, 34, 56, 0, time.UTC)

var must = proxytest.Must

// forms are the two forms of the interface. Most tests run for each pair of them.
var forms = []string{"v2", "legacy"}

// limits, timeouts and waits return lines of a config: see [proxytest.Tuned].
func limits(change func(*config.Limits)) string {
	return proxytest.Tuned(func(c *config.Config) { change(&c.Limits) })
}

func timeouts(change func(*config.Timeouts)) string {
	return proxytest.Tuned(func(c *config.Config) { change(&c.Timeouts) })
}

func waits(wait time.Duration) string {
	return proxytest.Tuned(func(c *config.Config) {
		for i := range c.Upstreams {
			c.Upstreams[i].Wait = wait
		}
	})
}

// waitsLonger is for a busy machine, which can stand still for seconds.
var waitsLonger = waits(30 * time.Second)

// oneUpstream returns the config of a gateway with one upstream, and the given further lines.
func oneUpstream(form, url string, more ...string) string {
	return fmt.Sprintf("upstreams: {up: {form: %s, url: %q, timeout: 30s}}\n", form, url) + waitsLonger + strings.Join(more, "\n") + "\n"
}

// sharedBills returns the config of a gateway whose two upstreams have the same bills.
func sharedBills(url string) string {
	return fmt.Sprintf("upstreams: {old: {form: v2, url: %[1]q}, new: {form: v2, url: %[1]q}}\nroute: {default: old}\n"+
		"rollout: {old: old, new: new, bills: shared}\n", url) + waitsLonger
}

// A caller calls a gateway. Its methods can be used in every goroutine.
type caller struct {
	t      testing.TB
	url    string
	client *http.Client
}

// post makes one call. Headers come in pairs; the Content-Type "-" means no Content-Type.
func (c *caller) post(path, body string, headers ...string) answer {
	c.t.Helper()
	return c.do(http.MethodPost, path, body, headers...)
}

func (c *caller) do(method, path, body string, headers ...string) answer {
	c.t.Helper()
	got, err := doRequest(c.client, method, c.url+path, body, headers...)
	if err != nil && c.t.Context().Err() == nil { // a call of a test that has ended would end all tests by a panic
		c.t.Error(err)
	}
	return got
}

// send makes the call.
func (c *caller) send(q call, headers ...string) answer {
	c.t.Helper()
	return c.post(q.path(), q.body(), headers...)
}

// expect makes the call and checks its answer.
func (c *caller) expect(q call, want wantAnswer, says ...string) answer {
	c.t.Helper()
	got := c.send(q)
	got.check(c.t, q.form, want, says...)
	return got
}

// later makes the call in another goroutine.
func (c *caller) later(q call) <-chan answer {
	got := make(chan answer, 1)
	go func() { got <- c.send(q) }()
	return got
}

// A gateway is a proxy.Gateway behind a real listener, and a client that calls it.
type gateway struct {
	*proxy.Gateway
	caller
	logs     *proxytest.Log
	registry *prometheus.Registry
	finished func(*proxy.Finished)                         // gets what the console gets; may be nil
	wrap     func(http.ResponseWriter) http.ResponseWriter // of the listener; may be nil
}

func newGateway(t testing.TB, text string) *gateway {
	t.Helper()
	b := &gateway{caller: caller{t: t, client: newClient(t, nil)}, logs: &proxytest.Log{}, registry: prometheus.NewRegistry()}
	logs := accesslog.New(b.logs, func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) })
	c, o := proxytest.Config(t, text), proxy.Options{
		Registerer: b.registry, Logger: slog.New(logs),
		Finished: func(f *proxy.Finished) { // as with the console, which is on by default
			if b.finished != nil {
				b.finished(f)
			}
		},
	}
	var err error
	if c.Rollout != nil {
		o.Rollout, err = routing.New(t.Context(), c, routing.Options{})
		must(t, err)
	}
	b.Gateway, err = proxy.New(c, o)
	must(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.wrap != nil {
			w = b.wrap(w)
		}
		b.ServeHTTP(w, r)
	}))
	b.url = server.URL
	t.Cleanup(func() { b.client.CloseIdleConnections(); server.Close(); b.Close() })
	return b
}

// newGatewayTo returns a gateway with one upstream.
func newGatewayTo(t testing.TB, form string, up *backend, more ...string) *gateway {
	t.Helper()
	return newGateway(t, oneUpstream(form, up.url, more...))
}

// newClient returns a client that does not follow redirects and keeps its connections open.
func newClient(t testing.TB, transport *http.Transport) *http.Client {
	if transport == nil {
		transport = &http.Transport{MaxIdleConnsPerHost: 64}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport, Timeout: testTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// An answer is the gateway's answer to a caller.
type answer struct {
	status int
	header http.Header
	body   string
}

func doRequest(client *http.Client, method, url, body string, headers ...string) (answer, error) {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "-" {
			r.Header.Del(headers[i])
			continue
		}
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
		if headers[i] == "Content-Type" {
			r.Header[headers[i]] = headers[i+1 : i+2]
		}
	}
	res, err := client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(got)}, err
}

// scrape returns the metrics without comments. With names, it returns only the lines that begin with one of them.
func (b *gateway) scrape(names ...string) string {
	b.t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(b.registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return filterMetrics(w.Body.String(), names...)
}

// checkMetrics fails unless each line is among the metrics.
func (b *gateway) checkMetrics(lines ...string) {
	b.t.Helper()
	got := b.scrape()
	for _, line := range lines {
		checkText(b.t, "\n"+got, "\n"+line+"\n")
	}
}

func filterMetrics(text string, names ...string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if line[0] != '#' && (len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(line, n) })) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// eachForm runs a parallel test for each form of the caller.
func eachForm(t *testing.T, test func(t *testing.T, client string)) {
	t.Helper()
	for _, client := range forms {
		parallel(t, client, func(t *testing.T) { test(t, client) })
	}
}

// eachPair runs a parallel test for each form of the caller and each form of the upstream.
func eachPair(t *testing.T, test func(t *testing.T, client, upstream string)) {
	t.Helper()
	eachForm(t, func(t *testing.T, client string) {
		eachForm(t, func(t *testing.T, upstream string) { test(t, client, upstream) })
	})
}

// checkText fails unless the text has each of the words, and none of those that follow a "!".
func checkText(t rapid.TB, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		word, absent := strings.CutPrefix(word, "!")
		if strings.Contains(text, word) == absent {
			t.Errorf("contains %q: %t, in\n%s", word, absent, text)
		}
	}
}

// equal fails unless got is want. about says what they are.
func equal[T comparable](t rapid.TB, got, want T, about ...any) {
	t.Helper()
	if got != want {
		t.Errorf("got %v, want %v %v", got, want, about)
	}
}

// parallel runs a parallel subtest.
func parallel(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t)
	})
}

var rows = proxytest.RowsIn

// eventually waits until so is true.
func eventually(t testing.TB, otherwise string, so func() bool) {
	t.Helper()
	proxytest.Eventually(t, so, func() string { return otherwise })
}

// receive waits for a value, at most testTimeout.
func receive[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	timer := time.NewTimer(testTimeout)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		t.Fatalf("no %s", what)
		panic("unreachable")
	}
}

// A received is a call as an upstream got it.
type received struct {
	method, target, host string
	header               http.Header
	body                 string
	first                bool // on its connection
}

// A backend is an upstream that keeps the calls that it got.
type backend struct {
	url string
	mu  sync.Mutex
	got []received
}

// newBackend serves h. h can read the body of a call again.
func newBackend(t testing.TB, h http.Handler) *backend {
	t.Helper()
	b := &backend{}
	type callsKey struct{} // of a connection
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		first := r.Context().Value(callsKey{}).(*atomic.Int64).Add(1) == 1
		r.Body = io.NopCloser(bytes.NewReader(body))
		b.mu.Lock()
		b.got = append(b.got, received{r.Method, r.RequestURI, r.Host, r.Header, string(body), first})
		b.mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, callsKey{}, new(atomic.Int64))
	}
	server.Start()
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

func newBackendFunc(t testing.TB, h http.HandlerFunc) *backend {
	t.Helper()
	return newBackend(t, h)
}

func (b *backend) received() []received {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.got)
}

// first is the first call that the backend got.
func (b *backend) first(t testing.TB) received {
	t.Helper()
	got := b.received()
	if len(got) == 0 {
		t.Fatal("no call reached the upstream")
	}
	return got[0]
}

func (b *backend) count() int { return len(b.received()) }

// expectCalls fails unless the backend has got so many calls.
func (b *backend) expectCalls(t testing.TB, want int) {
	t.Helper()
	equal(t, b.count(), want, "calls at the upstream")
}

// replyWith is an upstream that gives the same reply to every call.
func replyWith(status int, body string, headers ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

var (
	// denies is an upstream that has no bill.
	denies = replyWith(http.StatusOK, `{"code":"BILL_003","message":"none","data":null}`, "Content-Length", "48")
	// aborts is an upstream that closes the connection without an answer.
	aborts = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
)

// newService returns a sandbox with a fixed clock, so that its replies are the same in every run.
func newService(change ...func(o *sandbox.Options)) *sandbox.Service {
	o := sandbox.Options{BaseURL: "https://pay.example.com", Clock: func() time.Time { return fixedTime }, Transport: noCallbacks{}}
	for _, c := range change {
		c(&o)
	}
	return sandbox.New(o)
}

// noCallbacks fails every callback of a sandbox.
type noCallbacks struct{}

func (noCallbacks) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("this test has no server for callbacks")
}

// last is the last call that the backend got.
func (b *backend) last(t testing.TB) received {
	t.Helper()
	b.first(t)
	got := b.received()
	return got[len(got)-1]
}

// A bridge is a gateway with one upstream, which is a sandbox.
type bridge struct {
	*gateway
	service *sandbox.Service
	back    *backend
}

func newBridge(t testing.TB, form string, more ...string) *bridge {
	t.Helper()
	service := newService()
	back := newBackend(t, service)
	return &bridge{newGatewayTo(t, form, back, more...), service, back}
}

// inForm is what belongs to a form.
func inForm(form, v2, legacy string) string {
	if form == "v2" {
		return v2
	}
	return legacy
}
