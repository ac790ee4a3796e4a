package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

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

// Rows of earlier versions stay: their gateways do not count how many calls have an address.
func TestUnbindKeepsRowsOfEarlierVersions(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		must(t, open(t, url).Close())
		db := raw(t, url)
		backToVersion5(t, db)
		// The hash of a registration as version 5 made it must not be that of today.
		run(t, db, `INSERT INTO billbridge_addresses (id, upstream, operation, partner, bill, store, form, url, registration, created)
			VALUES ('old', 'old', 'mapping.register', '`+string(partnerOne)+`', '', 's', 'v2', 'https://one.example.com/paid',
			'`+string(partner.Of(fmt.Sprintf("%q", []string{"old", "mapping.register", string(partnerOne), "s", "v2", "https://one.example.com/paid"})))+`', 1)`)
		s := open(t, url)
		bind(t, s, registration("new", "s", noon))
		unbind(t, s, "new")
		equal(t, bound(t, s, "old", "new"), []string{"old"}, "there")
	})
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
			copies+"addresses (id, upstream, operation, partner, bill, store, form, url, created, unproven) "+
				"SELECT id || i, upstream, operation, partner, bill, store, form, url, created, unproven FROM n, billbridge_addresses",
			copies+"owners (partner, bill, upstream, state, creates, uncertain, changed) "+
				"SELECT partner, bill || i, upstream, state, creates, uncertain, changed FROM n, billbridge_owners",
			copies+"unknown (partner, bill, operation, upstream, request, at, finding, state, amount) "+
				"SELECT partner, bill || i, operation, upstream, request, at, finding, state, amount FROM n, billbridge_unknown WHERE i < 199")
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

// Partners that were seen, that own a bill or that were called are not limited after an upgrade.
func TestUpgradeKnowsValidKeys(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		ctx := t.Context()
		s, err := store.Open(ctx, url)
		must(t, err)
		must(t, s.Seen(ctx, partner.Of("seen"), noon))
		accept(t, s, callback("c1", "b1")) // of "one"
		c, err := s.Own(ctx, partner.Of("owner"), "b2", "new", noon, time.Time{})
		if err == nil {
			_, err = s.Complete(ctx, c, store.Succeeded, noon)
		}
		if _, pending := s.Own(ctx, partner.Of("pending"), "b2", "new", noon, time.Time{}); errors.Join(err, pending, s.Close()) != nil {
			t.Fatal(err, pending)
		}
		db := raw(t, url)
		backToVersion5(t, db)
		_ = open(t, url)
		rows, err := db.Query("SELECT partner FROM billbridge_proven ORDER BY partner")
		must(t, err)
		defer rows.Close()
		proven := map[string]bool{}
		for rows.Next() {
			var id string
			must(t, rows.Scan(&id))
			proven[id] = true
		}
		equal(t, proven, map[string]bool{string(partner.Of("seen")): true, string(partnerOne): true, string(partner.Of("owner")): true}, "proven")
	})
}
