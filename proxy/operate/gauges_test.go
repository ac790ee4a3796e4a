package operate_test

import (
	"context"
	"testing"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"

	"github.com/prometheus/client_golang/prometheus"
)

// The gauges count partners by stage, also those that follow the default, and verdicts.
func TestGauges(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := proxytest.Open(t, "memory:")
	d := newTestOperator(t, s, separate)
	registry := prometheus.NewRegistry()
	r, err := routing.New(ctx, parse(t, separate), routing.Options{Store: s, Registerer: registry, Now: func() time.Time { return noon }})
	must(t, err)
	for _, key := range []string{"a", "b", "c", "d"} {
		d.seen(key, time.Hour)
	}
	for target, n := range map[string]string{"a": "new", "b": "canary&percent=5", "unseen": "old"} {
		d.change("/rollout/stage?by=a&force=<all>&partner=" + hash(target) + "&stage=" + n)
	}
	d.proves("a")
	d.compares("a", 1, evidence.Differs, evidence.Difference{Path: "apprPrice", Kind: evidence.InMoney})
	d.compares("b", 1, evidence.Same)
	answers[operate.Report](d, "GET", "/rollout/report")
	must(t, r.SetGauges(ctx))
	must(t, d.Router.SetGauges(ctx))
	equal(t, answers[operate.Status](d, "GET", "/rollout").Failing, 1)
	for name, want := range map[string]map[string]float64{
		"billbridge_rollout_partners": {"old": 3, "shadow": 0, "canary": 1, "new": 1, "drained": 0},
		"billbridge_rollout_verdicts": {"PASS": 2, "FAIL": 1, "INCONCLUSIVE": 1},
	} {
		got := map[string]float64{}
		families, err := registry.Gather()
		must(t, err)
		for _, f := range families {
			if f.GetName() != name {
				continue
			}
			for _, m := range f.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
		equal(t, len(got), len(want), name, got)
		for label, n := range want {
			equal(t, got[label], n, name, got, want)
		}
	}
	for _, creates := range []bool{true, false} {
		call := routing.Call{Operation: "bill.create", Creates: creates, Writes: true, Partner: partner.Of("a"), Bill: "B1"}
		works(t)(r.Route(ctx, call, probes(func(context.Context, string) routing.ProbeResult { return routing.Absent })))
	}
	families, err := registry.Gather()
	must(t, err)
	asked := map[string]uint64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "billbridge_rollout_ledger_seconds" {
				asked[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleCount()
			}
		}
	}
	if len(asked) != 5 || asked["owner"] != 1 || asked["own"] != 1 || asked["complete"] != 0 {
		t.Errorf("the ledger's latency: %v", asked)
	}
}
