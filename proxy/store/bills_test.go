package store_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/store"
)

// TestOpenBills counts by partner, upstream and ownership.
func TestOpenBills(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		one, alike, two := partner("one"), partner("one")[:12]+partner("two")[12:], partner("two")
		count := func(prefix string, want ...store.Bills) {
			t.Helper()
			slices.SortFunc(want, func(a, b store.Bills) int { return strings.Compare(a.Partner+a.Upstream, b.Partner+b.Upstream) })
			got, err := s.OpenBills(t.Context(), prefix)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "of "+prefix, got, want)
		}
		count("")
		for _, row := range []struct {
			partner, bill, upstream string
			outcome                 store.Outcome // "" for none
		}{
			{one, "b1", "new", ""},
			{one, "b2", "new", store.Succeeded},
			{one, "b3", "new", store.Succeeded},
			{one, "b4", "new", store.Refused},
			{one, "b5", "old", store.Taken},
			{two, "b1", "old", store.Succeeded},
			{two, "b2", "third", ""},
		} {
			c, err := s.Own(t.Context(), row.partner, row.bill, row.upstream, noon, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			if row.outcome != "" {
				settle(t, s, c, row.outcome)
			}
		}
		ofOne := []store.Bills{{Partner: one, Upstream: "new", Pending: 1, Owned: 2, Released: 1}, {Partner: one, Upstream: "old", Pending: 1}}
		ofTwo := []store.Bills{{Partner: two, Upstream: "old", Owned: 1}, {Partner: two, Upstream: "third", Pending: 1}}
		count("", slices.Concat(ofOne, ofTwo)...)
		count(one[:12], ofOne...)
		count(two, ofTwo...)
		count(partner("three")[:12])

		if _, err := s.Own(t.Context(), alike, "b1", "old", noon, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.OpenBills(t.Context(), one[:12]); !errors.Is(err, store.ErrAmbiguous) {
			t.Errorf("a short hash that fits two: %v", err)
		}
		count(one[:13], ofOne...)
		for _, prefix := range []string{one[:11], strings.ToUpper(one), "%%%%%%%%%%%%"} {
			if _, err := s.OpenBills(t.Context(), prefix); !errors.Is(err, store.ErrFilter) {
				t.Errorf("%s: %v", prefix, err)
			}
		}
	})
}
