package console

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/relay"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// storedConfig is the config of a gateway with a rollout, callbacks and names of partners.
var storedConfig = testConfig + `
store: {url: "sqlite:unused.db"}
rollout: {old: old, new: new, settle: 15m}
callbacks: {public_url: "https://bridge.example.com", ports: [], allow: [127.0.0.0/8]}
partners:
  ` + partner.Of("one").Short() + `: {name: Hana Clinic}
  ` + partner.Of("two").Short() + `: {name: Mint Bakery}
`

// hostile is a text that a caller controls. A page must escape it.
const hostile = `"><script>alert(1)</script>`

// A stored console has a store, a relay and a rollout, as in a gateway.
type stored struct {
	*Console
	t       *testing.T
	store   *store.Store
	relay   *relay.Relay
	rollout *routing.Router
	now     time.Time

	operator *operate.Operator
}

func newStored(t *testing.T) *stored {
	t.Helper()
	opened := proxytest.Open(t, "memory:")
	s := &stored{t: t, store: opened, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return s.now }
	c := proxytest.Config(t, storedConfig)
	var err error
	s.relay = relay.New(c, relay.Options{Store: opened, Now: clock})
	if s.rollout, err = routing.New(t.Context(), c, routing.Options{Store: opened, Now: clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.rollout.Close(context.Background()) })
	s.operator = operate.New(operate.Options{Config: configOf(c), Store: opened, Rollout: s.rollout, Relay: s.relay, Now: clock})
	s.Console = newConsole(t, Options{Config: configOf(c), Operator: s.operator, Now: clock})
	return s
}

// add stores a callback of a partner, and gives it a state. It returns its id.
func (s *stored) add(key, bill string, state store.State, age time.Duration) string {
	s.t.Helper()
	at := s.now.Add(-age)
	id := "cb_" + strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return 'x'
	}, strings.ToLower(key+bill))
	c := store.Callback{Notice: store.Notice{
		ID: id, Address: "a" + id, Upstream: "old", Partner: partner.Of(key), Bill: bill, Form: "v2", URL: "http://127.0.0.1:1/paid/" + hostile,
		Host: "127.0.0.1:1", Order: id, Digest: sha256.Sum256([]byte(id)), ContentType: "application/json", Body: []byte(`{"code":"0000"}`), Received: at,
	}, Delivery: store.Delivery{Next: at}}
	if got, err := s.store.Accept(s.t.Context(), c, time.Hour); err != nil || !got.Fresh {
		s.t.Fatal(got, err)
	}
	if state == store.Waiting {
		return id
	}
	claimed, err := s.store.Claim(s.t.Context(), s.now, time.Minute, 1000, 1000, 1000, nil)
	must(s.t, err)
	for _, one := range claimed {
		r := store.Result{At: s.now, Status: 500, Outcome: "status", State: store.Waiting, Next: at, Took: time.Second, Code: "9" + hostile, Reason: "HTTP 500 " + hostile}
		if one.ID == id {
			r.State = state
		}
		works(s.t)(s.store.Finish(s.t.Context(), one, r))
	}
	return id
}

// page requests a page that must be there, and checks that it shows no script of a caller.
func (s *stored) page(target string) string {
	s.t.Helper()
	status, body := get(s.t, s, target, "")
	if status != http.StatusOK {
		s.t.Fatalf("%s: %d %s", target, status, body)
	}
	lacks(s.t, body, "<script>", target)
	return body
}
