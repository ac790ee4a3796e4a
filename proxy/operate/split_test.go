package operate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"

	"github.com/google/go-cmp/cmp"
)

const byMerchant = "rollout: {old: legacy, new: fresh, split: merchant}\nstore: {url: 'sqlite:bridge.db'}\n"

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
func (d *testOperator) makes(merchant, bill string, outcome store.Outcome) string {
	d.t.Helper()
	call := rollout.Call{Operation: "bill.create", Creates: true, Writes: true, Partner: partner.Of("k"), Merchant: merchant, Bill: bill}
	route, err := d.Router.Route(d.t.Context(), call, func(context.Context, string) rollout.ProbeResult { return rollout.Absent })
	must(d.t, err)
	must(d.t, d.Router.Complete(d.t.Context(), route, outcome))
	d.Router.Count(call, route, evidence.End{Code: map[bool]string{true: "0000", false: "VALIDATION_001"}[outcome == store.Succeeded], Succeeded: outcome == store.Succeeded})
	return route.Upstream
}

// A retry of a refused create goes to the backend of the first one, also through another replica and after the percentage was
// raised; with split: merchant all bills of a merchant go there.
func TestCanaryDrawsTheSameBillTheSameWay(t *testing.T) {
	t.Parallel()
	for _, more := range []string{separate, byMerchant} {
		s := proxytest.Open(t, "memory:")
		one := inCanary(t, s, more, 30)
		two := newTestOperator(t, s, more)
		first, of := map[int]string{}, map[string]map[string]bool{}
		for i := range 200 {
			merchant := fmt.Sprint("m", i%40)
			first[i] = one.makes(merchant, fmt.Sprint("BILL", i), store.Refused)
			if of[merchant] == nil {
				of[merchant] = map[string]bool{}
			}
			of[merchant][first[i]] = true
			equal(t, two.makes(merchant, fmt.Sprint("BILL", i), store.Refused), first[i], more, i)
		}
		mixed := 0
		for _, upstreams := range of {
			if len(upstreams) > 1 {
				mixed++
			}
		}
		equal(t, mixed == 0, more == byMerchant, more, mixed)
		one.percent(60)
		must(t, two.Follow(t.Context()))
		raised := 0
		for i := range 200 {
			now := two.makes(fmt.Sprint("m", i%40), fmt.Sprint("BILL", i), store.Refused)
			switch {
			case first[i] == "fresh" && now != "fresh":
				t.Errorf("%s: raising the percentage moved bill %d back", more, i)
			case first[i] != now:
				raised++
			}
		}
		if raised < 20 {
			t.Errorf("%s: 30 %% to 60 %% moved %d of 200", more, raised)
		}
	}
}

// A reload that changes the split does not move bills. It is logged if a partner is in canary.
func TestReloadOfTheSplitMovesNoBill(t *testing.T) {
	t.Parallel()
	d := inCanary(t, proxytest.Open(t, "memory:"), separate, 50)
	was := map[string]string{}
	for i := range 100 {
		bill := fmt.Sprint("BILL", i)
		was[bill] = d.makes(fmt.Sprint("m", i%10), bill, store.Succeeded)
	}
	d.Router.Use(parse(t, separate))
	lacks(t, d.logs.String(), "rollout.split has changed", "a reload that changes nothing is logged as one that does")
	d.Router.Use(parse(t, byMerchant))
	has(t, d.logs.String(), `"level":"WARN","msg":"rollout.split has changed: canary selects other bills for the new backend; bills that have an owner stay there","split":"merchant","was":"bill"`)
	equal(t, answers[operate.Status](d, "GET", "/rollout").Split, "merchant", "the status says split")
	of, all := map[string]string{}, map[string]bool{} // the upstreams of new bills: by merchant, and of all
	for i := range 100 {
		bill, merchant := fmt.Sprint("BILL", i), fmt.Sprint("m", i%10)
		equal(t, d.makes(merchant, bill, store.Taken), was[bill], bill)
		at := d.makes(merchant, "NEW"+bill, store.Succeeded)
		if before, known := of[merchant]; known && before != at {
			t.Errorf("split: merchant sends new bills of %s to %s and to %s", merchant, before, at)
		}
		of[merchant], all[at] = at, true
	}
	if len(all) != 2 { // or a bill could move in one direction only
		t.Errorf("all merchants are at %v", all)
	}
	quiet := operatorInMemory(t, separate)
	if quiet.Use(parse(t, byMerchant)); strings.Contains(quiet.logs.String(), "rollout.split has changed") {
		t.Error("without a canary, a new split is logged as one that moves something")
	}
}

// set and status show the effect of a percentage on the bills of the last day, counted by all replicas.
func TestEffectOfAPercentage(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		config  string
		percent int
		made    map[string]int // by merchant
		want    operate.Effect
	}{
		"one merchant, by bill":     {separate, 10, map[string]int{"only": 20}, operate.Effect{Split: "bill", Percent: 10, Bills: 20, Merchants: 1, Reached: 1}},
		"one merchant, by merchant": {byMerchant, 10, map[string]int{"only": 20}, operate.Effect{Split: "merchant", Percent: 0, Bills: 20, Merchants: 1}},
		"of all":                    {byMerchant, 100, map[string]int{"a": 1}, operate.Effect{Split: "merchant", Percent: 100, Bills: 1, Merchants: 1, Reached: 1}},
		"nothing was made":          {separate, 10, nil, operate.Effect{Split: "bill", Percent: 10}},
		"nothing, by merchant":      {byMerchant, 10, nil, operate.Effect{Split: "merchant", Percent: 10}},
		"none of two":               {separate, 0, map[string]int{"a": 1, "b": 1}, operate.Effect{Split: "bill", Bills: 2, Merchants: 2}},
		// Of these, the draw takes c alone at 50 %.
		"by merchant, of unlike size": {byMerchant, 50, map[string]int{"f": 5, "c": 15}, operate.Effect{Split: "merchant", Percent: 75, Bills: 20, Merchants: 2, Reached: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := proxytest.Open(t, "memory:")
			one := inCanary(t, s, row.config, 1)
			two := newTestOperator(t, s, row.config)
			n := 0
			for merchant, bills := range row.made {
				for range bills {
					n++
					[]*testOperator{one, two}[n%2].makes(merchant, fmt.Sprint("BILL", n), store.Succeeded)
					one.makes(merchant, fmt.Sprint("REFUSED", n), store.Refused)
				}
			}
			for _, d := range []*testOperator{one, two} {
				must(t, d.Router.Counts().Flush(t.Context()))
			}
			for i, got := range []*operate.Effect{one.percent(row.percent).Effect, answers[operate.Status](one, "GET", "/rollout?partner=<k>").Partners[0].Effect} {
				if diff := cmp.Diff(&row.want, got); diff != "" {
					t.Errorf("%s: %s", []string{"set", "status"}[i], diff)
				}
			}
			if got := one.percent(0); got.Effect == nil {
				t.Error("canary 0 % has no effect")
			}
			if got := one.change("/rollout/stage?by=a&stage=old&partner=<k>"); got.Effect != nil {
				t.Errorf("stage old has the effect %+v", got.Effect)
			}
		})
	}
}

// If the counts cannot be read, the status is shown without the effect.
func TestStatusWithoutCounts(t *testing.T) {
	t.Parallel()
	d := inCanary(t, proxytest.Open(t, "memory:"), separate, 10)
	broken := []store.Counts{{Partner: partner.Of("k"), Operation: "bill.create", Data: []byte("no JSON")}}
	works(t)(d.store.AddCounts(t.Context(), "table", broken, noon, nil))
	if got := answers[operate.Status](d, "GET", "/rollout"); len(got.Partners) != 1 || got.Partners[0].Effect != nil || got.Partners[0].Stage != rollout.StageCanary {
		t.Errorf("%+v", got)
	}
	if got := d.percent(20); got.Effect != nil || *got.ToPercent != 20 {
		t.Errorf("%+v", got)
	}
}

// A backend may treat ids that differ in case or surrounding space as one bill: drawn differently, it would be created twice.
func TestIDsThatMayBeOneBillAreDrawnAlike(t *testing.T) {
	t.Parallel()
	for i := range 20 {
		where := map[string]string{}
		for _, id := range []string{fmt.Sprint("DM-abC", i), fmt.Sprint("dm-ABc", i), fmt.Sprint(" DM-ABC", i, " ")} {
			where[inCanary(t, proxytest.Open(t, "memory:"), separate, 50).makes("m", id, store.Succeeded)] = id
		}
		if len(where) != 1 {
			t.Fatalf("%v", where)
		}
	}
}

// Counts of the last day stay, whatever the order of the merges: also with older counts, and with those of a clock that was a
// year ahead.
func TestRecentBillsSurviveAMerge(t *testing.T) {
	t.Parallel()
	counted := func(at time.Time) evidence.Snapshot {
		counts := evidence.NewCounts("table", func() time.Time { return at })
		counts.Ended(partner.Of("k"), "bill.create", evidence.Old, evidence.End{Code: "0000", Succeeded: true, Creates: true, Merchant: "m"})
		return counts.Snapshot()
	}
	all := []evidence.Snapshot{counted(noon), counted(noon.Add(-30 * 24 * time.Hour)), counted(noon.Add(365 * 24 * time.Hour)), counted(noon.Add(-time.Hour))}
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}, {1, 2, 3, 0}} {
		d := operatorInMemory(t, separate)
		d.seen("k", time.Hour)
		for _, i := range order {
			all[i].Table = d.Router.Counts().Table()
			must(t, d.Router.Counts().Merge(all[i]))
		}
		equal(t, d.percent(10).Effect.Bills, 2, order)
	}
}
