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
				counts.Ended(id, op, evidence.Backend(j%2), evidence.End{Code: "0000", Succeeded: true, Creates: op == "bill.create"})
			}
		}
		must(b, counts.Flush(b.Context()))
		if stage := rollout.Stages[i%5]; stage != rollout.StageOld {
			m := operate.Move{Stage: stage}
			if m.By, m.Partner, m.Force = "a", string(id), rollout.ReasonKinds; stage == rollout.StageCanary {
				percent := 10
				m.Percent = &percent
			}
			works(b)(d.Move(b.Context(), m))
		}
	}
	for b.Loop() {
		list, err := d.Partners(b.Context(), operate.PartnerQuery{Sort: "-last"})
		if err != nil || list.All != 500 {
			b.Fatal(err, list.All)
		}
	}
}

// BenchmarkWave shows the first page of a wave of 10,000 partners in all stages, from SQLite. Each partner has evidence.
func BenchmarkWave(b *testing.B) {
	s := proxytest.Open(b, "sqlite:"+b.TempDir()+"/bridge.db")
	d := newTestOperator(b, s, separate)
	counts := d.Router.Counts()
	const partners = 10_000
	for i := range partners {
		id := partner.Of(fmt.Sprint("key", i))
		must(b, s.Seen(b.Context(), id, noon.Add(-time.Hour)))
		for j := range 20 {
			counts.Add(id, "bill.create", evidence.Comparison{Class: evidence.Same, Bill: fmt.Sprint(i, " ", j), Succeeded: [2]bool{true, true}, ReadBack: true, States: true, Paid: j%2 == 0})
			for _, op := range []string{"bill.read", "bill.create", "bill.cancel", "bill.destroy", "bill.resend"} {
				counts.Ended(id, op, evidence.Backend(j%2), evidence.End{Code: "0000", Succeeded: true, Creates: op == "bill.create"})
			}
		}
		if i%500 == 499 {
			must(b, counts.Flush(b.Context()))
		}
	}
	order := operate.WaveOrder{Author: operate.Author{By: "a"}, WaveName: operate.WaveName{Name: "all"}}
	for i := range partners {
		order.Partners += hash(fmt.Sprint("key", i)) + "\n"
	}
	_, err := d.CreateWave(b.Context(), order)
	must(b, err)
	for i := range partners / 20 {
		m := operate.Move{Stage: rollout.Stages[1+i%4]}
		if m.By, m.Partner, m.Force = "a", hash(fmt.Sprint("key", i)), rollout.ReasonKinds; m.Stage == rollout.StageCanary {
			m.Percent = new(10)
		}
		works(b)(d.Move(b.Context(), m))
	}
	b.Run("page", func(b *testing.B) {
		for b.Loop() {
			info, err := d.Wave(b.Context(), operate.WaveQuery{WaveName: operate.WaveName{Name: "all"}})
			if err != nil || info.Number != partners || len(info.Partners) != 100 {
				b.Fatal(err, info.Number)
			}
		}
	})
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			if list, err := d.Waves(b.Context(), operate.WaveFilter{Active: true}); err != nil || len(list) != 1 {
				b.Fatal(err)
			}
		}
	})
}
