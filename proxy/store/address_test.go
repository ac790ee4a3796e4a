package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

func address(id, bill string) store.Address {
	return store.Address{
		ID: id, Upstream: "new", Operation: "bill.create", Partner: partnerOne, Bill: bill, Form: "legacy",
		URL: "https://one.example.com/paid?a=b", Created: noon, Until: noon.Add(24 * time.Hour),
	}
}

func registration(id, in string, created time.Time) store.Address {
	return store.Address{
		ID: id, Upstream: "old", Operation: "mapping.register", Partner: partnerOne, Store: in, Form: "v2",
		URL: "https://one.example.com/paid", Created: created,
	}
}

func bind(t testing.TB, s *store.Store, addresses ...store.Address) {
	t.Helper()
	for _, a := range addresses {
		if id, err := s.Bind(t.Context(), a); err != nil || id != a.ID {
			t.Fatalf("Bind(%s): %v", a.ID, err)
		}
	}
}

// bound returns which of the addresses the store still has.
func bound(t testing.TB, s *store.Store, ids ...string) (there []string) {
	t.Helper()
	for _, id := range ids {
		_, err := s.Address(t.Context(), id)
		if err == nil {
			there = append(there, id)
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
	}
	return there
}

// An address that is too long for an index is stored like any other.
func TestLongRegistration(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		a := registration("a", strings.Repeat("s", 5000), noon)
		for i := range 500 { // a database cannot compress it
			a.URL += string(partner.Of(fmt.Sprint(i)))
		}
		bind(t, s, a)
		a.ID = "b"
		gives(t, "a", "again")(s.Bind(t.Context(), a))
	})
}

// One sweep, replay or drop changes more than one batch.
func TestChangesOfManyRowsWorkInBatches(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		ctx := t.Context()
		s := openSmall(t, url, 0)
		const many = 10 + 10 + 1
		for i := range many {
			accept(t, s, callback(fmt.Sprint("c", i), fmt.Sprint("b", i)))
		}
		for _, c := range claim(t, s, noon) {
			finish(t, s, c, noon, store.Dead)
		}
		// First a limit that ends within a batch, then all. The progress function may use the store.
		var reported []int
		progress := func(done int) {
			reported = append(reported, done)
			must(t, s.Ping(ctx))
		}
		gives(t, 15, "Replay of 15")(s.Decide(ctx, store.Replay, store.Filter{Limit: 15}, store.Author{Name: "tester"}, noon, progress))
		gives(t, many-15, "Replay")(s.Decide(ctx, store.Replay, store.Filter{}, store.Author{Name: "tester"}, noon, nil))
		equal(t, reported, []int{10, 15}, "reported")
		for _, c := range claim(t, s, noon) {
			finish(t, s, c, noon, store.Dead)
		}
		reported = nil
		gives(t, many, "Drop")(s.Decide(ctx, store.Drop, store.Filter{}, store.Author{Name: "tester"}, noon, progress))
		equal(t, reported, []int{10, 20, 21}, "reported")
		gives(t, many, "Sweep")(s.Sweep(ctx, noon.Add(time.Hour), time.Minute))
	})
}
