package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// Each bill is claimed once, whoever asks for its read and however many gateways claim at the same time; also if
// PostgreSQL plans by its statistics of tables that were nearly empty.
func TestGatewaysClaimDifferentReads(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		s, id, at := open(t, url), partner.Of("k"), time.Now().Truncate(time.Millisecond)
		record := func(n int) {
			t.Helper()
			bill := fmt.Sprint("b", n)
			if n%3 != 0 {
				create := ledger.Call{Operation: "bill.create", Upstream: "old", At: at}
				must(t, proxytest.On(s).NoAnswer(t.Context(), id, bill, create, ledger.Reading{Finding: "not read"}, at))
			}
			if n%3 != 1 {
				a := keyAddress(id, bill)
				a.Look = at
				works(t)(s.Bind(t.Context(), a))
			}
		}
		for n := range 3 {
			record(n)
		}
		run(t, raw(t, url), "ANALYZE")
		for n := range 27 {
			record(n + 3)
		}
		var mu sync.Mutex
		var claiming sync.WaitGroup
		claimed, looks := map[string]int{}, 0
		for range 3 {
			claiming.Go(func() {
				for range 11 {
					r, err := s.ClaimRead(t.Context(), id, store.Due{Bills: at, Looks: at}, at.Add(time.Second))
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					claimed[r.Bill.ID]++
					looks += len(r.Looks)
					mu.Unlock()
				}
			})
		}
		claiming.Wait()
		equal(t, claimed[""], 3)
		equal(t, len(claimed), 31, claimed)
		equal(t, looks, 20)
	})
}
