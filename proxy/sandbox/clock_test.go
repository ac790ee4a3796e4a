package sandbox_test

import (
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

	r.runControl(`GET /clock > 200 {"now":"2026-03-02T12:34:56+09:00"}`)
	pass(time.Second)
	r.runControl(`
		GET /clock > 200 {"now":"2026-03-02T12:34:57+09:00"}
		POST /clock {"now":"2026-12-31T23:59:30+09:00"} > 200 {"now":"2026-12-31T23:59:30+09:00"}
		POST /clock {"now":"2026-12-31T09:59:30-05:00"} > 200 {"now":"2026-12-31T23:59:30+09:00"}
	`)
	pass(10 * time.Second)
	r.runControl(`
		GET /clock > 200 {"now":"2026-12-31T23:59:40+09:00"}
		POST /clock {"advance":"1h0m20s"} > 200 {"now":"2027-01-01T01:00:00+09:00"}
		POST /clock {"advance":"24h"} > 200 {"now":"2027-01-02T01:00:00+09:00"}
		POST /clock {"advance":"-48h"} > 200 {"now":"2026-12-31T01:00:00+09:00"}
		POST /clock {"now":"2020-02-29T00:00:00Z"} > 200 {"now":"2020-02-29T09:00:00+09:00"}
		POST /clock > 400 expected either now or advance
		POST /clock {} > 400 expected either now or advance
		POST /clock {"now":"0001-01-01T00:00:00Z"} > 400 expected either now or advance
		POST /clock {"now":"2026-12-31T23:59:30+09:00","advance":"1h"} > 400 expected either now or advance
		POST /clock {"advance":"an hour"} > 400 an hour
		POST /clock {"advance":"60"} > 400 60
		POST /clock {"advance":60} > 400 advance
		POST /clock {"now":"yesterday"} > 400 yesterday
		POST /clock {"now":"2026-12-31"} > 400 2026-12-31
		POST /clock {"now":0} > 400 JSON string
		POST /clock {"to":"1h"} > 400 to
		PUT /clock {} > 405
		GET /clock > 200 {"now":"2020-02-29T09:00:00+09:00"}
	`)
	pass(time.Second)
	r.runControl(`
		DELETE /clock > 200 {"now":"2026-03-02T12:35:08+09:00"}
		GET /clock > 200 {"now":"2026-03-02T12:35:08+09:00"}
	`)
}

// An expired bill cannot be paid and stays in state W. A payment that fails before that is still recorded.
func TestClockExpiresBills(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		r := start(t, sandbox.Options{Clock: func() time.Time { return noon.In(time.FixedZone("", -10*3600)) }})
		r.must(newCall(form, "create").with("expireDt", "2026-12-31"))
		r.must(newCall(form, "create").with("billId", "FOREVER").with("expireDt", omitted{}))
		r.runControl(`
			POST /clock {"now":"2026-12-31T23:59:59+09:00"} > 200
			POST /faults {"operation":"payment","code":"PAYMENT_001"} > 200
			POST /bills/{bill}/pay > 409 PAYMENT_001
			POST /clock {"advance":"1s"} > 200 2027-01-01T00:00:00+09:00
			POST /bills/{bill}/pay > 409 it expired on 2026-12-31
			GET /bills/{bill} > 200 "state":"W"
			POST /clock {"advance":"87600h"} > 200
			POST /bills/{bill}/pay > 409 it expired on 2026-12-31
			POST /bills/FOREVER/pay > 200 "state":"F"
		`)
		has(t, r.must(newCall(form, "read")), `"W"`, "a bill that expired")
		r.runControl(`
			DELETE /clock > 200
			POST /bills/{bill}/pay > 200 "state":"F"
		`)
	}
}
