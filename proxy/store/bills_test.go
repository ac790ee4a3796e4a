package store_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// TestOpenBillsIn counts by partner, upstream and ownership.
func TestOpenBillsIn(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		one, two := partner.Of("one"), partner.Of("two")
		count := func(only partner.ID, want ...store.Bills) {
			t.Helper()
			slices.SortFunc(want, func(a, b store.Bills) int {
				return cmp.Or(cmp.Compare(a.Partner, b.Partner), strings.Compare(a.Upstream, b.Upstream))
			})
			got, err := s.OpenBillsIn(t.Context(), store.AllPartners.Of(only), noon.Add(time.Hour))
			must(t, err)
			equal(t, "of "+string(only), got, want)
		}
		count("")
		for _, row := range []struct {
			partner        partner.ID
			bill, upstream string
			outcome        store.Outcome // "" for none
			until          time.Time
		}{
			{one, "b1", "new", "", noon.Add(time.Hour)},
			{one, "b2", "new", store.Succeeded, noon.Add(time.Hour)},
			{one, "b3", "new", store.Succeeded, noon.Add(time.Hour + time.Millisecond)},
			{one, "b4", "new", store.Refused, noon.Add(time.Minute)},
			{one, "b5", "old", store.Taken, time.Time{}},
			{two, "b1", "old", store.Succeeded, time.Time{}},
			{two, "b2", "third", "", noon.Add(24 * time.Hour)},
		} {
			c, err := s.Own(t.Context(), row.partner, row.bill, row.upstream, noon, row.until)
			must(t, err)
			if row.outcome != "" {
				settle(t, s, c, row.outcome)
			}
		}
		ofOne := []store.Bills{{Partner: one, Upstream: "new", Pending: 1, Owned: 2, Released: 1, Over: 2}, {Partner: one, Upstream: "old", Pending: 1}}
		ofTwo := []store.Bills{{Partner: two, Upstream: "old", Owned: 1}, {Partner: two, Upstream: "third", Pending: 1}}
		count("", slices.Concat(ofOne, ofTwo)...)
		count(one, ofOne...)
		count(two, ofTwo...)
		count(partner.Of("three"))
	})
}
