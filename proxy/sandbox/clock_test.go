package sandbox_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/sandbox"
)

// A tester sets the clock, which continues from there, and resets it.
func TestSetAndResetTheClock(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64 // time since noon by the real clock
	r := start(t, sandbox.Options{Clock: func() time.Time { return noon.Add(time.Duration(passed.Load())) }})
	pass := func(d time.Duration) { passed.Add(int64(d)) }
	is := func(now string) controlStep { return controlStep{"GET", "/clock", "", 200, `{"now":"` + now + `"}`} }
	set := func(body, now string) controlStep {
		return controlStep{"POST", "/clock", body, 200, `{"now":"` + now + `"}`}
	}

	r.runControl(is("2026-03-02T12:34:56+09:00"))
	pass(time.Second)
	r.runControl(
		is("2026-03-02T12:34:57+09:00"),
		set(`{"now":"2026-12-31T23:59:30+09:00"}`, "2026-12-31T23:59:30+09:00"),
		set(`{"now":"2026-12-31T09:59:30-05:00"}`, "2026-12-31T23:59:30+09:00"), // the same in another zone
	)
	pass(10 * time.Second)
	r.runControl(
		is("2026-12-31T23:59:40+09:00"),
		set(`{"advance":"1h0m20s"}`, "2027-01-01T01:00:00+09:00"),
		set(`{"advance":"24h"}`, "2027-01-02T01:00:00+09:00"),
		set(`{"advance":"-48h"}`, "2026-12-31T01:00:00+09:00"),
		set(`{"now":"2020-02-29T00:00:00Z"}`, "2020-02-29T09:00:00+09:00"), // backwards
	)
	for body, why := range map[string]string{
		"":                               "expected either now or advance",
		`{}`:                             "expected either now or advance",
		`{"now":"0001-01-01T00:00:00Z"}`: "expected either now or advance",
		`{"now":"2026-12-31T23:59:30+09:00","advance":"1h"}`: "expected either now or advance",
		`{"advance":"an hour"}`:                              "an hour",
		`{"advance":"60"}`:                                   "60",
		`{"advance":60}`:                                     "advance",
		`{"now":"yesterday"}`:                                "yesterday",
		`{"now":"2026-12-31"}`:                               "2026-12-31",
		`{"now":0}`:                                          "JSON string",
		`{"to":"1h"}`:                                        "to",
	} {
		r.runControl(controlStep{"POST", "/clock", body, 400, why})
	}
	r.runControl(controlStep{"PUT", "/clock", "{}", 405, ""}, is("2020-02-29T09:00:00+09:00"))
	pass(time.Second)
	r.runControl(controlStep{"DELETE", "/clock", "", 200, `{"now":"2026-03-02T12:35:08+09:00"}`}, is("2026-03-02T12:35:08+09:00"))
}

// An expired bill cannot be paid and stays in state W.
func TestClockExpiresBills(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		r := start(t, sandbox.Options{Clock: func() time.Time { return noon.In(time.FixedZone("", -10*3600)) }})
		r.must(newCall(form, "create").with("expireDt", "2026-12-31"))
		r.must(newCall(form, "create").with("billId", "FOREVER").with("expireDt", omitted{}))
		const gone = "it expired on 2026-12-31"
		r.runControl(
			controlStep{"POST", "/clock", `{"now":"2026-12-31T23:59:59+09:00"}`, 200, ""},
			controlStep{"POST", "/bills/" + billID + "/fail", "", 200, `"state":"W"`}, // a failed payment is still recorded
			controlStep{"POST", "/clock", `{"advance":"1s"}`, 200, "2027-01-01T00:00:00+09:00"},
			controlStep{"POST", "/bills/" + billID + "/pay", "", 409, gone},
			controlStep{"POST", "/bills/" + billID + "/fail", "", 409, gone},
			controlStep{"GET", "/bills/" + billID, "", 200, `"state":"W"`},
			controlStep{"POST", "/clock", `{"advance":"87600h"}`, 200, ""},
			controlStep{"POST", "/bills/" + billID + "/pay", "", 409, gone},
			controlStep{"POST", "/bills/FOREVER/pay", "", 200, `"state":"F"`},
		)
		if body := r.must(newCall(form, "read")); !strings.Contains(body, `"W"`) {
			t.Errorf("a bill that expired: %s", body)
		}
		r.runControl(
			controlStep{"DELETE", "/clock", "", 200, ""},
			controlStep{"POST", "/bills/" + billID + "/pay", "", 200, `"state":"F"`},
		)
	}
}
