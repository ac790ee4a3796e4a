package relay_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/relay"
	"billbridge/proxy/store"
	"billbridge/translate"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// patience is the time limit of tests that would hang.
const patience = 30 * time.Second

const (
	key  = "demo-key"
	bill = "A1B2C3D4E5F6G7H8I9J0"
)

var forms = []translate.Form{"v2", "legacy"}

// documented are the answers that say a callback arrived, by form (field notes, Callbacks).
var documented = map[translate.Form]string{"v2": `{"code":"0000"}`, "legacy": `{"code":"0000","msg":"성공하였습니다."}`}

// A setup has the settings of a test that differ from the defaults.
type setup struct {
	form      translate.Form // the upstream's; if empty, v2
	public    string         // public_url; if empty, https://bridge.example.com
	callbacks string         // more keys of the section, each with a comma before it; or tuned
	jitter    bool           // as a config has it; otherwise none
	top       string         // more lines of the config
	store     string         // URL; if empty, one in memory
	now       func() time.Time
}

// reachable are addresses of this machine, which only a config that allows them reaches.
const reachable = `, ports: [], allow: [127.0.0.0/8, "::1/128"]`

func (s setup) config(t testing.TB) *config.Config {
	t.Helper()
	if s.form == "" {
		s.form = "v2"
	}
	if s.public == "" {
		s.public = "https://bridge.example.com"
	}
	c := proxytest.Config(t, fmt.Sprintf("upstreams: {up: {form: %s, url: \"http://127.0.0.2:9\", timeout: 20s}}\nstore: {url: sqlite:unused.db}\ncallbacks: {public_url: %q%s}\n%s\n",
		s.form, s.public, s.callbacks, s.top))
	if !s.jitter {
		c.Callbacks.Jitter = 0
	}
	return c
}

// tuned is [proxytest.Tuned] for the section callbacks.
func tuned(change func(*config.Callbacks)) string {
	return proxytest.Tuned(func(c *config.Config) { change(c.Callbacks) })
}

// A testRelay is a relay with its store, its clock and its partners.
type testRelay struct {
	*relay.Relay
	t        testing.TB
	store    *store.Store
	registry *prometheus.Registry
	logs     *proxytest.Log
	operator *operate.Operator
	config   *config.Config
}

func newTestRelay(t testing.TB, s setup) *testRelay {
	t.Helper()
	if s.store == "" {
		s.store = "memory:"
	}
	opened := proxytest.Open(t, s.store)
	return onStore(t, s, opened)
}

// clocked is newTestRelay with a clock.
func clocked(t testing.TB, s setup) (*testRelay, *clock) {
	t.Helper()
	c := newClock()
	s.now = c.now
	return newTestRelay(t, s), c
}

func onStore(t testing.TB, s setup, opened *store.Store) *testRelay {
	t.Helper()
	st := &testRelay{t: t, store: opened, registry: prometheus.NewRegistry(), logs: &proxytest.Log{}}
	var logger *slog.Logger
	st.config, logger = s.config(t), slog.New(slog.NewJSONHandler(st.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	st.Relay = relay.New(st.config, relay.Options{
		Store: opened, Registerer: st.registry, Logger: logger, UserAgent: "billbridge/test", Now: s.now,
	})
	st.operator = operate.New(operate.Options{
		Config: func() *config.Config { return st.config }, Store: opened, Relay: st.Relay, Logger: logger, Now: s.now,
	})
	return st
}

// Use replaces the config.
func (s *testRelay) Use(c *config.Config) {
	s.config = c
	s.Relay.Use(c)
}

// asked is a bill's address of a partner that speaks form.
func asked(form translate.Form, address string) relay.Binding {
	return relay.Binding{
		Upstream: "up", Operation: "bill.create", Form: form, Partner: partner.Of(key), OfBill: true, Bill: bill, Member: "m", Merchant: "s", URL: address,
	}
}

// bind returns the path of a callback address of the gateway.
func (s *testRelay) bind(a relay.Binding) string {
	s.t.Helper()
	ours, err := s.Bind(s.t.Context(), a)
	must(s.t, err)
	u, err := url.Parse(ours)
	must(s.t, err)
	return u.Path
}

// path is bind for the address of a bill of a partner that speaks form.
func (s *testRelay) path(form translate.Form) string {
	s.t.Helper()
	return s.bind(asked(form, "https://partner.example.com/"))
}

// registered is bind for the address of a registration.
func (s *testRelay) registered(merchant string) string {
	s.t.Helper()
	return s.bind(registration("v2", merchant, "https://partner.example.com/"))
}

// post is an upstream's callback. Headers come in pairs.
func (s *testRelay) post(path, body string, headers ...string) *httptest.ResponseRecorder {
	return s.send(httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)), headers...)
}

func (s *testRelay) send(r *http.Request, headers ...string) *httptest.ResponseRecorder {
	for i := 0; i < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// accept posts a callback that must be accepted.
func (s *testRelay) accept(path, body string, headers ...string) {
	s.t.Helper()
	if w := s.post(path, body, headers...); w.Code != http.StatusOK {
		s.t.Fatalf("%d %s", w.Code, w.Body)
	}
}

// stored returns all callbacks of the store with their bodies, the oldest first.
func (s *testRelay) stored() []store.Callback {
	s.t.Helper()
	page, err := s.store.Page(context.Background(), store.Filter{Limit: 10_000})
	list := page.Callbacks
	must(s.t, err)
	slices.Reverse(list)
	for i := range list {
		if list[i], err = s.store.Get(context.Background(), list[i].ID); err != nil {
			s.t.Fatal(err)
		}
	}
	return list
}

// only returns the one callback of the store.
func (s *testRelay) only() store.Callback {
	s.t.Helper()
	list := s.stored()
	if len(list) != 1 {
		s.t.Fatalf("%d callbacks are stored", len(list))
	}
	return list[0]
}

// round makes one attempt at each due callback, waits for their ends, and returns their number.
func (s *testRelay) round() int {
	s.t.Helper()
	var attempts sync.WaitGroup
	n, err := s.Round(context.Background(), &attempts)
	must(s.t, err)
	attempts.Wait()
	return n
}

// everything returns all series of the metrics.
func (s *testRelay) everything() string {
	s.t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var kept strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if line[0] != '#' {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// scrape returns the series that begin with one of the names, without those that are 0.
func (s *testRelay) scrape(names ...string) string {
	s.t.Helper()
	var kept strings.Builder
	for line := range strings.Lines(s.everything()) {
		if !strings.HasSuffix(line, " 0\n") && (len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(line, n) })) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// counts expects exactly these series, sorted, of those that begin with a name.
func (s *testRelay) counts(name string, want ...string) {
	s.t.Helper()
	all := ""
	for _, line := range want {
		all += name + line + "\n"
	}
	equal(s.t, s.scrape(name), all)
}

const refused = "billbridge_callbacks_refused_total"

// A clock is set by hand.
type clock struct {
	mu sync.Mutex
	at time.Time
}

// newClock begins at a whole millisecond, as the store keeps times.
func newClock() *clock { return &clock{at: time.Date(2026, 11, 21, 3, 34, 56, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

func (c *clock) add(d time.Duration) { c.set(c.now().Add(d)) }

// carrier is a partner without a network.
type carrier func(*http.Request) (*http.Response, error)

// RoundTrip reads the body whole, as a partner does.
func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return c(r)
}

func reply(status int, body string, headers ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

// always is a partner that gives one answer.
func always(status int, body string, headers ...string) carrier {
	return func(*http.Request) (*http.Response, error) { return reply(status, body, headers...), nil }
}

// success is a partner that takes every callback.
var success = always(200, documented["v2"])

// carry sends callbacks to a partner without a network.
func (s *testRelay) carry(partner carrier) { s.Carry(partner) }

// hung is a partner that gives none.
func hung(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func receive[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s", what)
		panic("unreachable")
	}
}

func hash(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// notice is a payment's callback in a form, of this key and bill, with more members if there are any.
func notice(form translate.Form, key, bill string, more ...string) string {
	if form == "v2" {
		return fmt.Sprintf(`{"apiKey":%q,"billId":%q%s}`, key, bill, strings.Join(more, ""))
	}
	return fmt.Sprintf(`{"apikey":%q,"bill_id":%q%s}`, key, bill, strings.Join(more, ""))
}

var (
	must, works  = proxytest.Must, proxytest.Works
	has, lacks   = proxytest.Has, proxytest.Lacks
	gives, fails = proxytest.Gives, proxytest.Fails
)

func equal[T any](t proxytest.Reporter, got, want T, about ...any) {
	t.Helper()
	proxytest.Equal(t, got, want, about...)
}

// answers expects an answer with a status and with parts in its body.
func answers(t testing.TB, w *httptest.ResponseRecorder, status int, parts ...string) {
	t.Helper()
	equal(t, w.Code, status, w.Body)
	for _, part := range parts {
		has(t, w.Body.String(), part)
	}
}
