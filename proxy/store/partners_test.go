package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// PartnersIn returns seen partners and those of the ledger, each once, up to the limit.
func TestPartnersInARange(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		var want []partner.ID
		for i := range 9 {
			id := partner.Of(fmt.Sprint(i))
			want = append(want, id)
			if i%3 != 1 {
				must(t, s.Seen(t.Context(), id, noon))
			}
			for bill := range i % 3 * 2 {
				if _, err := s.Own(t.Context(), id, fmt.Sprint("b", bill), "new", noon, time.Time{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		slices.Sort(want)
		for _, row := range []struct {
			in    store.Range
			limit int
			want  []partner.ID
		}{
			{store.AllPartners, 100, want},
			{store.AllPartners, 9, want},
			{store.AllPartners, 4, want[:4]},
			{store.After(want[2][:12]), 100, want[3:]},
			{store.After(want[2][:12]).Through(want[5]), 100, want[3:6]},
			{store.After(want[8]), 100, nil},
			{store.AllPartners.Of(want[4]), 100, want[4:5]},
		} {
			got, err := s.PartnersIn(t.Context(), row.in, row.limit)
			must(t, err)
			equal(t, fmt.Sprint(row.in), got, row.want)
			seen, err := s.SeenPartners(t.Context(), row.in)
			must(t, err)
			bills, err := s.OpenBillsIn(t.Context(), row.in, noon)
			must(t, err)
			for _, id := range append(partnersOf(seen, func(s store.SeenPartner) partner.ID { return s.Partner }), partnersOf(bills, func(b store.Bills) partner.ID { return b.Partner })...) {
				if !row.in.Has(id) {
					t.Errorf("%s is not in %v", id, row.in)
				}
			}
		}
	})
}

func partnersOf[T any](all []T, of func(T) partner.ID) (ids []partner.ID) {
	for _, one := range all {
		ids = append(ids, of(one))
	}
	return ids
}
