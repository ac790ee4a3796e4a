package operate_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/ledger"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// inCanary is a testOperator with partner k in canary, after its settling period.
func inCanary(t *testing.T, s *store.Store, more string, percent int) *testOperator {
	t.Helper()
	d := newTestOperator(t, s, more)
	d.seen("k", time.Hour)
	d.percent(percent)
	return d
}

func (d *testOperator) percent(percent int) operate.Change {
	d.t.Helper()
	return d.change(fmt.Sprintf("/rollout/stage?by=a&force=<all>&stage=canary&percent=%d&partner=%s", percent, hash("k")))
}

// makes creates a bill of partner k through the router, and returns its upstream.
func (d *testOperator) makes(bill string, outcome ledger.Outcome) string {
	d.t.Helper()
	call := routing.Call{Operation: "bill.create", Creates: true, Writes: true, Partner: partner.Of("k"), Bill: bill}
	route, err := d.Router.Route(d.t.Context(), call, probes(func(context.Context, string) routing.ProbeResult { return routing.Absent }))
	must(d.t, err)
	must(d.t, d.Router.Ended(d.t.Context(), route, routing.Ending{Outcome: outcome}))
	d.Router.Count(call, route, evidence.End{Code: map[bool]string{true: "0000", false: "VALIDATION_001"}[outcome == ledger.Succeeded], Succeeded: outcome == ledger.Succeeded})
	return route.Upstream
}

// A retry of a refused create goes to the backend of the first one, also through another replica and after the percentage was
// raised.
func TestCanaryDrawsTheSameBillTheSameWay(t *testing.T) {
	t.Parallel()
	s := proxytest.Open(t, "memory:")
	one := inCanary(t, s, separate, 30)
	two := newTestOperator(t, s, separate)
	first, all := map[int]string{}, map[string]int{}
	for i := range 200 {
		first[i] = one.makes(fmt.Sprint("BILL", i), ledger.Refused)
		all[first[i]]++
		equal(t, two.makes(fmt.Sprint("BILL", i), ledger.Refused), first[i], i)
	}
	if all["fresh"] < 30 || all["fresh"] > 90 {
		t.Errorf("30 %% of 200 bills are %v", all)
	}
	one.percent(60)
	must(t, two.Follow(t.Context()))
	raised := 0
	for i := range 200 {
		now := two.makes(fmt.Sprint("BILL", i), ledger.Refused)
		switch {
		case first[i] == "fresh" && now != "fresh":
			t.Errorf("raising the percentage moved bill %d back", i)
		case first[i] != now:
			raised++
		}
	}
	if raised < 20 {
		t.Errorf("30 %% to 60 %% moved %d of 200", raised)
	}
}

// A backend may treat ids that differ in case or surrounding space as one bill: drawn differently, it would be created twice.
func TestIDsThatMayBeOneBillAreDrawnAlike(t *testing.T) {
	t.Parallel()
	for i := range 20 {
		where := map[string]string{}
		for _, id := range []string{fmt.Sprint("DM-abC", i), fmt.Sprint("dm-ABc", i), fmt.Sprint(" DM-ABC", i, " ")} {
			where[inCanary(t, proxytest.Open(t, "memory:"), separate, 50).makes(id, ledger.Succeeded)] = id
		}
		if len(where) != 1 {
			t.Fatalf("%v", where)
		}
	}
}
