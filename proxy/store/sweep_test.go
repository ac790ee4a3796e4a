package store_test

import (
	"errors"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// Released rows are removed soon, and the others when the bill has been over for the retention.
func TestOwnersAreRemovedAfterTheirRetention(t *testing.T) {
	const retention = 30 * 24 * time.Hour
	each(t, func(t *testing.T, s *store.Store) {
		day := 24 * time.Hour
		until := func(bill string, days ...int) (c store.Create) {
			for _, d := range days {
				end := time.Time{}
				if d != 0 {
					end = noon.Add(time.Duration(d) * day)
				}
				c = ownUntil(t, s, bill, "old", noon, end)
			}
			return c
		}
		settle(t, s, until("released", 0), store.Refused)
		settle(t, s, until("released early", 5), store.NotSent)
		settle(t, s, until("again", 5), store.NotSent)
		until("again", 2)
		settle(t, s, until("no end again", 5), store.NotSent)
		until("no end again", 0)
		settle(t, s, until("found", 5), store.NotSent)
		if _, err := s.Found(t.Context(), partner.Of("one"), "found", "new", noon); err != nil {
			t.Fatal(err)
		}
		settle(t, s, until("owned", 0), store.Succeeded)
		settle(t, s, until("owned to day 2", 2), store.Succeeded)
		settle(t, s, until("uncertain", 0), store.Unknown)
		settle(t, s, until("uncertain to day 2", 2), store.Unknown)
		until("pending", 0)
		until("pending to day 2", 2)
		until("longer", 2, 4)
		until("shorter", 4, 2)
		until("then no end", 2, 0)
		until("no end first", 0, 2)
		until("over before", -1)
		if _, err := s.Own(t.Context(), partner.Of("one"), "the year 1", "old", noon, time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)); err != nil {
			t.Fatal(err)
		}

		sweep := func(after time.Duration, gone ...string) {
			t.Helper()
			n, err := s.SweepOwners(t.Context(), noon.Add(after), noon.Add(after), retention)
			if err != nil || n != len(gone) {
				t.Errorf("SweepOwners after %s = %d, %v, want %d", after, n, err, len(gone))
			}
			for _, bill := range gone {
				if _, err := s.Owner(t.Context(), partner.Of("one"), bill); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("%s: %v", bill, err)
				}
			}
		}
		sweep(0, "released", "released early") // a released row has no more information than no row
		sweep(retention + time.Millisecond)
		sweep(retention + 2*day)
		sweep(retention+2*day+time.Millisecond, "again", "owned to day 2", "uncertain to day 2", "pending to day 2")
		sweep(retention + 4*day)
		sweep(retention+4*day+time.Millisecond, "longer", "shorter")
		sweep(retention + 365*day)
		// These have no end, or an impossible one: a year after they were created or found.
		sweep(retention+365*day+time.Millisecond, "found", "no end again", "owned", "uncertain", "pending", "then no end", "no end first", "over before", "the year 1")
	})
}
