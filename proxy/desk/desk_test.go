package desk

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// A good shop of each form passes every case.
func TestGoodShopPasses(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"v2", "legacy"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			res := runShop(t, form, "", nil)
			equal(t, failing(res.Verdicts), "", describe(res.Verdicts))
			equal(t, res.Outcome(), Passed)
		})
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
			fmt.Fprintln(&b, v.Case, v.Result, v.Text)
			for _, f := range v.Findings {
				fmt.Fprintln(&b, "   ", f.Level, f.Condition, "-", f.Text, f.Records)
			}
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
		c.Progress = func(one Case, v Verdict) {
			if one.ID == "A1" {
				first = v
			}
		}
	})
	equal(t, first.Result, Passed)
	has(t, failing(res.Verdicts), "A1")
	equal(t, res.Outcome(), Failed)
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
			res := runHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(c.answer))
			}), func(c *Config) { c.Plan.Only = []string{"U1"} })
			equal(t, res.Verdicts, []Verdict{{Case: "U1", Result: Unknown, Text: c.want}})
			equal(t, res.Outcome(), Interrupted)
		})
	}
}

// The same log always has the same verdict. An order with two bills, one of them destroyed, is in the state of the other.
// Of two spellings of a name the one of both forms counts.
func TestSameLogHasOneVerdict(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{"waiting": Passed, "withdrawn": Failed} {
		recs := []Record{
			{Call: &sandbox.Exchange{
				Facts:   sandbox.Facts{Operation: "bill.create", Bill: "ONE"},
				Request: []byte(`{"Price":"1","price":"20013","PRICE":"2"}`),
			}},
			{Hook: &Answer{State: state}},
			{Book: map[string]string{"ONE": "D", "TWO": "W"}},
		}
		for i := range recs {
			recs[i].N, recs[i].Case, recs[i].Order, recs[i].Amount = i+1, "A1", "a", "20013"
		}
		c := caseOf("A1")
		c.Watch = nil
		for range 1000 {
			v := judge(planOf(t, "v2"), c, recs)
			equal(t, v.Result, want, state, v.Findings)
		}
	}
}

// Options that are not declared skip their cases.
func TestSkippedCases(t *testing.T) {
	t.Parallel()
	res := runShop(t, "v2", "", func(c *Config) { c.Plan.Options, c.Plan.Only = nil, []string{"A1", "A5"} })
	equal(t, res.Verdicts, []Verdict{
		{Case: "A1", Result: Passed},
		{Case: "A5", Result: Skipped, Text: "the plan does not declare cancel"},
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
			"For practice", "X1, HTTP 504", "X2, HTTP 200", "Store the bill id before the create.", body,
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
	for _, c := range Cases() {
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
		durations := map[string]int{"wait": 1, "advance": 1, "until": 2, "read-after": 2, "read-after-callback": 1}
		for _, text := range slices.Concat(c.Steps, c.Watch) {
			args, _ := words(strings.TrimPrefix(text, "warn "))
			at := durations[args[0]]
			if at == 0 || at >= len(args) {
				continue
			}
			if d, _ := (Plan{speed: 1}).duration(args[at]); d <= 0 {
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
		"{form: legacy, api_key: k, timeout: -1s}":  "timeout, reconcile: expected times above zero",
	} {
		fails(t, want, text)(ParsePlan([]byte(text)))
	}
}
