package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// various are six callbacks in all states, of two partners and two upstreams, a minute apart.
func various(t *testing.T, s *store.Store) {
	t.Helper()
	for i, state := range []store.State{store.Waiting, store.Delivered, store.Dead, store.Dropped, store.Dead, store.Dead} {
		c := callback(fmt.Sprint("c", i), fmt.Sprint("b", i/2))
		c.Order, c.Received, c.Next = c.ID, noon.Add(time.Duration(i)*time.Minute), noon
		if i%2 == 1 {
			c.Upstream = "old"
		}
		if i > 3 {
			c.Partner = partner.Of("two")
		}
		become(t, s, c, state)
	}
}

// The pages of a filter together are its list, whatever the bounds are.
func TestPagesAreTheList(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		various(t, s)
		filters := []store.Filter{
			{},
			{Bill: "b1"},
			{Bill: "none"},
			{Bill: "b1", PartnerPrefix: partnerOne[:12]},
			{Bill: "b2", PartnerPrefix: partnerOne},
			{PartnerPrefix: partnerTwo[:12]},
			{PartnerPrefix: partner.Of("three")[:12]},
			{Upstream: "old"},
			{Upstream: "old", State: store.Dead},
			{Since: noon.Add(4 * time.Minute)},
			{Since: noon.Add(4 * time.Hour)},
			{Until: noon.Add(3 * time.Minute)},
			{Until: noon.Add(-2 * time.Hour)},
			{Since: noon.Add(time.Minute), Until: noon.Add(5 * time.Minute), State: store.Dead},
		}
		for _, state := range []store.State{store.Waiting, store.Delivered, store.Dead, store.Dropped} {
			filters = append(filters, store.Filter{State: state}, store.Filter{State: state, PartnerPrefix: partnerOne[:12]})
		}
		for _, f := range filters {
			want, err := onePage(t, s, f)
			must(t, err)
			for _, bounds := range [][2]int{{1, 1}, {1, 2}, {2, 3}, {2, 1}, {1, 2_000}, {100, 2_000}} {
				var got []string
				f := f
				f.Limit = bounds[0]
				for pages := 0; ; pages++ {
					p, err := s.PageWithin(t.Context(), f, bounds[1])
					if err != nil {
						t.Fatalf("%+v: %v", f, err)
					}
					got = append(got, ids(p.Callbacks)...)
					if f.After = p.Next; p.Next == 0 {
						break
					}
					if pages > 10 || len(p.Callbacks) > f.Limit {
						t.Fatalf("%+v: %d pages, the last with %d callbacks", f, pages, len(p.Callbacks))
					}
				}
				equal(t, strings.Join(got, " "), strings.Join(ids(want), " "), fmt.Sprintf("%+v within %v", f, bounds))
			}
		}
	})
}
