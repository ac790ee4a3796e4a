package desk

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/server"
	"billbridge/translate"
)

// A good shop of each form passes every case, and its log proves it.
func TestGoodShopPasses(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"v2", "legacy"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			all, log := runShop(t, form, "", nil)
			equal(t, failing(all), "")
			equal(t, Outcome(Plan{Practice: true}, all), Passed)
			res, err := Verify(bytes.NewReader(log), nil)
			must(t, err)
			equal(t, res.Verdicts, all)
			if t.Failed() {
				t.Log("\n" + describe(all))
			}
		})
	}
}

// failing lists the cases that do not pass.
func failing(all []Verdict) string {
	var list []string
	for _, v := range Last(all) {
		if v.Result != Passed && v.Result != Skipped && v.Result != Review {
			name := v.Case
			if v.Result != Failed {
				name += ":" + v.Result
			}
			list = append(list, name)
		}
	}
	return strings.Join(list, " ")
}

func describe(all []Verdict) string {
	var b strings.Builder
	for _, v := range all {
		if v.Result != Passed {
			fmt.Fprintln(&b, v.Case, v.Attempt, v.Status, v.Result, v.Text)
			for _, f := range v.Findings {
				fmt.Fprintln(&b, "   ", f.Level, f.Condition, "-", f.Text, f.Records)
			}
		}
	}
	return b.String()
}

// A run over real connections with the times of a practice, directly and through a gateway to the other form.
func TestPracticeOverTheNetwork(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"v2", "legacy"} {
		for _, via := range []string{"", map[string]string{"v2": "legacy", "legacy": "v2"}[form]} {
			t.Run(form+"/"+via, func(t *testing.T) {
				t.Parallel()
				all, log := runNetwork(t, form, via, "")
				equal(t, failing(all), "", describe(all))
				res, err := Verify(bytes.NewReader(log), nil)
				must(t, err)
				equal(t, clientsIn(res.Records), []string{"Go-http-client/1.1"}) // not the gateway
			})
		}
	}
}

// Through a gateway a wrong habit is seen too: calls and answers are those of the partner, not of the gateway, which reads
// by itself after a lost reply and answers each callback.
func TestWrongShopsThroughAGateway(t *testing.T) {
	t.Parallel()
	for habit, one := range map[string]struct{ only, fails string }{
		"new-id-after-anything": {"U1", "U1"},
		"never-reads-unknown":   {"U1", "U1"},
		"ships-on-body":         {"K2", "K2"},
		"does-not-read":         {"K2", "K2"},
		"answers-result-ok":     {"K1", "K1"},
		"ignores-retry-after":   {"N1", "N1:WARNING"},
	} {
		t.Run(habit, func(t *testing.T) {
			t.Parallel()
			all, log := runNetwork(t, "v2", "legacy", habit, one.only)
			equal(t, failing(all), one.fails, describe(all))
			res, err := Verify(bytes.NewReader(log), nil)
			must(t, err)
			equal(t, res.Verdicts, all)
		})
	}
}

// runNetwork runs cases with a shop over sockets: all in the long form.
func runNetwork(t *testing.T, form, via, habit string, only ...string) ([]Verdict, []byte) {
	t.Helper()
	listen := func() net.Listener {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		return listener
	}
	listener := listen()
	s := &shop{
		form: form, habit: habit, key: testKey, base: "http://" + listener.Addr().String(), send: "URL",
		client: &http.Client{Timeout: 2 * time.Second}, reconcile: 6 * time.Second, retry: 1100 * time.Millisecond,
	}
	ctx, stop := context.WithCancel(t.Context())
	s.ctx = ctx
	server := httptest.NewServer(s)
	s.self = server.URL
	defer func() {
		stop()
		server.Close()
		s.all.Wait()
	}()
	plan := planOf(t, form)
	plan.Practice, plan.Speed, plan.React = true, 600, 1300*time.Millisecond
	plan.Timeout, plan.Reconcile = 2*time.Second, 6*time.Second
	if plan.Only = only; len(only) == 0 && !proxytest.Long() {
		plan.Only = []string{"A1", "U1", "R4", "K1", "K2", "K15"}
	}
	var log bytes.Buffer
	c := Config{Plan: plan, Hook: server.URL + "/desk", Listener: listener, Out: &log}
	if via != "" {
		s.send = "TALK"
		c.Backend = listen()
		c.Via = startGateway(ctx, t, via, c.Backend.Addr().String())
	}
	began := time.Now()
	c.Progress = func(one Case, v Verdict) { t.Log(time.Since(began).Round(time.Second/10), one.ID, v.Result) }
	all, err := Run(ctx, c)
	must(t, err)
	return all, log.Bytes()
}

// startGateway starts a gateway to a service of a form.
func startGateway(ctx context.Context, t *testing.T, form, backend string) string {
	t.Helper()
	c, err := config.Parse(translate.File{Name: "../../cmd/billbridge/assets/desk_test.yaml", Data: fmt.Appendf(nil, `
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
upstreams: {desk: {form: %s, url: "http://%s"}}
drain: {delay: 0s}
log: {level: error}
table: {overlay: sandbox-overlay.yaml}
`, form, backend)}, os.LookupEnv)
	must(t, err)
	callbacks := config.DefaultCallbacks()
	callbacks.Ports = nil
	callbacks.Schedule = slices.Repeat([]config.DurationOrZero{config.DurationOrZero(500 * time.Millisecond)}, 100)
	callbacks.Allow = []config.Network{{Prefix: netip.MustParsePrefix("127.0.0.0/8")}}
	c.Callbacks, c.Store.URL = &callbacks, config.NewSecret(config.Memory)
	gateway, err := server.Listen(ctx, c, nil, nil, server.Build{}, slog.New(slog.DiscardHandler))
	must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = gateway.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return "http://" + gateway.Address()
}

// A second bill that is sent after its case, minutes later, fails a signed run.
func TestLateSecondBillCounts(t *testing.T) {
	t.Parallel()
	_, sign := signed(t)
	var first Verdict
	all, log := runShop(t, "v2", "second-bill-later", func(c *Config) {
		sign(c)
		c.Plan.Speed, c.Plan.Only = 6, []string{"A1"}
		c.Progress = func(_ Case, v Verdict) { first = v }
	})
	equal(t, first.Result, Passed)
	equal(t, failing(all), "A1")
	res, err := Verify(bytes.NewReader(log), nil)
	must(t, err)
	equal(t, Outcome(res.Plan, res.Verdicts), Failed)
}

// A shop to try the command with: BILLBRIDGE_DESK_SHOP=v2 go test -run TestShopServes -timeout 3h. It calls the address of
// --listen, and has the order hook at http://127.0.0.1:3000/desk.
func TestShopServes(t *testing.T) {
	form, send, _ := strings.Cut(os.Getenv("BILLBRIDGE_DESK_SHOP"), "/")
	if form == "" {
		t.Skip("only by hand")
	}
	s := &shop{
		form: form, key: testKey, base: "http://127.0.0.1:8081", self: "http://127.0.0.1:3000", send: send, ctx: t.Context(),
		client: &http.Client{Timeout: 2 * time.Second}, reconcile: 90 * time.Second, retry: 1100 * time.Millisecond,
	}
	must(t, http.ListenAndServe("127.0.0.1:3000", s))
}

// A partner that does nothing, or whose hook fails, is interrupted and not passed.
func TestSilentPartnerIsInterrupted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ answer, want string }{
		"nothing done": {`{"state":"new"}`, errNoBill.Error()},
		"no JSON":      {`<html>`, "the order hook: invalid character '<' looking for beginning of value"},
		"other state":  {`{"state":"done"}`, `the order hook: state: expected one of new, waiting, paid, refunded, withdrawn, unknown but got: "done"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, _ := runHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(c.answer))
			}), func(c *Config) { c.Plan.Only = []string{"U1"} })
			equal(t, all, []Verdict{{Case: "U1", Attempt: 1, Status: Interrupted, Result: Unknown, Text: c.want}})
			equal(t, Outcome(Plan{Practice: true}, all), Interrupted)
		})
	}
}

// A failure in group U runs the whole group again; all attempts stay.
func TestAttempts(t *testing.T) {
	t.Parallel()
	all, log := runShop(t, "v2", "new-id-after-504", func(c *Config) { c.Plan.Only, c.Attempts = []string{"U1", "U3", "K1"}, 2 })
	var got []string
	for _, v := range all {
		got = append(got, fmt.Sprint(v.Case, v.Attempt, v.Result))
	}
	equal(t, strings.Join(got, " "), "U11PASSED U12PASSED U31FAILED U32FAILED K11PASSED")
	works(t)(Verify(bytes.NewReader(log), nil))
}

// A signed run has reviews that are open; options that are not declared skip their cases.
func TestReviewsAndSkippedCases(t *testing.T) {
	t.Parallel()
	_, sign := signed(t)
	all, log := runShop(t, "v2", "", func(c *Config) {
		sign(c)
		c.Plan.Options, c.Plan.Only = nil, []string{"A1", "A5", "H1"}
	})
	equal(t, all, []Verdict{
		{Case: "A1", Attempt: 1, Status: finished, Result: Passed},
		{Case: "A5", Attempt: 1, Status: finished, Result: Skipped, Text: "the plan does not declare cancel"},
		{Case: "H1", Attempt: 1, Status: finished, Result: Review, Text: cases[len(cases)-4].Human},
	})
	equal(t, Outcome(Plan{Practice: true}, all), Review)
	res, err := Verify(bytes.NewReader(log), nil)
	must(t, err)
	var junit, page bytes.Buffer
	must(t, JUnit(&junit, res))
	has(t, junit.String(), `<testsuite name="billbridge desk v2" tests="3" failures="0" errors="0" skipped="2">`)
	must(t, Report(&page, res))
	has(t, page.String(), `<span class="REVIEW">REVIEW</span>`)
}

// The cases of group L wait for the partner's own reads at the same time.
func TestLostCallbacksAreWaitedForAtOnce(t *testing.T) {
	t.Parallel()
	all, log := runShop(t, "v2", "", func(c *Config) { c.Plan.Only = []string{"L"} })
	equal(t, failing(all), "")
	res, err := Verify(bytes.NewReader(log), nil)
	must(t, err)
	took := res.Records[len(res.Records)-1].At.Sub(res.Records[0].At)
	equal(t, took < res.Plan.Reconcile+5*time.Minute, true, took)
}

// The report shows both creates of a second bill, and how to repair it.
func TestReportShowsTheSecondBill(t *testing.T) {
	t.Parallel()
	_, log := runShop(t, "legacy", "new-id-after-504", func(c *Config) { c.Plan.Only = []string{"U3"} })
	res, err := Verify(bytes.NewReader(log), nil)
	must(t, err)
	var junit, page bytes.Buffer
	must(t, Report(&page, res))
	has(t, page.String(), "X1, HTTP 504")
	has(t, page.String(), "X2, HTTP 200")
	has(t, page.String(), "Store the bill id before the create.")
	must(t, JUnit(&junit, res))
	has(t, junit.String(), `<failure message="a second bill was sent for one order: S`)
}

// Each case has steps, conditions and words that exist, a source and how to repair it; its id is unique.
func TestCasesAreComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range Cases() {
		if seen[c.ID] || c.Title == "" || c.Human == "" && (len(c.Steps) == 0 || c.Source == "" || c.Repair == "") {
			t.Errorf("case %q is not complete", c.ID)
		}
		seen[c.ID] = true
		for _, watch := range c.Watch {
			args, _ := words(strings.TrimPrefix(watch, "warn "))
			if conditions[args[0]] == nil {
				t.Errorf("case %s: no condition %s", c.ID, args[0])
			}
		}
		durations := map[string]int{"wait": 1, "advance": 1, "until": 2, "read-after": 2, "read-after-callback": 1}
		for _, text := range slices.Concat(c.Steps, c.Watch) {
			args, _ := words(strings.TrimPrefix(text, "warn "))
			at := durations[args[0]]
			if at == 0 || at >= len(args) {
				continue
			}
			if d, _ := (Plan{React: 1}).duration(args[at]); d <= 0 {
				t.Errorf("case %s: %s: expected a duration", c.ID, text)
			}
		}
	}
}

func TestParsePlanRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{form: v3, api_key: k}": "form: expected v2 or legacy",
		"{form: v2}":             "api_key: expected 1 to 32 characters",
		"{form: v2, api_key: k, options: [paying]}": "options: expected cancel, destroy or resend",
		"{form: v2, api_key: k, reconcile: 1h}":     "at most 20m for reconcile",
		"{form: v2, api_key: k, no_such_key: 1}":    "no_such_key",
		"{form: v2, api_key: k, practice: true}":    "practice",
		"{form: legacy, api_key: k, timeout: -1s}":  "timeout, reconcile, react: expected times above zero",
	} {
		fails(t, want, text)(ParsePlan([]byte(text)))
	}
}
