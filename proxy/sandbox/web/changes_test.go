package web_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

var update = flag.Bool("update", false, "rewrite testdata/scenarios.txt; review every line of the difference")

// The buttons of a bill do what they say; what its state does not allow is refused with the reason.
func TestBillIsChanged(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{CallbackCancelDestroy: true})
	v := r.visitor("")
	for _, one := range []struct{ do, from, to string }{
		{"pay", "W", "F"},
		{"expire", "W", "W"},
		{"cancel", "F", "C"},
		{"notify", "F", "F"},
		{"pay", "F", ""},
		{"cancel", "W", ""},
		{"expire", "F", ""},
		{"notify", "W", ""},
	} {
		bill := one.do + one.from
		r.call("create", demoKey, bill, nil)
		if one.from == "F" {
			must(t, r.Pay(demoKey, bill))
			proxytest.Eventually(t, func() bool { list := r.Callbacks(); return list[len(list)-1].State == "delivered" }, nil)
		}
		form := url.Values{"partner": {"1"}, "bill": {bill}}.Encode()
		res, body := v.post("/desk/bill/"+one.do, form)
		b, err := r.Bill(demoKey, bill)
		must(t, err)
		if one.to == "" {
			if res.StatusCode != http.StatusConflict || b.State != one.from || !strings.Contains(body, `role="alert"`) {
				t.Errorf("%s of a bill in state %s: %d, state %s", one.do, one.from, res.StatusCode, b.State)
			}
			continue
		}
		if res.StatusCode != http.StatusSeeOther || b.State != one.to {
			t.Errorf("%s: %d, state %s", one.do, res.StatusCode, b.State)
		}
		_, page := v.get(res.Header.Get("Location"))
		switch one.do {
		case "expire":
			has(t, page, b.ExpireDt, "the last day")
			fails(t, "", "an expired bill was paid")(r.Pay(demoKey, bill))
		case "cancel":
			has(t, page, "cancelled, approval number", "the history")
			has(t, page, "cancelled (C)", "the callback of the cancel")
		case "notify":
			proxytest.Eventually(t, func() bool {
				_, page := v.get(res.Header.Get("Location"))
				return strings.Count(page, "HTTP 200") >= 4 // two attempts, in the callback and in the calls
			}, nil)
		}
	}
}

// The faults of each scenario, as testdata/scenarios.txt has them: for the next call of one partner, with the operation and the
// code that are chosen. TestCalls of the sandbox has what faults do.
func TestScenariosAreFaults(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{}
	r := start(t)
	v := r.visitor("")
	_, page := v.get("/desk/scenarios")
	proxytest.Transcript(t, "testdata/scenarios.txt", *update, []string{""}, func(t *testing.T, _ string) func(string) []string {
		return func(name string) []string {
			tested[name] = true
			form := url.Values{"partner": {"1"}, "operation": {"bill.cancel"}, "code": {"BILL_007"}, "for": {"next"}}.Encode()
			res, body := v.post("/desk/scenarios/"+name, form)
			equal(t, res.StatusCode, http.StatusSeeOther, name, body)
			f := r.Faults()[0]
			v.post("/desk/scenarios/off", "partner=1")
			text, err := json.Marshal(f)
			must(t, err)
			return []string{string(text) + " " + f.Delay.String()}
		}
	})
	res, body := v.post("/desk/scenarios/lost_reply", "partner=1&for=next&operation=bill.x")
	equal(t, res.StatusCode, http.StatusConflict)
	has(t, body, "bill.x", "an unknown operation")
	t.Cleanup(func() {
		for _, found := range regexp.MustCompile(`action="/desk/scenarios/(\w+)"`).FindAllStringSubmatch(page, -1) {
			equal(t, tested[found[1]], true, "the scenario has a test", found[1])
		}
	})
}

// A scenario for a minute disturbs every call until the clock has passed the minute; others are off by a click.
func TestScenarioForAMinute(t *testing.T) {
	t.Parallel()
	r := start(t)
	v := r.visitor("")
	form := "partner=1&for=minute"
	v.post("/desk/scenarios/maintenance", form)
	for range 3 {
		equal(t, r.call("read", demoKey, "X", nil), "MAINTAINED_METHOD", "within the minute")
	}
	equal(t, r.call("read", hanaKey, "X", nil), "BILL_003", "another partner")
	_, page := v.get("/desk/scenarios?partner=1")
	has(t, page, `id="off"`, "a scenario is on")
	must(t, r.SetClock(r.Now().Add(time.Minute)))
	equal(t, r.call("read", demoKey, "X", nil), "BILL_003", "after the minute")
	if _, page := v.get("/desk/scenarios?partner=1"); strings.Contains(page, `id="off"`) {
		t.Error("the page says that the scenario is on")
	}
	v.post("/desk/scenarios/maintenance", form)
	must(t, r.AddFault(sandbox.Fault{Partner: hanaKey, Code: "POINT_001"}))
	v.post("/desk/scenarios/off", "partner=1")
	if code := r.call("read", demoKey, "X", nil); code != "BILL_003" || len(r.Faults()) != 1 {
		t.Errorf("switched off: %s, %+v", code, r.Faults())
	}
}

// The clock is advanced and reset.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{ControlToken: "operator-token-012345"})
	v := r.visitor("operator-token-012345")
	ahead := func() time.Duration { return time.Until(r.Now()).Round(time.Minute) }
	v.post("/desk/clock", "advance=25h")
	v.post("/desk/clock", "advance=1h")
	equal(t, ahead(), 26*time.Hour, "advanced")
	v.post("/desk/clock", "advance=")
	equal(t, ahead(), 0, "reset")
}
