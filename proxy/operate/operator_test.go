package operate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/evidence"
	"billbridge/proxy/ledger"
	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

var noon = time.Date(2026, 11, 21, 3, 34, 56, 0, time.UTC)

// allReasons are the kinds of all reasons, as force has them.
var allReasons = moves.JoinKinds(moves.ReasonKinds)

// hash is the ID of the partner with a key.
func hash(key string) string { return string(partner.Of(key)) }

// A testOperator is a router with its operator calls.
type testOperator struct {
	*operate.Operator
	*routing.Router
	t     testing.TB
	store *store.Store
	logs  bytes.Buffer
	later atomic.Int64 // how much later than noon it is
}

func parse(t testing.TB, more string) *config.Config {
	t.Helper()
	return proxytest.Config(t, `
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
upstreams: {legacy: {form: legacy, url: "http://127.0.0.2:9"}, fresh: {form: v2, url: "http://127.0.0.2:9"}}
route: {default: legacy}
`+more)
}

const separate = "rollout: {old: legacy, new: fresh}\nstore: {url: 'sqlite:bridge.db'}\n" // the store's path is not used: tests open their own

// shared is a rollout whose backends see the same bills, so that shadow can compare reads.
var shared = strings.Replace(separate, "new: fresh", "new: fresh, bills: shared", 1)

func newTestOperator(t testing.TB, s *store.Store, more string) *testOperator {
	t.Helper()
	d := &testOperator{t: t, store: s}
	var err error
	if s != nil && strings.Contains(more, "rollout") {
		if err := s.Change(t.Context(), store.Change{Action: store.Begun, By: "begin", At: noon.Add(-time.Hour)}); err != nil && !errors.Is(err, store.ErrState) {
			t.Fatal(err)
		}
	}
	c, logger := parse(t, more), slog.New(slog.NewJSONHandler(&d.logs, nil))
	now := func() time.Time { return noon.Add(time.Duration(d.later.Load())) }
	if d.Router, err = routing.New(t.Context(), c, routing.Options{Store: s, Logger: logger, Now: now}); err != nil {
		t.Fatal(err)
	}
	d.Operator = operate.New(operate.Options{
		Config: func() *config.Config { return c }, Store: s, Rollout: d.Router, Logger: logger, Now: now,
	})
	return d
}

// operatorInMemory is a testOperator with a store in memory.
func operatorInMemory(t *testing.T, more string) *testOperator {
	t.Helper()
	return newTestOperator(t, proxytest.Open(t, "memory:"), more)
}

// proves adds the counts that give a partner's creates a PASS.
func (d *testOperator) proves(key string) {
	for _, backend := range []evidence.Backend{evidence.Old, evidence.New} {
		d.ends(key, "bill.create", backend, 100, evidence.End{Code: "0000", Succeeded: true})
	}
	d.readsBack(key, 100, 5)
}

// readsBack counts new bills that were read back and are the same, of which some are paid.
func (d *testOperator) readsBack(key string, bills, paid int) {
	for i := range bills {
		d.Router.Counts().Add(partner.Of(key), "bill.create", evidence.Comparison{
			Class: evidence.Same, Bill: fmt.Sprint(i), Succeeded: [2]bool{true, true}, ReadBack: true, States: true, Paid: i < paid,
		})
	}
}

// named is a partner in a text, by its key: <k> is its ID, <k:12> the first digits.
var named = regexp.MustCompile(`<[\w ]+(:\d+)?>`)

// filled replaces the partners of a text, and <all> by the kinds of all reasons.
func filled(text string) string {
	return named.ReplaceAllStringFunc(strings.ReplaceAll(text, "<all>", allReasons), func(name string) string {
		key, digits, short := strings.Cut(name[1:len(name)-1], ":")
		if n, err := strconv.Atoi(digits); short && err == nil {
			return hash(key)[:n]
		}
		return hash(key)
	})
}

// ask makes a call of the operator. Its target is filled.
func (d *testOperator) ask(method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	d.Handler().ServeHTTP(w, httptest.NewRequest(method, filled(target), nil))
	return w
}

// answers expects that a call succeeds.
func answers[T any](d *testOperator, method, target string) (answer T) {
	d.t.Helper()
	w := d.ask(method, target)
	decoder := json.NewDecoder(w.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&answer); err != nil || w.Code != 200 || w.Header().Get("Content-Type") != "application/json; charset=utf-8" {
		d.t.Fatalf("%s %s: %d %v %s, %v", method, target, w.Code, w.Header(), w.Body, err)
	}
	return answer
}

// denies expects that a call is refused, with one line of text and one more for each blocking reason.
func (d *testOperator) denies(status int, method, target, says string) {
	d.t.Helper()
	w, says := d.ask(method, target), filled(says)
	if w.Code != status || !strings.Contains(w.Body.String(), says) || strings.Count(w.Body.String(), "\n") != 1+strings.Count(w.Body.String(), "\n  ") {
		d.t.Errorf("%s %s: %d %swant %d and %s", method, target, w.Code, w.Body, status, says)
	}
}

// change expects that a change is made.
func (d *testOperator) change(target string) operate.Change {
	d.t.Helper()
	return answers[operate.Change](d, "POST", target)
}

// forced expects that a change is made against reasons.
func (d *testOperator) forced(target string) {
	d.t.Helper()
	if c := d.change(target); !c.Forced {
		d.t.Errorf("%s: %+v", target, c)
	}
}

// unforced expects that a change is made, and that no reason is against it.
func (d *testOperator) unforced(target string) {
	d.t.Helper()
	if c := d.change(target); c.Forced {
		d.t.Errorf("%s: %+v", target, c)
	}
}

// refuses expects that a change is not made.
func (d *testOperator) refuses(target, says string) {
	d.t.Helper()
	d.denies(409, "POST", target, says)
}

// seen records that a partner was first seen some time ago.
func (d *testOperator) seen(key string, ago time.Duration) {
	d.t.Helper()
	must(d.t, d.store.Seen(d.t.Context(), partner.Of(key), noon.Add(-ago)))
}

// owns adds pending, owned and released bills of a partner at an upstream.
func (d *testOperator) owns(key, upstream string, pending, owned, released int) {
	d.t.Helper()
	for i := range pending + owned + released {
		c, err := proxytest.On(d.store).Own(d.t.Context(), partner.Of(key), fmt.Sprint(upstream, i), upstream, noon, time.Time{}, "")
		must(d.t, err)
		outcome := ledger.Succeeded
		switch {
		case i < pending:
			continue
		case i >= pending+owned:
			outcome = ledger.Refused
		}
		works(d.t)(proxytest.On(d.store).Complete(d.t.Context(), c, outcome, noon))
	}
}

var creates atomic.Int64

// creates returns the upstream that a new bill of a partner goes to. The other backend does not have the bill.
func (d *testOperator) creates(key string) (routing.Route, string) {
	d.t.Helper()
	asked := ""
	route, err := d.Router.Route(d.t.Context(), routing.Call{
		Operation: "bill.create", Creates: true, Writes: true, Partner: partner.Of(key), Merchant: "s", Bill: fmt.Sprint("B", creates.Add(1)),
	}, probes(func(_ context.Context, upstream string) routing.ProbeResult {
		asked += upstream
		return routing.Absent
	}))
	must(d.t, err)
	return route, asked
}

func (d *testOperator) createsAt(key, upstream, asked string) {
	d.t.Helper()
	if route, of := d.creates(key); route.Upstream != upstream || of != asked {
		d.t.Errorf("a create goes to %s after %q was asked, want %s and %q", route.Upstream, of, upstream, asked)
	}
}

var (
	must, works = proxytest.Must, proxytest.Works
	lacks       = proxytest.Lacks
	fails       = proxytest.Fails
)

func equal[T any](t proxytest.Reporter, got, want T, about ...any) {
	t.Helper()
	proxytest.Equal(t, got, want, about...)
}

// probes returns a probe whose answers have nothing.
func probes(result func(context.Context, string) routing.ProbeResult) routing.Probe {
	return func(ctx context.Context, upstream string) (routing.ProbeResult, routing.Answer) {
		return result(ctx, upstream), routing.Answer{}
	}
}
