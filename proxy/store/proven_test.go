package store_test

import (
	"fmt"
	"sync"
	"testing"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

func unbind(t testing.TB, s *store.Store, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := s.Unbind(t.Context(), id); err != nil {
			t.Fatalf("Unbind(%s): %v", id, err)
		}
	}
}

// Of two registrations at the same time, at two replicas, a refused one does not remove the address of the other.
func TestConcurrentUnbindKeepsTheOtherAddress(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		for round := range 15 {
			var given [8]string
			var calls sync.WaitGroup
			for i := range given {
				calls.Go(func() {
					var err error
					if given[i], err = replicas[i%2].Bind(t.Context(), registration(fmt.Sprintf("%d-%d", round, i), fmt.Sprint(round), noon)); err != nil {
						t.Error(err)
						return
					}
					if i > 0 { // all but one are refused
						if err := replicas[i%2].Unbind(t.Context(), given[i]); err != nil {
							t.Error(err)
						}
					}
				})
			}
			calls.Wait()
			equal(t, bound(t, replicas[0], given[0]), []string{given[0]}, "there")
			unbind(t, replicas[1], given[0])
			equal(t, bound(t, replicas[0], given[:]...), nil, "left")
		}
	})
}

// Rows of addresses, of the ledger and of unknown outcomes count together, until one replica records a success.
func TestKeyWithoutASuccessMayHoldFewRows(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		may := func(s *store.Store, key string, want bool) {
			t.Helper()
			if got, err := s.MayHold(t.Context(), partner.Of(key)); got != want || err != nil {
				t.Fatalf("MayHold(%s) = %v, %v", key, got, err)
			}
		}
		s := replicas[0]
		bind(t, s, address("a", "b"))
		own(t, s, "b", "new")
		noAnswer(t, s, "b", "bill.create", noon)
		const copies = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 399) INSERT INTO billbridge_"
		run(t, raw(t, url),
			copies+"addresses (id, upstream, operation, partner, bill, store, form, url, created, holds, unproven, member, merchant) "+
				"SELECT id || i, upstream, operation, partner, bill, store, form, url, created, holds, unproven, member, merchant FROM n, billbridge_addresses",
			copies+"bills (partner, bill, version, upstream, state, also_at, ends, estimated, data) "+
				"SELECT partner, bill || i, version, upstream, state, also_at, ends, estimated, data FROM n, billbridge_bills",
			copies+"bills (partner, bill, version, upstream, state, also_at, ends, estimated, data) "+
				"SELECT partner, 'more' || i, version, upstream, state, also_at, ends, estimated, data FROM n, billbridge_bills WHERE i < 200 AND bill = 'b'")
		may(s, "one", true) // it has 999
		bind(t, s, address("last", "last"))
		may(s, "one", false)
		may(replicas[1], "one", false)
		may(s, "two", true)
		unbind(t, s, "last")
		may(s, "one", true)
		bind(t, s, address("last", "last"))
		must(t, replicas[1].Prove(t.Context(), partnerOne))
		may(s, "one", true)
		fails(t, "", "an abbreviated hash is recorded")(s.Prove(t.Context(), partnerOne[:12]))
	})
}
