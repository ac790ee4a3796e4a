package operate_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
)

// breaks makes the counts of a partner's creates unreadable.
func (d *testOperator) breaks(key string, marked bool) {
	d.t.Helper()
	broken := []store.Counts{{Partner: partner.Of(key), Operation: "bill.create", Data: []byte("no JSON"), Marked: marked}}
	works(d.t)(d.store.AddCounts(d.t.Context(), d.Config().Table.Version, broken, noon, func(_, more []byte) ([]byte, error) { return more, nil }))
}

// Counts of one partner that cannot be read take nothing away of the others, nor the gauge of the kill switch: the report, the
// list and the gauges have all partners. The guard of that partner is closed until a reset, and the log has it once.
func TestCountsOfOnePartnerThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s, registry := proxytest.Open(t, "memory:"), prometheus.NewRegistry()
	d := newTestOperator(t, s, separate)
	for _, key := range []string{"good", "broken"} {
		d.seen(key, time.Hour)
		d.change("/rollout/stage?by=a&stage=canary&percent=10&force=<all>&partner=" + hash(key))
		d.proves(key)
	}
	must(t, d.Router.Counts().Flush(t.Context()))
	d.breaks("broken", false)
	d.compares("broken", 30, evidence.Same) // another operation, which can be read
	d.change("/rollout/stop?by=a")
	r, err := routing.New(t.Context(), parse(t, separate), routing.Options{Store: s, Registerer: registry, Now: d.Now})
	must(t, err)
	must(t, d.Router.SetGauges(t.Context()))
	must(t, d.Router.SetGauges(t.Context()))
	equal(t, strings.Count(d.logs.String(), "counts of partners cannot be read"), 1, d.logs.String())
	must(t, r.SetGauges(t.Context()))
	gauges := map[string]float64{}
	families, err := registry.Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "billbridge_rollout_")
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			gauges[name] = m.GetGauge().GetValue()
		}
	}
	for name, n := range map[string]float64{
		"stopped": 1, "partners canary": 2, "verdicts INCONCLUSIVE": 2, "verdicts PASS": 2,
	} {
		equal(t, gauges[name], n, name, gauges)
	}

	report := answers[operate.Report](d, "GET", "/rollout/report")
	rulings := map[string]string{}
	for _, v := range report.Verdicts {
		key := fmt.Sprint(v.Partner, " ", v.Operation, " ", v.Ruling)
		rulings[key] += v.Reason.String()
	}
	equal(t, len(report.Partners), 2)
	why := rulings[filled("<broken:12> bill.create INCONCLUSIVE")]
	if _, good := rulings[filled("<good:12> bill.create PASS")]; !good || !strings.Contains(why, "cannot be read") {
		t.Errorf("%q", rulings)
	}
	var page bytes.Buffer
	must(t, report.Write(&page, "text"))
	equal(t, strings.Count(page.String(), "cannot be read"), 1, page.String())
	list := answers[operate.PartnerList](d, "GET", "/rollout/partners")
	equal(t, list.Number, 2)
	for _, row := range list.Partners {
		kinds := moves.JoinKinds(row.Step.Kinds())
		if row.Partner == filled("<good:12>") {
			equal(t, kinds+string(row.Step.Ruling), "PASS")
		} else {
			equal(t, kinds+string(row.Step.Ruling), "uncheckedINCONCLUSIVE")
		}
	}
	next := "/rollout/next?by=a&partner=<%s>"
	d.unforced(fmt.Sprintf(next, "good"))
	d.refuses(fmt.Sprintf(next, "broken"), "[unchecked]")
	d.refuses("/rollout/reset?by=a&partner=<broken>", "[unchecked]")
	d.unforced("/rollout/reset?by=a&partner=<good>")
	d.change("/rollout/reset?by=a&force=unchecked&partner=<broken>")
	d.proves("broken")
	d.unforced(fmt.Sprintf(next, "broken"))
}
