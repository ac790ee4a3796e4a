package operate_test

import (
	"fmt"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
)

// BenchmarkPartners lists 500 partners in all stages, with much evidence each, from SQLite.
func BenchmarkPartners(b *testing.B) {
	s := proxytest.Open(b, "sqlite:"+b.TempDir()+"/bridge.db")
	d := newTestOperator(b, s, separate)
	counts := d.Router.Counts()
	for i := range 500 {
		id := partner.Of(fmt.Sprint("key", i))
		must(b, s.Seen(b.Context(), id, noon.Add(-time.Hour)))
		for j := range 400 {
			bill := fmt.Sprint(i, " ", j)
			for _, op := range []string{"bill.read", "bill.create"} {
				c := evidence.Comparison{Class: evidence.Same, Bill: bill, Succeeded: [2]bool{true, true}, ReadBack: op == "bill.create", States: true, Paid: j%2 == 0}
				if i%10 == 0 && j == 0 { // it is marked
					c.Class, c.Differences = evidence.Differs, []evidence.Difference{{Path: "apprPrice", Kind: evidence.InMoney}}
				}
				counts.Add(id, op, c)
			}
			for _, op := range []string{"bill.read", "bill.create", "bill.cancel", "bill.destroy", "bill.resend"} {
				counts.Ended(id, op, evidence.Backend(j%2), evidence.End{Code: "0000", Succeeded: true, Arrived: noon, Took: time.Second, Creates: op == "bill.create", Merchant: fmt.Sprint("m", j%20)})
			}
		}
		must(b, counts.Flush(b.Context()))
		if stage := rollout.Stages[i%5]; stage != rollout.StageOld {
			m := operate.Move{Stage: stage}
			if m.By, m.Partner, m.Force = "a", string(id), rollout.ReasonKinds; stage == rollout.StageCanary {
				percent := 10
				m.Percent = &percent
			}
			_, err := d.Move(b.Context(), m)
			must(b, err)
		}
	}
	for b.Loop() {
		list, err := d.Partners(b.Context(), operate.PartnerQuery{Sort: "-calls"})
		if err != nil || list.All != 500 || list.Partners[0].Traffic.Calls == 0 {
			b.Fatal(err, list.All)
		}
	}
}
