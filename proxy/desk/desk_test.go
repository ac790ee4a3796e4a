package desk

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

// A good shop of each form and kind passes every case, without a warning. The short form has each kind in one form.
func TestGoodShopPasses(t *testing.T) {
	t.Parallel()
	for i, kind := range []string{"", "polls", "link", "short", "same-id", "reads-twice"} {
		for j, form := range []string{"v2", "legacy"} {
			if i%2 != j && !proxytest.Long() {
				continue
			}
			t.Run(kind+"/"+form, func(t *testing.T) {
				t.Parallel()
				res := runShop(t, form, kind, nil)
				equal(t, failing(res.Verdicts), "", describe(res.Verdicts))
				equal(t, res.Outcome(), Passed)
			})
		}
	}
}

// failing lists the cases that do not pass.
func failing(all []Verdict) string {
	var list []string
	for _, v := range all {
		if v.Result != Passed && v.Result != Skipped {
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
			fmt.Fprintln(&b, v.Case, v.Result, v.Text, v.Records)
		}
	}
	return b.String()
}

// A second bill that is sent after its case, minutes later, fails the run.
func TestLateSecondBillCounts(t *testing.T) {
	t.Parallel()
	var first Verdict
	res := runShop(t, "v2", "second-bill-later", func(c *Config) {
		c.Plan.Only = []string{"A1", "U1"}
		c.Progress = func(v Verdict) {
			if v.Case == "A1" {
				first = v
			}
		}
	})
	equal(t, first.Result, Passed)
	has(t, failing(res.Verdicts), "A1")
	equal(t, res.Outcome(), Failed)
}

// A partner that does nothing, or whose hook or key is wrong, passes nothing: the run ends at the first case.
func TestSilentPartnerIsInterrupted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ answer, want, results string }{
		"nothing done": {`{"state":"new"}`, errNoBill.Error(), "A1 U1:UNKNOWN"},
		"no JSON":      {`<html>`, "the order hook: invalid character '<' looking for beginning of value", "A1:UNKNOWN U1:UNKNOWN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := runHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(c.answer))
			}), func(c *Config) { c.Plan.Only = []string{"U1"} })
			equal(t, failing(res.Verdicts), c.results)
			equal(t, []string{res.Verdicts[0].Text, res.Verdicts[1].Text}, []string{c.want, "it was not run"})
		})
	}
	t.Run("another key", func(t *testing.T) {
		t.Parallel()
		began := time.Now()
		res := runShop(t, "v2", "other-key", nil)
		has(t, res.Verdicts[0].Text, "another key than api_key of the plan")
		equal(t, len(res.Records) < 20, true, time.Since(began))
	})
}

// logOf returns the log of a case with one order.
func logOf(id string, recs ...Record) []Record {
	for i := range recs {
		recs[i].N, recs[i].Case, recs[i].Order, recs[i].Amount = i, id, "a", "20013"
	}
	return recs
}

// The same log always has the same verdict. Of two spellings of a name the one of both forms counts.
func TestSameLogHasOneVerdict(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{"waiting": Passed, "withdrawn": Failed} {
		for range 1000 { // each time with maps of its own
			recs := logOf("A1",
				Record{Call: &sandbox.Exchange{
					Facts:   sandbox.Facts{Operation: "bill.create", Bill: "ONE", Code: "0000", Done: true},
					Request: []byte(`{"Price":"1","price":"20013","PRICE":"2"}`),
				}},
				Record{Hook: &Answer{State: state}, Text: end, Want: []string{"waiting"}},
			)
			equal(t, judge(planOf(t, "v2"), Cases()[0], recs).Result, want, state)
		}
	}
}

// An order with two bills, one of them destroyed, is in the state of the other.
func TestDestroyedBillsDoNotCountBesideOthers(t *testing.T) {
	t.Parallel()
	r := &runner{service: sandbox.New(sandbox.Options{})}
	create := func(id string) {
		p := sandbox.DefaultPartners()[0]
		body := fmt.Sprintf(`{"apiKey":%q,"member":"m","merchant":"s","bill":{"billId":%q,"sendType":"URL","price":20013,"hash":%q}}`,
			p.Key, id, sandbox.Hash(id, "", "20013"))
		w := httptest.NewRecorder()
		r.service.ServeHTTP(w, httptest.NewRequest("POST", "/bill", strings.NewReader(body)))
		has(t, w.Body.String(), "0000")
	}
	o := &order{amount: "20013"}
	equal(t, r.agreed(o), []string{"new", "unknown"})
	create("ONE")
	w := httptest.NewRecorder()
	r.service.ServeHTTP(w, httptest.NewRequest("POST", "/bill/destroy", strings.NewReader(fmt.Sprintf(
		`{"apiKey":%q,"member":"m","merchant":"s","bill":{"billId":"ONE","price":20013,"hash":%q}}`,
		sandbox.DefaultPartners()[0].Key, sandbox.Hash("ONE", "", "20013")))))
	has(t, w.Body.String(), "0000")
	equal(t, r.agreed(o), []string{"withdrawn"})
	create("TWO")
	equal(t, r.agreed(o), []string{"waiting"})
}

// No case fails on a machine that was busy. It is repeated; if it stays busy the result is unknown.
func TestBusyMachineFailsNoCase(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{"waiting": Passed, "paid": Unknown} {
		recs := logOf("A1",
			Record{Call: &sandbox.Exchange{
				Facts:   sandbox.Facts{Operation: "bill.create", Bill: "ONE", Code: "0000", Done: true},
				Request: []byte(`{"price":"20013"}`),
			}},
			Record{Text: tooBusy},
			Record{Hook: &Answer{State: state, Amount: "20013"}, Text: end, Want: []string{"waiting"}},
		)
		equal(t, judge(planOf(t, "v2"), Cases()[0], recs).Result, want, state)
	}
}

// A case is repeated with another order when the machine was busy, and the attempt before does not count.
func TestCaseIsRepeatedOnABusyMachine(t *testing.T) {
	t.Parallel()
	p, orders := planOf(t, "v2"), atomic.Int32{}
	r := &runner{
		current: &attempt{}, amounts: map[string]*order{}, bills: map[string]*order{}, service: sandbox.New(sandbox.Options{}),
	}
	r.ctx, r.stop = context.WithCancel(t.Context())
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == "POST" {
			orders.Add(1)
		} else if orders.Load() == 1 {
			time.Sleep(600 * time.Millisecond)
		}
		_, _ = w.Write([]byte(`{"state":"new"}`))
	}))
	defer hook.Close()
	p.Hook = hook.URL
	r.Plan = p
	one := Case{ID: "X", Steps: []string{"order", "wait 10s"}}
	r.Plan.Timeout, r.Plan.speed = 0, 60
	r.drive(one)
	r.all.Wait()
	equal(t, orders.Load(), 2)
	equal(t, judge(r.Plan, one, r.records()).Text, errNoBill.Error())
}

// A call that is open when the run ends is aborted.
func TestOpenCallEndsWithTheRun(t *testing.T) {
	t.Parallel()
	res := runShop(t, "v2", "stopped", func(c *Config) { c.Plan.Only = []string{"U7"} })
	took := time.Duration(0)
	for _, r := range res.Records {
		if r.Call != nil {
			took = r.Call.Ended.Sub(res.Records[0].At)
		}
	}
	equal(t, took, 13*time.Second)
	equal(t, res.Outcome(), Interrupted)
}

// A create that is refused is named with its code, not the state of the order.
func TestRefusedCreateNamesItsCode(t *testing.T) {
	t.Parallel()
	res := runShop(t, "v2", "short-phone", func(c *Config) { c.Plan.Only = []string{"A1"} })
	has(t, res.Verdicts[0].Text, "bill.create was refused with VALIDATION_004")
	has(t, res.Verdicts[0].Text, ": HTTP 200, code VALIDATION_004]")
}

// A create of an order of another run counts for no case.
func TestLeftoversDoNotCount(t *testing.T) {
	t.Parallel()
	res := runShop(t, "v2", "leftover", func(c *Config) { c.Plan.Only = []string{"A1", "K1"} })
	equal(t, failing(res.Verdicts), "", describe(res.Verdicts))
}

// The calls of a stranger are not recorded, and a run stops when its log is full.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	r := &runner{Config: Config{Plan: planOf(t, "v2")}, current: &attempt{}, bills: map[string]*order{}}
	r.ctx, r.stop = context.WithCancel(t.Context())
	r.current.orders = map[string]*order{"a": {attempt: r.current}}
	call := sandbox.Exchange{Partner: "stranger", Request: make([]byte, maxBody)}
	call.Operation = "bill.create"
	for range 1000 {
		r.observe(call)
	}
	equal(t, len(r.log)+len(r.bills), 0)
	for call.Partner = testKey; r.ctx.Err() == nil; {
		r.observe(call)
	}
	equal(t, len(r.log) < maxLog/maxBody+2, true)
}

// Options that are not declared skip their cases.
func TestSkippedCases(t *testing.T) {
	t.Parallel()
	res := runShop(t, "v2", "", func(c *Config) { c.Plan.Options, c.Plan.Only = []string{"callbacks"}, []string{"A1", "A5"} })
	equal(t, res.Verdicts, []Verdict{
		{Case: "A1", Title: "A bill is created as ordered", Result: Passed},
		{Case: "A5", Title: "A paid bill is cancelled once", Result: Skipped, Text: "the plan does not declare cancel"},
	})
	equal(t, res.Outcome(), Passed)
	var junit bytes.Buffer
	must(t, JUnit(&junit, res))
	has(t, junit.String(), `<testsuite name="billbridge desk v2" tests="2" failures="0" errors="0" skipped="1">`)
}

// The report says that it is for practice, and shows both creates of a second bill, and how to repair it. It has no key.
func TestReportShowsTheSecondBill(t *testing.T) {
	t.Parallel()
	for form, body := range map[string]string{"v2": "&#34;apiKey&#34;:&#34;…&#34;", "legacy": "&#34;apikey&#34;:&#34;…&#34;"} {
		res := runShop(t, form, "new-id-after-504", func(c *Config) { c.Plan.Only = []string{"U3"} })
		var junit, page bytes.Buffer
		must(t, Report(&page, res))
		for _, text := range []string{
			"For practice", "X1, HTTP 504", "X2, HTTP 200", "Store the bill id before the create", body, "INTERFACE.md#rules Read the bill",
		} {
			has(t, page.String(), text)
		}
		equal(t, strings.Contains(page.String(), testKey), false, page.String())
		must(t, JUnit(&junit, res))
		has(t, junit.String(), `<failure message="a second bill was sent for one order: S`)
	}
}

// Each case has steps, conditions and words that exist, a source and how to repair it; its id is unique.
func TestCasesAreComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range slices.Concat(all().Every, Cases()) {
		isSentence(t, c.Source)
		if c.ID == "" {
			c.ID, c.Title, c.Steps = c.Watch[0], "of all cases", c.Watch
		}
		if seen[c.ID] || c.Title == "" || len(c.Steps) == 0 || c.Source == "" || c.Repair == "" {
			t.Errorf("case %q is not complete", c.ID)
		}
		seen[c.ID] = true
		for _, watch := range c.Watch {
			args, _ := words(strings.TrimPrefix(watch, "warn "))
			if conditions[args[0]] == nil {
				t.Errorf("case %s: no condition %s", c.ID, args[0])
			}
		}
		durations := map[string]int{"wait": 1, "advance": 1, "follows": 3, "rate": 3}
		for _, text := range slices.Concat(c.Steps, c.Watch) {
			args, _ := words(strings.TrimPrefix(text, "warn "))
			at := durations[args[0]]
			if at == 0 || at >= len(args) {
				continue
			}
			if d, _ := time.ParseDuration(args[at]); d <= 0 {
				t.Errorf("case %s: %s: expected a duration", c.ID, text)
			}
		}
	}
}

// isSentence checks that a source is an anchor of INTERFACE.md and a sentence below it.
func isSentence(t *testing.T, source string) {
	t.Helper()
	anchor, sentence, _ := strings.Cut(source, " ")
	for section := range strings.SplitSeq(string(proxytest.ReadFile(t, "../../translate/billing/INTERFACE.md")), "\n#") {
		heading, text, _ := strings.Cut(section, "\n")
		heading = strings.NewReplacer("# ", "", "#", "", " ", "-", ".", "").Replace(strings.ToLower(strings.TrimLeft(heading, "# ")))
		if "#"+heading == anchor && strings.Contains(strings.ReplaceAll(text, "\n", " "), sentence) && sentence != "" {
			return
		}
	}
	t.Errorf("INTERFACE.md does not have: %s", source)
}

func TestParsePlanRefuses(t *testing.T) {
	t.Parallel()
	good := "partner: p, form: v2, api_key: k, hook: 'http://h', options: [callbacks]"
	for text, want := range map[string]string{
		"{partner: p, form: v3, api_key: k}": "form: expected v2 or legacy",
		"{partner: p, form: v2}":             "api_key: expected 1 to 32 characters",
		"{partner: p, form: v2, hook: 'http://h', api_key: '${env:NONE}', options: [callbacks]}": "${env:NAME}",
		"{partner: p, form: v2, hook: 'http://h', api_key: 'x${env:KEY}', options: [callbacks]}": "${env:NAME}",
		"{partner: ' ', form: v2, api_key: k}":                                                   "partner: expected a name",
		"{partner: p, form: v2, api_key: k, hook: 'http://h', options: [paying]}":                "options: expected callbacks, cancel, destroy, resend",
		"{partner: p, form: v2, api_key: k, hook: 'http://h', options: [cancel]}":                "options: expected callbacks, or a time for reconcile",
		"{" + good + ", reconcile: 1h}":                                                          "timeout, reconcile: expected times of at least 1s",
		"{" + good + ", no_such_key: 1}":                                                         "no_such_key",
		"{" + good + ", timeout: -1s}":                                                           "timeout, reconcile: expected times of at least 1s",
		"{" + good + ", timeout: 10}":                                                            "timeout, reconcile: expected a time such as 10s",
		"{" + good + ", timeout: 10 s}":                                                          "10 s",
	} {
		fails(t, want, text)(ParsePlan([]byte(text), func(string) (string, bool) { return "", false }))
	}
	p, err := ParsePlan([]byte("{partner: p, form: v2, hook: 'http://h', api_key: '${env:KEY}', options: [callbacks]}"), func(string) (string, bool) { return "key", true })
	must(t, err)
	equal(t, p.Key, "key")
	fails(t, "api_key")(ParsePlan([]byte("{partner: p, form: v2, hook: 'http://h', api_key: '${env:KEY}', options: [callbacks]}"), nil))
}
