package notify_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/evidence"
	"billbridge/proxy/ledger"
	"billbridge/proxy/notify"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/relay"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"

	"github.com/santhosh-tekuri/jsonschema/v6"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func TestMain(m *testing.M) { proxytest.Tests{M: m}.Run() }

var must, has, lacks = proxytest.Must, proxytest.Has, proxytest.Lacks

const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	key    = "a-key-of-a-partner"
	phone  = "01012345678" // as a bill id, which it must not be
)

// configFor has a destination of each format, and more lines.
func configFor(t testing.TB, url, more string) *config.Config {
	t.Helper()
	return proxytest.Config(t, fmt.Sprintf(`
upstreams: {old: {form: legacy, url: "http://127.0.0.1:1"}, new: {form: v2, url: "http://127.0.0.1:1"}}
route: {default: old}
rollout: {old: old, new: new, bills: separate}
store: {url: "sqlite:unused.db"}
partners: {%s: {name: "Hana <Clinic>"}}
callbacks: {public_url: "https://bridge.example.com", ports: [], schedule: [0s, 1ms, 1ms, 1ms, 1ms, 1ms, 1ms, 1ms, 1ms, 1ms]%s}
notify: [{url: "%[3]s/hook", secret: %s}, {url: "%[3]s/T0/B0/chat", format: slack}]
`, partner.Of(key), more, url, secret))
}

// A teller is a gateway, as far as it tells.
type teller struct {
	*notify.Notifier
	relay  *relay.Relay
	router *routing.Router
	logs   *proxytest.Log
	config *config.Config // that a test can replace
	later  time.Duration  // than now
}

func newTeller(t testing.TB, s *store.Store, c *config.Config, certificates ...time.Time) *teller {
	t.Helper()
	n := &teller{logs: &proxytest.Log{}, config: c}
	logger := slog.New(slog.NewJSONHandler(n.logs, nil))
	n.relay = relay.New(c, relay.Options{Store: s, Logger: logger})
	var err error
	n.router, err = routing.New(t.Context(), c, routing.Options{Store: s, Logger: logger})
	must(t, err)
	n.Notifier = notify.New(notify.Options{
		Config: func() *config.Config { return n.config }, Store: s, Relay: n.relay, Rollout: n.router, Logger: logger,
		Now: func() time.Time { return time.Now().Add(n.later) },
		Certificates: func(each func(time.Time, string, string)) {
			for i, end := range certificates {
				each(end, "server", fmt.Sprint("tls", i))
			}
		},
	})
	return n
}

// queued returns the numbers of events in the store, by destination and type.
func queued(t testing.TB, s *store.Store) map[string]int {
	t.Helper()
	page, err := s.Page(t.Context(), store.Filter{Upstream: config.NotifyUpstream, Limit: 1000})
	must(t, err)
	numbers := map[string]int{}
	for _, c := range page.Callbacks {
		full, err := s.Get(t.Context(), c.ID)
		must(t, err)
		var e notify.Event
		must(t, json.Unmarshal(full.Body, &e))
		if numbers[strings.TrimPrefix(e.Type, "billbridge.")]++; c.Repeats > 0 {
			t.Errorf("%s counts as repeated", full.Body)
		}
	}
	return numbers
}

// happen makes an event of each kind happen once, of a partner whose bills have phones as ids.
func happen(t testing.TB, s *store.Store, n *teller) {
	t.Helper()
	id, now := partner.Of(key), time.Now()
	must(t, s.Prove(t.Context(), id))
	must(t, s.Change(t.Context(), store.Change{Action: store.Staged, Partner: id, To: "canary", ToPercent: 10, By: "wave autumn", At: now, Overridden: "verdict"}))
	must(t, s.CreateWave(t.Context(), store.Wave{Name: "autumn", Plan: "{}", By: "anna kim", Created: now}, []store.WavePartner{{Partner: id}}))
	must(t, s.Change(t.Context(), store.Change{Action: store.Restored, By: "anna kim", At: now}))
	must(t, s.Change(t.Context(), store.Change{Action: store.Stopped, By: "anna kim", At: now}))
	bills := proxytest.On(s)
	must(t, bills.AtBoth(t.Context(), id, phone, ledger.Call{Operation: "bill.read", Request: "a-request", At: now}))
	create := ledger.Call{Operation: "bill.create", Upstream: "new", At: now.Add(-70 * time.Minute), Member: "Kim"}
	must(t, bills.NoAnswer(t.Context(), id, phone, create, ledger.Reading{Finding: "not asked"}, now))
	_, err := s.Bind(t.Context(), store.Address{
		ID: "address", Upstream: "new", Operation: "bill.create", Partner: id, Bill: phone, Form: "v2", URL: "https://one.example.com/", Created: now, Look: now,
	})
	must(t, err)
	r, err := s.ClaimRead(t.Context(), id, store.Due{Looks: now}, now.Add(time.Second))
	must(t, err)
	look := r.Looks[0]
	look.Shown, look.Missing = "paid", now
	must(t, s.EndLook(t.Context(), look, now.Add(time.Hour)))
	_, err = s.Accept(t.Context(), store.Callback{Notice: store.Notice{
		ID: "cb_00112233445566778899aabbccddeeff", Address: "address", Upstream: "new", Partner: id, Bill: phone, Form: "v2", URL: "https://one.example.com/", Host: "one", Order: "o", Received: now,
	}}, time.Hour)
	must(t, err)
	claimed, err := s.Claim(t.Context(), now.Add(time.Second), time.Minute, 1, 1, 1, nil)
	if err != nil || len(claimed) != 1 {
		t.Fatal(claimed, err)
	}
	_, err = s.Finish(t.Context(), claimed[0], store.Result{At: now, Outcome: "timeout", State: store.Dead})
	must(t, err)
	n.router.Counts().Add(id, "bill.read", evidence.Comparison{
		Class: evidence.Differs, Bill: phone, Succeeded: [2]bool{true, true}, States: true,
		Differences: []evidence.Difference{{Path: "bill.price", Kind: evidence.InMoney}},
	})
	must(t, n.router.SetGauges(t.Context()))
}

// Each kind of event is told once for each destination: by two gateways on one store, in every look, and after a restart.
// What the receivers get is signed, fits the schema, and has nothing personal.
func TestEachEventIsToldOnce(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		s := proxytest.Open(t, url)
		got := newReceiver(t)
		c := configFor(t, got.server.URL, ", allow: [127.0.0.0/8]")
		soon := time.Now().Add(6 * 24 * time.Hour)
		first := newTeller(t, s, c, soon, soon.Add(30*24*time.Hour))
		happen(t, s, first)
		second := newTeller(t, s, c, soon)
		must(t, second.router.SetGauges(t.Context()))
		for _, n := range []*teller{first, second, first, newTeller(t, s, c, soon)} {
			must(t, n.Look(t.Context()))
		}
		want, all := map[string]int{}, 0
		for _, kind := range notify.Kinds() {
			want[kind.Name] = 1
			all++
		}
		want[""] = all // those for the chat
		proxytest.Equal(t, queued(t, s), want)
		must(t, s.Change(t.Context(), store.Change{Action: store.Resumed, By: "anna kim", At: time.Now()}))
		must(t, second.Look(t.Context()))

		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go first.relay.Run(ctx)
		var types []string
		for range 2 * (all + 1) {
			r := got.next(t)
			for _, personal := range []string{key, phone, "anna", "Kim", "a-request", "one.example.com"} {
				lacks(t, r.body, personal, r.path)
			}
			if r.path == "/T0/B0/chat" {
				var message map[string]string
				must(t, json.Unmarshal([]byte(r.body), &message))
				if len(message) != 1 || message["text"] == "" || r.header.Get("Webhook-Signature") != "" {
					t.Errorf("%s", r.body)
				}
				continue
			}
			verifier, err := standardwebhooks.NewWebhook(secret)
			must(t, err)
			must(t, verifier.Verify([]byte(r.body), r.header))
			must(t, valid(t, r.body))
			var e notify.Event
			must(t, json.Unmarshal([]byte(r.body), &e))
			types = append(types, e.Type+" "+e.Data.To)
			if e.Data.Partner != "" && (e.Data.Name != "Hana <Clinic>" || e.Data.Partner != partner.Of(key).Short()) {
				t.Errorf("%s", r.body)
			}
		}
		if on, off := slices.Index(types, "billbridge.kill_switch on"), slices.Index(types, "billbridge.kill_switch off"); on < 0 || off < on {
			t.Errorf("the events of the kill switch: %v", types)
		}
	})
}

// An event that cannot be queued for a destination holds up neither the other destinations nor the audit log. It is queued
// later, before the next ones of that destination.
func TestOneDestinationHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "events.db")
	s := proxytest.Open(t, url)
	db, err := sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:"))
	must(t, err)
	defer func() { _ = db.Close() }()
	run := func(statement string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), statement)
		must(t, err)
	}
	n := newTeller(t, s, configFor(t, "https://events.example.com", ""))
	for i, stage := range []string{"shadow", "canary"} {
		must(t, s.Change(t.Context(), store.Change{Action: store.Staged, Partner: partner.Of(key), To: stage, By: "anna", At: time.Now().Add(time.Duration(i) * time.Millisecond)}))
	}
	count := func(form string) int {
		t.Helper()
		page, err := s.Page(t.Context(), store.Filter{Upstream: config.NotifyUpstream, Limit: 1000})
		must(t, err)
		return len(slices.DeleteFunc(page.Callbacks, func(c store.Callback) bool { return c.Form != form }))
	}
	run("CREATE TRIGGER refused BEFORE INSERT ON billbridge_callbacks WHEN NEW.form = 'webhook' BEGIN SELECT RAISE(ABORT, 'refused'); END")
	if err := n.Look(t.Context()); err == nil {
		t.Error("no error")
	}
	if webhook, slack := count("webhook"), count("slack"); webhook != 0 || slack != 2 {
		t.Errorf("while one destination fails: %d and %d events, want 0 and 2", webhook, slack)
	}
	run("DROP TRIGGER refused")
	run("ALTER TABLE billbridge_bills RENAME TO away") // Happened fails
	if err := n.Look(t.Context()); err == nil {
		t.Error("no error")
	}
	if webhook, slack := count("webhook"), count("slack"); webhook != 2 || slack != 2 {
		t.Errorf("while only the audit log can be read: %d and %d events, want 2 and 2", webhook, slack)
	}
	run("ALTER TABLE away RENAME TO billbridge_bills")
	must(t, n.Look(t.Context()))
}

// A destination that is down gets its events later, in their order, and one whose config is gone gets none.
func TestEventsWaitForTheirDestination(t *testing.T) {
	t.Parallel()
	s, got := proxytest.Open(t, "memory:"), newReceiver(t)
	got.fail(3)
	n := newTeller(t, s, configFor(t, got.server.URL, ", allow: [127.0.0.0/8]"))
	id := partner.Of(key)
	for i, stage := range []string{"shadow", "canary", "new"} {
		must(t, s.Change(t.Context(), store.Change{Action: store.Staged, Partner: id, To: stage, By: "anna", At: time.Now().Add(time.Duration(i) * time.Millisecond)}))
	}
	must(t, n.Look(t.Context()))
	must(t, newTeller(t, s, n.config).Look(t.Context()))
	chat := *n.config
	chat.Notify = chat.Notify[:1]
	n.relay.Use(&chat)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go n.relay.Run(ctx)
	for _, stage := range []string{"shadow", "canary:0", "new"} {
		var e notify.Event
		r := got.next(t)
		must(t, json.Unmarshal([]byte(r.body), &e))
		if r.path != "/hook" || e.Data.To != stage {
			t.Errorf("%s %s, want %s", r.path, r.body, stage)
		}
	}
	proxytest.Eventually(t, func() bool {
		dropped, err := s.Count(t.Context(), store.Filter{State: store.Dropped})
		return err == nil && dropped == 3
	}, func() string { return "not: the others are dropped" })
}

// A destination within the network of the gateway is not called, unless the config allows it.
func TestR32_EventsAreNotSentToPrivateAddresses(t *testing.T) {
	t.Parallel()
	s, got := proxytest.Open(t, "memory:"), newReceiver(t)
	n := newTeller(t, s, configFor(t, got.server.URL, ""))
	must(t, s.Change(t.Context(), store.Change{Action: store.Stopped, By: "anna", At: time.Now()}))
	must(t, n.Look(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go n.relay.Run(ctx)
	proxytest.Eventually(t, func() bool {
		dead, err := s.Count(t.Context(), store.Filter{State: store.Dead})
		return err == nil && dead == 2
	}, func() string { return "not: the attempts are over" })
	if len(got.requests) > 0 {
		t.Error("the destination was called")
	}
	must(t, n.Look(t.Context()))
	if dead := queued(t, s)["dead"]; dead != 0 {
		t.Errorf("%d events tell of events that failed", dead)
	}
	has(t, n.logs.String(), "a callback failed")
	lacks(t, n.logs.String(), "/T0/B0/chat")
}

// The first look reaches back an hour, also if the config gets its first destination after days; a later one repeats five minutes.
func TestLookReachesBackAnHour(t *testing.T) {
	t.Parallel()
	s := proxytest.Open(t, "memory:")
	c := configFor(t, "https://ops.example.com", "")
	none := *c
	none.Notify = nil
	n := newTeller(t, s, &none)
	must(t, s.Change(t.Context(), store.Change{Action: store.Stopped, By: "anna", At: time.Now().Add(-2 * time.Hour)}))
	must(t, s.Change(t.Context(), store.Change{Action: store.Resumed, By: "anna", At: time.Now().Add(-50 * time.Minute)}))
	must(t, n.Look(t.Context()))
	n.config = c
	must(t, n.Look(t.Context()))
	proxytest.Equal(t, queued(t, s), map[string]int{"kill_switch": 1, "": 1})
}

// A certificate is reported three times, also if the gateway restarts, and a new one again.
func TestCertificateIsToldOfThreeTimes(t *testing.T) {
	t.Parallel()
	s := proxytest.Open(t, "memory:")
	c := configFor(t, "https://ops.example.com", "")
	const day = 24 * time.Hour
	end := time.Now().Add(22 * day)
	for _, row := range []struct {
		at   time.Duration
		end  time.Time
		want int
	}{{0, end, 0}, {2 * day, end, 1}, {3 * day, end, 1}, {16 * day, end, 2}, {17 * day, end, 2}, {23 * day, end, 3}, {24 * day, end, 3}, {24 * day, end.Add(9 * day), 4}} {
		n := newTeller(t, s, c, row.end)
		n.later = row.at
		must(t, n.Look(t.Context()))
		if is := queued(t, s)["certificate"]; is != row.want {
			t.Errorf("after %s: %d events, want %d", row.at, is, row.want)
		}
	}
}

var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	text, _ := notify.Schema()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("event.json", document); err != nil {
		return nil, err
	}
	return c.Compile("event.json")
})

// valid returns why an event does not fit the schema.
func valid(t testing.TB, body string) error {
	t.Helper()
	s, err := compiled()
	must(t, err)
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	must(t, err)
	return s.Validate(document)
}
