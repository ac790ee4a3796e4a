package store_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// made records an owned bill at an upstream.
func made(t *testing.T, s *store.Store, bill, upstream string, at, until time.Time) {
	t.Helper()
	c, err := s.Own(t.Context(), partner.Of("one"), bill, upstream, at, until)
	must(t, err)
	if _, err := s.Complete(t.Context(), c, store.Succeeded, at); err != nil {
		t.Fatal(err)
	}
}

// shows records a read at an upstream that shows a bill.
func shows(t *testing.T, s *store.Store, bill, upstream, state string, at, resolves time.Time, ended bool) {
	t.Helper()
	r := store.Reading{Finding: "has it", State: state, Amount: "20000", At: at}
	must(t, s.RecordRead(t.Context(), partner.Of("one"), bill, upstream, r, resolves, ended))
}

// noAnswer records a write of a bill without an answer.
func noAnswer(t *testing.T, s *store.Store, bill, operation string, at time.Time) {
	t.Helper()
	w := store.UnknownWrite{
		Partner: partner.Of("one"), Bill: bill, Operation: operation, Upstream: "old", Request: "call of " + bill, At: at,
		Read: store.Reading{Finding: "not asked"},
	}
	must(t, s.RecordUnknown(t.Context(), w))
}

// listed are the bills of a list, in its order, and of a write its operation.
func listed(list []store.ListedBill) (names []string) {
	for _, b := range list {
		name := b.Bill
		if b.Write.Operation != "" {
			name += " " + b.Write.Operation
		}
		names = append(names, name)
	}
	return names
}

// Bills that were seen destroyed or cancelled do not count as open until their last day.
func TestEndedBillsAreNotOpen(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		later, over := noon.Add(24*time.Hour), noon.Add(time.Minute)
		for _, bill := range []string{"b1", "b2", "b3", "b4"} {
			made(t, s, bill, "old", noon, later)
		}
		made(t, s, "b5", "old", noon, over)
		at := noon.Add(time.Hour)
		shows(t, s, "b1", "old", "D", at, time.Time{}, true)
		shows(t, s, "b2", "old", "W", at, time.Time{}, false) // it is open
		shows(t, s, "b3", "new", "C", at, time.Time{}, true)  // another bill of that id, at a backend that does not own it
		shows(t, s, "b5", "old", "D", at, time.Time{}, true)  // it is over as well, and counts once

		held, err := s.OpenBillsIn(t.Context(), store.AllPartners, at)
		must(t, err)
		equal(t, "counts", held, []store.Bills{{Partner: partner.Of("one"), Upstream: "old", Owned: 5, Over: 1, Ended: 1}})
		list, all, err := s.ListBills(t.Context(), store.BillFilter{Open: true, Now: at, Limit: 10})
		must(t, err)
		equal(t, "open", listed(list), []string{"b2", "b3", "b4"})
		equal(t, "all", all, 3)
		o, err := s.Owner(t.Context(), partner.Of("one"), "b1")
		must(t, err)
		equal(t, "ended", o.Ended, at)

		// A create that the upstream refused makes no other bill.
		settle(t, s, ownUntil(t, s, "b1", "old", at.Add(time.Second), later), store.Refused)
		equal(t, "ended, after a refused create", ownerOf(t, s, "b1").Ended, at)

		// The id is used again: another bill.
		made(t, s, "b1", "old", at.Add(time.Minute), later)
		if o, err = s.Owner(t.Context(), partner.Of("one"), "b1"); err != nil || !o.Ended.IsZero() {
			t.Errorf("made again: %+v, %v", o, err)
		}
	})
}

// A partner can destroy a bill as soon as it has the answer, and the ledger may complete the create after that.
func TestLateCreateDoesNotOpenAnEndedBill(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		c, err := s.Own(t.Context(), partner.Of("one"), "b1", "old", noon, noon.Add(24*time.Hour))
		must(t, err)
		if _, err := s.Found(t.Context(), partner.Of("one"), "b1", "old", noon.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		shows(t, s, "b1", "old", "D", noon.Add(time.Second), time.Time{}, true)
		if _, err := s.Complete(t.Context(), c, store.Succeeded, noon.Add(2*time.Second)); err != nil {
			t.Fatal(err)
		}
		if o, err := s.Owner(t.Context(), partner.Of("one"), "b1"); err != nil || o.Ended.IsZero() {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

// A bill that was seen destroyed at one backend is open after it is assigned to the other.
func TestEndSeenAtTheOtherBackendDoesNotCount(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		made(t, s, "b1", "old", noon, noon.Add(24*time.Hour))
		shows(t, s, "b1", "old", "D", noon.Add(time.Second), time.Time{}, true)
		for _, to := range []string{"old", "new"} {
			must(t, s.Assign(t.Context(), partner.Of("one"), "b1", to, "anna", noon.Add(time.Minute), false))
			if o, err := s.Owner(t.Context(), partner.Of("one"), "b1"); err != nil || o.Ended.IsZero() != (to == "new") {
				t.Errorf("assigned to %s: %+v, %v", to, o, err)
			}
		}
	})
}

// Writes without an answer are listed until a read resolves them.
func TestUnknownOutcomesAreListed(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		made(t, s, "b1", "old", noon, noon.Add(24*time.Hour))
		noAnswer(t, s, "b1", "bill.cancel", noon.Add(time.Second))
		noAnswer(t, s, "b1", "bill.cancel", noon.Add(2*time.Second)) // again
		noAnswer(t, s, "b2", "bill.create", noon.Add(3*time.Second)) // of a bill that the ledger does not have
		if _, err := s.Own(t.Context(), partner.Of("one"), "b3", "new", noon, noon.Add(24*time.Hour)); err != nil {
			t.Fatal(err) // it never ends: its process did
		}
		list := func(f store.BillFilter, cutOff time.Time) []store.ListedBill {
			t.Helper()
			f.Now = noon
			list, all, err := s.UnknownOutcomes(t.Context(), f, cutOff)
			if err != nil || all < len(list) {
				t.Fatal(all, err)
			}
			return list
		}
		all := store.BillFilter{Limit: 10}
		equal(t, "all", listed(list(all, noon.Add(time.Millisecond))), []string{"b2 bill.create", "b1 bill.cancel", "b3 bill.create"})
		equal(t, "while the create may be under way", listed(list(all, noon)), []string{"b2 bill.create", "b1 bill.cancel"})
		equal(t, "of one bill", listed(list(store.BillFilter{Bill: "b1", PartnerPrefix: partner.Of("one")[:12], Limit: 10}, noon)), []string{"b1 bill.cancel"})
		equal(t, "of the owning backend", listed(list(store.BillFilter{Upstream: "new", Limit: 10}, noon.Add(time.Hour))), []string{"b3 bill.create"})
		if list, all, err := s.UnknownOutcomes(t.Context(), store.BillFilter{Limit: 1, Now: noon}, noon.Add(time.Hour)); len(list) != 1 || all != 3 || err != nil {
			t.Errorf("%d of %d, %v", len(list), all, err)
		}

		// The result of a read that may have been too early is recorded, but it resolves nothing.
		shows(t, s, "b1", "old", "F", noon.Add(4*time.Second), noon.Add(time.Second), false)
		got := list(all, noon)
		equal(t, "after an early read", listed(got), []string{"b2 bill.create", "b1 bill.cancel"})
		equal(t, "the write", got[1].Write, store.UnknownWrite{
			Partner: partner.Of("one"), Bill: "b1", Operation: "bill.cancel", Upstream: "old", Request: "call of b1", At: noon.Add(2 * time.Second),
			Read: store.Reading{Finding: "has it", State: "F", Amount: "20000", At: noon.Add(4 * time.Second)},
		})
		if o, err := s.Owner(t.Context(), partner.Of("one"), "b1"); err != nil || !o.Unknown {
			t.Errorf("%+v, %v", o, err)
		}
		// The other backend's bill is another one.
		shows(t, s, "b1", "new", "C", noon.Add(time.Hour), time.Time{}, true)
		equal(t, "after a read elsewhere", listed(list(all, noon)), []string{"b2 bill.create", "b1 bill.cancel"})
		// A read that is late enough resolves it, and a bill that has ended does at once.
		shows(t, s, "b1", "old", "F", noon.Add(time.Minute), noon.Add(2*time.Second), false)
		equal(t, "after a late read", listed(list(all, noon)), []string{"b2 bill.create"})
		if o, err := s.Owner(t.Context(), partner.Of("one"), "b1"); err != nil || o.Unknown {
			t.Errorf("%+v, %v", o, err)
		}
		shows(t, s, "b2", "old", "D", noon.Add(4*time.Second), time.Time{}, true)
		equal(t, "after the bill has ended", listed(list(all, noon)), nil)

		noAnswer(t, s, "b1", "bill.destroy", noon)
		if n, err := s.SweepUnknown(t.Context(), noon); n != 0 || err != nil {
			t.Error(n, err)
		}
		if n, err := s.SweepUnknown(t.Context(), noon.Add(time.Millisecond)); n != 1 || err != nil {
			t.Error(n, err)
		}
	})
}

// An invalid filter is refused.
func TestBillFilter(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		for _, f := range []store.BillFilter{
			{Now: noon},
			{Limit: 1},
			{PartnerPrefix: "0123", Limit: 1, Now: noon},
			{PartnerPrefix: "%%%%%%%%%%%%", Limit: 1, Now: noon},
		} {
			if _, _, err := s.ListBills(t.Context(), f); !errors.Is(err, store.ErrFilter) {
				t.Errorf("%+v: %v", f, err)
			}
		}
	})
}

// Creates without an answer in an older ledger are listed after the upgrade.
func TestMigratesUnknownOutcomes(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		s, err := store.Open(t.Context(), url)
		must(t, err)
		c, err := s.Own(t.Context(), partner.Of("one"), "b1", "old", noon, noon.Add(24*time.Hour))
		must(t, err)
		if _, err := s.Complete(t.Context(), c, store.Unknown, noon); err != nil {
			t.Fatal(err)
		}
		made(t, s, "b2", "old", noon, noon.Add(24*time.Hour))
		must(t, s.Close())
		db := raw(t, url)
		backToVersion5(t, db)
		run(t, db, "DELETE FROM billbridge_schema WHERE version = 5",
			"ALTER TABLE billbridge_owners DROP COLUMN ended", "DROP TABLE billbridge_unknown")
		must(t, db.Close())
		list, all, err := open(t, url).UnknownOutcomes(t.Context(), store.BillFilter{Limit: 10, Now: noon}, noon)
		must(t, err)
		equal(t, "listed", listed(list), []string{"b1 bill.create"})
		equal(t, "all", all, 1)
		equal(t, "the read", list[0].Write.Read, store.Reading{Finding: "not asked"})
	})
}

// A backend may not show a bill to another merchant of the same partner. That does not resolve a cancel without an answer.
func TestNoSuchBillResolvesNoCancel(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		made(t, s, "owned", "old", noon, noon.Add(24*time.Hour))
		noAnswer(t, s, "owned", "bill.cancel", noon)
		noAnswer(t, s, "owned", "bill.create", noon)
		noAnswer(t, s, "nobody's", "bill.create", noon)
		noAnswer(t, s, "nobody's", "bill.destroy", noon)
		at := noon.Add(time.Hour)
		for _, bill := range []string{"owned", "nobody's"} {
			r := store.Reading{Finding: "no such bill", At: at}
			must(t, s.RecordRead(t.Context(), partner.Of("one"), bill, "old", r, at, false))
		}
		_, n, err := s.UnknownOutcomes(t.Context(), store.BillFilter{Limit: 10, Now: at}, time.Time{})
		if err != nil || n != 3 { // all but the create of the bill that nobody owns
			t.Errorf("%d left, %v", n, err)
		}
		shows(t, s, "owned", "old", "F", at, at, false)
		if _, n, err = s.UnknownOutcomes(t.Context(), store.BillFilter{Limit: 10, Now: at}, time.Time{}); err != nil || n != 1 {
			t.Errorf("%d left, %v", n, err)
		}
	})
}

// A read that was sent before a bill was created again says nothing about the new one.
func TestReadSentBeforeACreateDoesNotResolveIt(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		made(t, s, "b1", "old", noon, noon.Add(24*time.Hour))
		shows(t, s, "b1", "old", "D", noon.Add(-time.Second), noon.Add(-time.Second), true)
		if o, err := s.Owner(t.Context(), partner.Of("one"), "b1"); err != nil || !o.Ended.IsZero() {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

// A bill is listed for each partner that has one with this id, and for the one that the filter names.
func TestBillsOfOneID(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		for _, who := range []string{"one", "two", "three", "four"} {
			for _, bill := range []string{"same", "own-" + who} {
				if who == "three" && bill == "same" {
					continue
				}
				if _, err := s.Own(t.Context(), partner.Of(who), bill, "new", noon, time.Time{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		holders := []partner.ID{partner.Of("one"), partner.Of("two"), partner.Of("four")}
		slices.Sort(holders)
		for name, row := range map[string]struct {
			filter store.BillFilter
			want   []partner.ID
		}{
			"all holders":    {store.BillFilter{Bill: "same"}, holders},
			"one holder":     {store.BillFilter{Bill: "same", PartnerPrefix: partner.Of("two")[:12]}, []partner.ID{partner.Of("two")}},
			"another one":    {store.BillFilter{Bill: "same", PartnerPrefix: partner.Of("three")}, nil},
			"an own bill":    {store.BillFilter{Bill: "own-three"}, []partner.ID{partner.Of("three")}},
			"an unknown one": {store.BillFilter{Bill: "none"}, nil},
		} {
			row.filter.Limit, row.filter.Now = 10, noon
			var got, pending []partner.ID
			list, _, err := s.ListBills(t.Context(), row.filter)
			for _, b := range list {
				got = append(got, b.Partner)
			}
			cutOff, _, err2 := s.UnknownOutcomes(t.Context(), row.filter, noon.Add(time.Hour))
			for _, b := range cutOff {
				pending = append(pending, b.Partner)
			}
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			equal(t, name, got, row.want)
			equal(t, name+", creates that were cut off", pending, row.want)
		}
	})
}
