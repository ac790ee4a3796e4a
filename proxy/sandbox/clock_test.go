package sandbox_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/sandbox"
)

// TestClock: a tester sets the time of the service, which goes on from there, and
// sets it right again.
func TestClock(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64 // since noon, by the real clock
	r := start(t, sandbox.Options{Clock: func() time.Time { return noon.Add(time.Duration(passed.Load())) }})
	pass := func(d time.Duration) { passed.Add(int64(d)) }
	is := func(now string) told { return told{"GET", "/clock", "", 200, `{"now":"` + now + `"}`} }
	set := func(body, now string) told { return told{"POST", "/clock", body, 200, `{"now":"` + now + `"}`} }

	r.tell(is("2026-03-02T12:34:56+09:00"))
	pass(time.Second)
	r.tell(
		is("2026-03-02T12:34:57+09:00"),
		set(`{"now":"2026-12-31T23:59:30+09:00"}`, "2026-12-31T23:59:30+09:00"),
		set(`{"now":"2026-12-31T09:59:30-05:00"}`, "2026-12-31T23:59:30+09:00"), // the same, said elsewhere
	)
	pass(10 * time.Second)
	r.tell(
		is("2026-12-31T23:59:40+09:00"),
		set(`{"advance":"1h0m20s"}`, "2027-01-01T01:00:00+09:00"),
		set(`{"advance":"24h"}`, "2027-01-02T01:00:00+09:00"),
		set(`{"advance":"-48h"}`, "2026-12-31T01:00:00+09:00"),
		set(`{"now":"2020-02-29T00:00:00Z"}`, "2020-02-29T09:00:00+09:00"), // also back
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
		r.tell(told{"POST", "/clock", body, 400, why})
	}
	r.tell(told{"PUT", "/clock", "{}", 405, ""}, is("2020-02-29T09:00:00+09:00"))
	pass(time.Second)
	r.tell(told{"DELETE", "/clock", "", 200, `{"now":"2026-03-02T12:35:08+09:00"}`}, is("2026-03-02T12:35:08+09:00"))
}

// TestTimesAreKorean: whatever zone the clock is in, every time of the interface
// is Korean, also where it is another year there.
func TestTimesAreKorean(t *testing.T) {
	t.Parallel()
	for name, zone := range map[string]*time.Location{
		"UTC": time.UTC, "Seoul": time.FixedZone("KST", 9*3600), "behind": time.FixedZone("", -10*3600), "ahead": time.FixedZone("", 14*3600),
	} {
		for _, form := range forms {
			t.Run(name+"/"+form, func(t *testing.T) {
				t.Parallel()
				r := start(t, sandbox.Options{Clock: func() time.Time { return noon.In(zone) }})
				has := func(body, want string) {
					t.Helper()
					if !strings.Contains(body, want) {
						t.Errorf("no %s in %s", want, body)
					}
				}
				r.tell(told{"POST", "/clock", `{"now":"2026-12-31T23:59:30+09:00"}`, 200, "2026-12-31T23:59:30+09:00"})
				r.post("/auth/mapping", `{"apiKey":"demo-partner-key","memberId":"m","merchantId":"s","callbackUrl":"https://partner.example.com/cb"}`)
				r.must(newAsk(form, "create").with("expireDt", "2026-12-31"))
				r.tell(
					told{"POST", "/bills/" + billID + "/pay", "", 200, `"state":"F"`},
					told{"POST", "/clock", `{"advance":"1m"}`, 200, "2027-01-01T00:00:30+09:00"},
					told{"POST", "/mappings/complete", `{"partner":"demo-partner-key","member":"m","merchant":"s"}`, 200, ""},
				)
				has(r.must(newAsk("legacy", "read")), `"appr_dt":"20261231235930","appr_origin_dt":"20261231235930"`)
				has(r.must(newAsk("v2", "read")), `"apprDt":20261231235930,"apprOriginDt":20261231235930`)
				has(r.must(newAsk(form, "cancel")), map[string]string{"v2": `"apprCancelDt":"20270101000030"`, "legacy": `"appr_cancel_dt":"20270101000030"`}[form])
				has(r.must(newAsk("legacy", "read")), `"appr_dt":"20270101000030","appr_origin_dt":"20261231235930"`)
				has(r.must(newAsk("v2", "read")), `"apprDt":20270101000030,"apprOriginDt":20261231235930`)
				_, list := r.post("/read/mapping", `{"apiKey":"demo-partner-key"}`)
				has(list, `"regDt":"2026-12-31T23:59:30","updDt":"2027-01-01T00:00:30"`)
			})
		}
	}
}

// TestClockExpiresBills: a bill that is past its expireDt cannot be paid, and
// stays W.
func TestClockExpiresBills(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		r := start(t, sandbox.Options{Clock: func() time.Time { return noon.In(time.FixedZone("", -10*3600)) }})
		r.must(newAsk(form, "create").with("expireDt", "2026-12-31"))
		r.must(newAsk(form, "create").with("billId", "FOREVER").with("expireDt", gone{}))
		const gone = "it expired on 2026-12-31"
		r.tell(
			told{"POST", "/clock", `{"now":"2026-12-31T23:59:59+09:00"}`, 200, ""},
			told{"POST", "/bills/" + billID + "/fail", "", 200, `"state":"W"`}, // it can still be tried
			told{"POST", "/clock", `{"advance":"1s"}`, 200, "2027-01-01T00:00:00+09:00"},
			told{"POST", "/bills/" + billID + "/pay", "", 409, gone},
			told{"POST", "/bills/" + billID + "/fail", "", 409, gone},
			told{"GET", "/bills/" + billID, "", 200, `"state":"W"`},
			told{"POST", "/clock", `{"advance":"87600h"}`, 200, ""},
			told{"POST", "/bills/" + billID + "/pay", "", 409, gone},
			told{"POST", "/bills/FOREVER/pay", "", 200, `"state":"F"`},
		)
		if body := r.must(newAsk(form, "read")); !strings.Contains(body, `"W"`) {
			t.Errorf("a bill that expired: %s", body)
		}
		r.tell(
			told{"DELETE", "/clock", "", 200, ""},
			told{"POST", "/bills/" + billID + "/pay", "", 200, `"state":"F"`},
		)
	}
}
