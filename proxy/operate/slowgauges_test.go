package operate_test

import (
	"strings"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// The gauges of the kill switch, and of outcomes that stay unknown.
func TestGaugesForSlowAlerts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := proxytest.Open(t, "memory:")
	registry, now := prometheus.NewRegistry(), noon
	r, err := routing.New(ctx, parse(t, shared), routing.Options{Store: s, Registerer: registry, Now: func() time.Time { return now }})
	must(t, err)
	// Of the writes without an answer one has ended just now, one is old enough, and one is resolved.
	must(t, s.Prove(ctx, partner.Of("a")))
	for bill, at := range map[string]time.Time{"B1": noon.Add(15 * 24 * time.Hour), "B2": noon, "B3": noon} {
		cancel := ledger.Call{Operation: "bill.cancel", Upstream: "old", At: at}
		must(t, proxytest.On(s).NoAnswer(ctx, partner.Of("a"), bill, cancel, ledger.Reading{Finding: routing.NotAsked}, at))
	}
	read := routing.ReadResult{Result: routing.Present, State: "F"}
	must(t, r.RecordRead(ctx, ledger.Bill{Partner: partner.Of("a"), ID: "B3"}, nil, r.Looked("old", read, false, noon.Add(time.Hour))...))
	check := func(stopped, unclear string) {
		t.Helper()
		want := "# HELP billbridge_rollout_stopped 1 while the kill switch is on, otherwise 0.\n" +
			"# TYPE billbridge_rollout_stopped gauge\nbillbridge_rollout_stopped " + stopped + "\n"
		want += "# HELP billbridge_rollout_unknown_outcomes Bills with a write whose outcome is unknown (state unknown), and those of them that " +
			"the reads of the first hour have not resolved (state unclear).\n# TYPE billbridge_rollout_unknown_outcomes gauge\n" +
			"billbridge_rollout_unknown_outcomes{state=\"unclear\"} " + unclear + "\nbillbridge_rollout_unknown_outcomes{state=\"unknown\"} 2\n"
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "billbridge_rollout_stopped", "billbridge_rollout_unknown_outcomes"); err != nil {
			t.Error(err)
		}
	}
	must(t, r.SetGauges(ctx))
	check("0", "0")
	now = noon.Add(15 * 24 * time.Hour)
	must(t, s.Change(ctx, store.Change{Action: store.Stopped, By: "anna", At: now}))
	must(t, r.SetGauges(ctx))
	check("1", "1")
	// A write that the ledger does not take is counted: it is in no list.
	cancel := routing.Call{Partner: "not a hash", Bill: "B4", Operation: "bill.cancel", Writes: true}
	route, err := r.Route(ctx, cancel, nil)
	must(t, err)
	fails(t, "", "the write was recorded")(0, r.Ended(ctx, route, routing.Ending{Outcome: ledger.Unknown, Unknown: true}))
	want := "# HELP billbridge_rollout_unknown_unrecorded_total Writes with an unknown outcome that the ledger could not record: they are in no list.\n" +
		"# TYPE billbridge_rollout_unknown_unrecorded_total counter\nbillbridge_rollout_unknown_unrecorded_total 1\n"
	must(t, testutil.GatherAndCompare(registry, strings.NewReader(want), "billbridge_rollout_unknown_unrecorded_total"))
	// While the store cannot be read, no alert ends, and none begins again: the gauges stay.
	must(t, s.Close())
	if r.SetGauges(ctx) == nil {
		t.Error("the store was read")
	}
	check("1", "1")
}
