package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// transitions are the steps of a bill, and its row after them: "own X" records a create at X, "1 refused" completes the first create
// as refused. A step with ? is not open any more, and one with ! has another owner.
const transitions = `
own old                                                     : old pending 1
own old, own new                                            : old pending 2
own old, 1 succeeded                                        : old owned 0
own old, 1 refused                                          : old released 0
own old, 1 not sent                                         : old released 0
own old, 1 unknown                                          : old pending 0 uncertain
own old, 1 taken                                            : old pending 0 uncertain
own old, 1 succeeded, own new                               : old owned 1
own old, 1 refused, own new                                 : new pending 1
own old, 1 not sent, own new                                : new pending 1
own old, 1 unknown, own new                                 : old pending 1 uncertain
own old, 1 taken, own new                                   : old pending 1 uncertain
# A refusal completes one create only.
own old, own new, 1 refused                                 : old pending 1
own old, own new, 2 refused                                 : old pending 1
own old, own new, 1 not sent, own new                       : old pending 2
own old, own new, 1 refused, 2 refused                      : old released 0
own old, own new, 2 not sent, 1 refused, own new            : new pending 1
own old, own old, 1 unknown, 2 refused                      : old pending 0 uncertain
own old, own old, 1 refused, 2 unknown                      : old pending 0 uncertain
own old, own old, 1 taken, 2 refused                        : old pending 0 uncertain
own old, own old, 1 succeeded, 2 refused                    : old owned 0
own old, own old, 1 succeeded, 2 taken, own new             : old owned 1 uncertain
own old, own old, 1 refused, 2 succeeded                    : old owned 0
own old, own old, 1 unknown, 2 succeeded                    : old owned 0 uncertain
own old, 1 unknown, own new, 2 refused, own new, 3 not sent : old pending 0 uncertain
own old, 1 taken, own new, 2 refused                        : old pending 0 uncertain
own old, 1 refused, own new, own old, 2 succeeded, 3 taken  : new owned 0 uncertain
# A create whose process was killed stays open.
own old, own old, own new, 1 refused, 3 refused             : old pending 1
# A second completion of a create does not complete another one.
own old, own old, 1 refused, 1 refused?                     : old pending 1
own old, own old, 1 refused, 1 not sent?, 1 unknown?, 1 taken?: old pending 1
own old, 1 refused, own new, 1 refused?                     : new pending 1
own old, 1 refused, own new, 1 unknown?                     : new pending 1
own old, 1 unknown, 1 refused?                              : old pending 0 uncertain
own old, 1 succeeded, 1 refused?                            : old owned 0
# But a success always counts.
own old, 1 unknown, 1 succeeded                             : old owned 0 uncertain
own old, 1 succeeded, 1 succeeded                           : old owned 0
own old, 1 refused, 1 succeeded                             : old owned 0
own old, own old, 1 refused, 1 succeeded                    : old owned 1
own old, 1 refused, own new, 1 succeeded!                   : new pending 1
own old, 1 refused, own new, 2 succeeded, 1 succeeded!      : new owned 0
found old                                                   : old owned 0
found old, found old                                        : old owned 0
found old, found new!                                       : old owned 0
found old, own new                                          : old owned 1
found old, own new, 1 refused, own new                      : old owned 1
own old, found old                                          : old owned 1
own old, found new!                                         : old pending 1
own old, 1 unknown, found new!                              : old pending 0 uncertain
own old, 1 unknown, found old                               : old owned 0 uncertain
own old, 1 refused, found old                               : old owned 0
own old, 1 refused, found new                               : new owned 0
own old, found old, 1 refused                               : old owned 0
own old, found old, 1 unknown, own new                      : old owned 1 uncertain
`

// Every step from every state, by the table of the package comment.
func TestTransitions(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		for i, row := range strings.Split(strings.TrimSpace(transitions), "\n") {
			steps, want, is := strings.Cut(row, ":")
			if !is {
				continue // a comment
			}
			steps, bill := strings.TrimSpace(steps), fmt.Sprint("b", i)
			var creates []store.Create
			for step := range strings.SplitSeq(steps, ", ") {
				bare := strings.TrimRight(step, "?!")
				what, which, _ := strings.Cut(bare, " ")
				var refusal error
				switch step[len(bare):] {
				case "?":
					refusal = store.ErrNotOpen
				case "!":
					refusal = store.ErrOtherOwner
				}
				var o store.Owner
				var err error
				switch what {
				case "own":
					var c store.Create
					c, err = s.Own(t.Context(), partner.Of("one"), bill, which, noon, time.Time{})
					creates, o = append(creates, c), c.Owner
				case "found":
					o, err = s.Found(t.Context(), partner.Of("one"), bill, which, noon)
				default:
					o, err = s.Complete(t.Context(), creates[what[0]-'1'], store.Outcome(which), noon)
				}
				if !errors.Is(err, refusal) || (err == nil) != (refusal == nil) {
					t.Fatalf("%s: %s: %v", steps, step, err)
				}
				equal(t, steps+": what "+step+" returned", o, ownerOf(t, s, bill))
			}
			equal(t, steps, inWords(ownerOf(t, s, bill)), strings.TrimSpace(want))
		}
	})
}

func inWords(o store.Owner) string {
	words := fmt.Sprint(o.Upstream, " ", o.State, " ", o.Open)
	if o.Uncertain {
		words += " uncertain"
	}
	return words
}

// After a restore from a backup, the row of a create in progress is missing or older.
func TestLedgerFromABackup(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		s, db := open(t, url), raw(t, url)
		creates := map[string]store.Create{}
		for _, bill := range []string{"refused", "succeeded", "elsewhere", "unopened"} {
			creates[bill] = own(t, s, bill, "new")
		}
		run(t, db, "DELETE FROM billbridge_owners WHERE bill <> 'unopened'", "UPDATE billbridge_owners SET creates = ''")
		own(t, s, "elsewhere", "old")
		for bill, want := range map[string]struct {
			outcome store.Outcome
			err     error
			is      string
		}{
			"refused":   {store.Refused, store.ErrNotOpen, ""},
			"succeeded": {store.Succeeded, nil, "new owned 0"},
			"elsewhere": {store.Succeeded, store.ErrOtherOwner, "old pending 1"},
			"unopened":  {store.Refused, store.ErrNotOpen, "new pending 0"},
		} {
			o, err := s.Complete(t.Context(), creates[bill], want.outcome, noon)
			if !errors.Is(err, want.err) || (err == nil) != (want.err == nil) {
				t.Errorf("%s: %v", bill, err)
			}
			if want.is == "" {
				equal(t, bill, o, store.Owner{})
				_, err := s.Owner(t.Context(), partner.Of("one"), bill)
				if !errors.Is(err, store.ErrNotFound) {
					t.Errorf("%s: %v", bill, err)
				}
				continue
			}
			equal(t, bill, inWords(o), want.is)
		}
	})
}

// If a row was pending when the store was declared restored, the upstream that shows the bill becomes its owner; if it became
// pending after that, it does not.
func TestFoundBillAfterARestore(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		s := open(t, url)
		own(t, s, "before", "new")
		if _, err := s.Found(t.Context(), partner.Of("one"), "before", "old", noon); !errors.Is(err, store.ErrOtherOwner) {
			t.Errorf("without a backup: %v", err)
		}
		if _, err := s.Found(t.Context(), partner.Of("one"), "owned", "new", noon); err != nil {
			t.Fatal(err)
		}
		must(t, s.Restored(t.Context(), "ann", noon))
		later := noon.Add(time.Minute)
		if _, err := s.Own(t.Context(), partner.Of("one"), "since", "new", later, time.Time{}); err != nil {
			t.Fatal(err)
		}
		for bill, want := range map[string]string{"before": "old owned 1", "owned": "new owned 0", "since": "new pending 1"} {
			o, err := s.Found(t.Context(), partner.Of("one"), bill, "old", later)
			if errors.Is(err, store.ErrOtherOwner) != (bill != "before") {
				t.Errorf("%s: %v", bill, err)
			}
			equal(t, bill, inWords(o), want)
		}
	})
}

// A row is found by its partner and the exact id.
func TestOwnersAreByPartnerAndExactID(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		own(t, s, "b", "old")
		for _, bill := range []string{"B", "b ", "bb"} {
			equal(t, bill, own(t, s, bill, "new").Upstream, "new")
		}
		c, err := s.Own(t.Context(), partner.Of("two"), "b", "new", noon, time.Time{})
		must(t, err)
		equal(t, "of another partner", c.Upstream, "new")
		equal(t, "the first", inWords(ownerOf(t, s, "b")), "old pending 1")
	})
}

func TestOwnRefuses(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		for name, row := range map[string]struct {
			partner        partner.ID
			bill, upstream string
			now            time.Time
			ofBill         bool // the id is refused
		}{
			"a short hash":    {partner.Of("one")[:12], "b", "old", noon, false},
			"capital letters": {upper(partner.Of("one")), "b", "old", noon, false},
			"no upstream":     {partner.Of("one"), "b", "", noon, false},
			"no time":         {partner.Of("one"), "b", "old", time.Time{}, false},
			"a zero upstream": {partner.Of("one"), "b", "\x00", noon, false},
			"no bill":         {partner.Of("one"), "", "old", noon, true},
			"a zero byte":     {partner.Of("one"), "b\x00", "old", noon, true},
			"not UTF-8":       {partner.Of("one"), "\xff", "old", noon, true},
			"a long id":       {partner.Of("one"), strings.Repeat("청", 334), "old", noon, true},
		} {
			_, owned := s.Own(t.Context(), row.partner, row.bill, row.upstream, row.now, time.Time{})
			_, found := s.Found(t.Context(), row.partner, row.bill, row.upstream, row.now)
			for _, err := range []error{owned, found} {
				if err == nil || errors.Is(err, store.ErrBill) != row.ofBill || !strings.HasPrefix(err.Error(), "store: ") {
					t.Errorf("%s: %v", name, err)
				}
			}
			if _, err := s.Owner(t.Context(), row.partner, row.bill); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
		long := strings.Repeat("청", 333)
		settle(t, s, own(t, s, long, "old"), store.Succeeded)
		equal(t, "a long id", ownerOf(t, s, long).Bill, long)

		c := own(t, s, "b", "old")
		for _, c := range []store.Create{{}, {Owner: c.Owner}} {
			if _, err := s.Complete(t.Context(), c, store.Refused, noon); err == nil || errors.Is(err, store.ErrNotOpen) {
				t.Errorf("a create that did not come from Own: %v", err)
			}
		}
		if _, err := s.Complete(t.Context(), c, "lost", noon); err == nil {
			t.Error("no outcome")
		}
		if _, err := s.Complete(t.Context(), c, store.Refused, time.Time{}); err == nil {
			t.Error("no time")
		}
		equal(t, "it is", inWords(ownerOf(t, s, "b")), "old pending 1")
	})
}

// Own returns a new row equal to the one that is read later, whatever the time and its zone.
func TestOwnReturnsTheStoredRow(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		now := noon.Add(1500 * time.Microsecond).In(time.FixedZone("Seoul", 9*60*60))
		for i, until := range []time.Time{{}, now, now.Add(time.Hour + time.Microsecond), now.Add(-time.Microsecond)} {
			bill := fmt.Sprint("b", i)
			for range 2 { // the second time it is not new
				c := ownUntil(t, s, bill, "old", now, until)
				equal(t, "returned", c.Owner, ownerOf(t, s, bill))
			}
		}
	})
}

// A create that succeeds at one upstream does not make it the owner of a bill that was found at the other one meanwhile.
func TestSuccessWhereItIsNotTheOwner(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		c := own(t, s, "b", "old")
		must(t, s.Restored(t.Context(), "anna", noon.Add(time.Second)))
		if _, err := s.Found(t.Context(), partner.Of("one"), "b", "new", noon.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Complete(t.Context(), c, store.Succeeded, noon.Add(time.Hour)); !errors.Is(err, store.ErrOtherOwner) {
			t.Errorf("Settle: %v", err)
		}
		if o := ownerOf(t, s, "b"); o.Upstream != "new" || o.State != store.Owned {
			t.Errorf("%+v", o)
		}
	})
}

// Changed is when a bill came into its state. A later create does not change it.
func TestChangedIsWhenTheStateBegan(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
		step := 0
		is := func(o store.Owner, err error, want int) {
			t.Helper()
			must(t, err)
			equal(t, fmt.Sprint("changed, at step ", step), o.Changed, at(want))
			step++
		}
		create := func(want int) store.Create {
			t.Helper()
			c := ownUntil(t, s, "b", "old", at(step), time.Time{})
			is(c.Owner, nil, want)
			return c
		}
		end := func(c store.Create, outcome store.Outcome, want int) {
			t.Helper()
			o, err := s.Complete(t.Context(), c, outcome, at(step))
			is(o, err, want)
		}
		first, second := create(0), create(0)
		end(first, store.NotSent, 0)
		end(second, store.Refused, 3)
		third, fourth, fifth := create(4), create(4), create(4)
		end(third, store.Unknown, 4)
		end(fourth, store.Succeeded, 8)
		end(fifth, store.Succeeded, 8)
		o, err := s.Found(t.Context(), partner.Of("one"), "b", "old", at(10))
		is(o, err, 8)
	})
}
