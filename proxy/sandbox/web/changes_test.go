package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

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

// scenarioRows have for each scenario what becomes of the partner's next create and of the callback of its payment.
var scenarioRows = map[string]struct {
	code      string // of the create; "" without a reply
	callbacks int    // attempts so far
	request   string // a part of the callback
}{
	"lost_reply":      {"", 1, `"apprPrice":"30000"`},
	"maintenance":     {"MAINTAINED_METHOD", 0, ""},
	"refusal":         {"BILL_007", 0, ""},
	"declined":        {"0000", 0, ""},
	"callback_late":   {"0000", 0, ""},
	"callback_twice":  {"0000", 2, `"apprPrice":"30000"`},
	"callback_lost":   {"0000", 0, ""},
	"callback_order":  {"0000", 0, ""},
	"callback_amount": {"0000", 1, `"apprPrice":"1"`},
}

// A scenario disturbs the next call or callback of its partner, once, and no other partner.
func TestScenarioIsForTheNextCallOfOnePartner(t *testing.T) {
	t.Parallel()
	for name, want := range scenarioRows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			v := r.visitor("")
			form := url.Values{"partner": {"1"}, "operation": {"bill.create"}, "code": {"BILL_007"}, "for": {"next"}}.Encode()
			if res, body := v.post("/desk/scenarios/"+name, form); res.StatusCode != http.StatusSeeOther {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			equal(t, r.call("create", hanaKey, "OF-HANA", nil), "0000", "the call of another partner")
			must(t, r.Pay(hanaKey, "OF-HANA"))
			equal(t, r.call("create", demoKey, "FIRST", nil), want.code, "the call")
			_ = r.Pay(demoKey, "FIRST") // there may be no bill
			of := func(bill string) (list []sandbox.Exchange) {
				for _, x := range r.Exchanges() {
					if x.Operation == "callback.payment" && x.Bill == bill {
						list = append(list, x)
					}
				}
				return list
			}
			proxytest.Eventually(t, func() bool { return len(of("OF-HANA")) == 1 && len(of("FIRST")) >= want.callbacks }, nil)
			got := of("FIRST")
			if len(got) != want.callbacks || len(got) > 0 && !strings.Contains(string(got[0].Request), want.request) {
				t.Errorf("the callbacks: %+v", got)
			}
			if faults := r.Faults(); len(faults) != 0 {
				t.Errorf("the scenario is still on: %+v", faults)
			}
			equal(t, r.call("create", demoKey, "SECOND", nil), "0000", "the next call")
			if name == "declined" {
				_, page := v.get("/desk/bill?partner=1&bill=FIRST")
				has(t, page, "PAYMENT_001", "the failed payment")
			} else if !strings.HasPrefix(name, "callback_l") && name != "callback_order" {
				has(t, fmt.Sprint(r.Exchanges()), name, "the log names the scenario")
			}
		})
	}
}

// A callback that comes before the reply: the bill is paid, and the partner has the callback, while the create is still running.
func TestScenarioCallbackFirst(t *testing.T) {
	t.Parallel()
	r := start(t)
	if res, _ := r.visitor("").post("/desk/scenarios/callback_first", "partner=1&for=next"); res.StatusCode != http.StatusSeeOther {
		t.Fatal(res.StatusCode)
	}
	go r.call("create", demoKey, "FIRST", nil)
	proxytest.Eventually(t, func() bool { return len(r.Exchanges()) > 0 }, nil)
	if x := r.Exchanges()[0]; x.Operation != "callback.payment" || x.Bill != "FIRST" || !x.Done {
		t.Errorf("the first exchange that ended: %+v", x)
	}
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

// The operation of a scenario is chosen, and an unknown one is refused with the reason. Every scenario of the page has a test.
func TestScenarioIsForAnOperation(t *testing.T) {
	t.Parallel()
	r := start(t)
	v := r.visitor("")
	v.post("/desk/scenarios/lost_reply", "partner=1&for=next&operation=bill.read")
	equal(t, r.call("create", demoKey, "FIRST", nil), "0000", "another operation")
	equal(t, r.call("read", demoKey, "FIRST", nil), "", "the operation")
	if res, body := v.post("/desk/scenarios/lost_reply", "partner=1&for=next&operation=bill.x"); res.StatusCode != http.StatusConflict || !strings.Contains(body, "bill.x") {
		t.Errorf("an unknown operation: %d", res.StatusCode)
	}
	_, page := v.get("/desk/scenarios")
	for _, found := range regexp.MustCompile(`action="/desk/scenarios/(\w+)"`).FindAllStringSubmatch(page, -1) {
		if _, tested := scenarioRows[found[1]]; !tested && found[1] != "slow" && found[1] != "callback_first" {
			t.Errorf("the scenario %s has no test", found[1])
		}
	}
}
