package store_test

import (
	"fmt"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// A claim of a read takes one write of a partner, also if PostgreSQL, by its statistics of a table that was nearly
// empty, plans to look for it once for each row.
func TestClaimOfAReadTakesOneWrite(t *testing.T) {
	t.Parallel()
	url := proxytest.Postgres(t)
	s, id, at := open(t, url), partner.Of("k"), time.Now()
	record := func(n int) {
		t.Helper()
		create := ledger.Call{Operation: "bill.create", Upstream: "old", At: at}
		must(t, proxytest.On(s).NoAnswer(t.Context(), id, fmt.Sprint("b", n), create, ledger.Reading{Finding: "not read"}, at))
	}
	record(0)
	run(t, raw(t, url), "ANALYZE")
	for n := range 29 {
		record(n + 1)
	}
	for n := range 30 {
		if r, err := s.ClaimRead(t.Context(), id, store.Due{Bills: at, Looks: at}, at.Add(time.Second)); err != nil || r.At.IsZero() {
			t.Fatalf("claim %d of 30: %v, %v", n, r, err)
		}
	}
}
