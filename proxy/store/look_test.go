package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// later are the states after which one is no news.
var later = map[string]string{"": "paid cancelled", "paid": "paid cancelled", "cancelled": "cancelled"}

// Each row is a sequence of callbacks of a bill. A made one begins with an m, one that is not stored ends with a -, and ? is an unknown
// state. A made one is never stored if the state was reported, and an own one is not if one was made.
func TestMadeCallbacksAreStoredOnce(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		for i, sequence := range []string{
			"mpaid mpaid-", "paid mpaid-", "mpaid paid- mpaid-", "mpaid cancelled mcancelled-", "paid mcancelled cancelled-",
			"mcancelled paid- cancelled-", "? mpaid- mcancelled-", "mpaid ?-", "cancelled mpaid-", "paid cancelled mpaid- mcancelled-",
		} {
			bill, repeats := fmt.Sprint("b", i), 0
			var first store.Callback
			for n, step := range strings.Fields(sequence) {
				said, repeated := strings.CutSuffix(step, "-")
				said, made := strings.CutPrefix(said, "m")
				c := callback(fmt.Sprint(bill, n, " ", step), bill)
				if made {
					c.ID = store.MadePrefix + fmt.Sprint(i, "x", n)
				}
				c.Says = strings.TrimPrefix(said, "?")
				c.Later, c.Once, c.Received = later[c.Says], true, noon.Add(time.Duration(n)*48*time.Hour)
				fresh, _, err := s.Accept(t.Context(), c, time.Hour)
				if err != nil || fresh == repeated {
					t.Errorf("%s: %s: %v, %v", sequence, step, fresh, err)
				}
				if first.ID == "" {
					first = c
				}
				if repeated && !made {
					repeats++
				}
				if told, _, err := s.Told(t.Context(), c.Order, c.Later, "new", c.Says); err != nil || !told {
					t.Errorf("%s: after %s it is not told, %v", sequence, step, err)
				}
			}
			if got := get(t, s, first.ID); strings.HasPrefix(sequence, "m") && (got.Repeats != repeats || got.Says != first.Says) {
				t.Errorf("%s: %d repetitions, want %d", sequence, got.Repeats, repeats)
			}
		}
		for says, want := range map[string]bool{"cancelled": true, "destroyed": false, "": false} {
			if _, tells, err := s.Told(t.Context(), "no order", "x", "new", says); err != nil || tells != want {
				t.Errorf("the upstream reports %q: %v, %v", says, tells, err)
			}
		}
		if told, tells, err := s.Told(t.Context(), "no order", "paid", "another", "cancelled"); told || tells || err != nil {
			t.Errorf("%v %v %v", told, tells, err)
		}
	})
}

// Two replicas do not read one bill. A claim that nobody ends expires; a callback in the meantime takes the place of what was read.
func TestLooksAreClaimed(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		s, id := replicas[0], partner.Of("one")
		at := noon
		bind := func(bill string, look time.Time) {
			t.Helper()
			_, err := s.Bind(t.Context(), store.Address{
				ID: bill, Upstream: "new", Operation: "bill.create", Partner: id, Bill: bill, Form: "v2", URL: "https://one.example.com/" + bill, Created: noon,
				Member: "m", Merchant: strings.Repeat("s", 300), Look: look,
			})
			must(t, err)
		}
		bind("second", noon.Add(-time.Minute))
		bind("first", noon.Add(-time.Hour))
		bind("registration", time.Time{})
		bind("later", noon.Add(time.Hour))
		bind("long overdue", noon.Add(-31*24*time.Hour))
		due := func(want bool) {
			t.Helper()
			partners, err := s.DueLooks(t.Context(), at)
			if must(t, err); want != (len(partners) == 1) {
				t.Errorf("due: %v, want %v", partners, want)
			}
		}
		due(false) // the key may be invented
		must(t, s.Prove(t.Context(), id))
		due(true)
		next := func(replica int, want string) store.Look {
			t.Helper()
			l, claimed, err := replicas[replica].ClaimLook(t.Context(), id, at)
			must(t, err)
			if l.Bill != want || claimed.IsZero() != (want == "") || want != "" && (l.URL != "https://one.example.com/"+want || l.Member != "m" || l.Merchant != "") {
				t.Errorf("claimed %+v at %s, want %q", l, claimed, want)
			}
			return l
		}
		first := next(0, "first")
		second := next(1, "second")
		next(0, "")
		due(false)
		first.Shown, first.Since, first.Missing, first.Why = "paid", noon, noon, "why"
		must(t, s.EndLook(t.Context(), first, noon.Add(10*time.Hour)))
		c := callback("c", "second")
		c.Address, c.Look = "second", noon.Add(11*time.Hour)
		accept(t, s, c)
		c.ID, c.Look = "again", noon // a repetition changes nothing
		if fresh, _, err := s.Accept(t.Context(), c, time.Minute); fresh || err != nil {
			t.Error(fresh, err)
		}
		second.Missing = noon
		must(t, s.EndLook(t.Context(), second, noon)) // too late
		missing := func(want int) []store.Look {
			t.Helper()
			list, all, err := s.Missing(t.Context(), id, 1)
			must(t, err)
			stats, err := s.Stats(t.Context(), at)
			if must(t, err); all != want || len(list) != want || stats["new"].Missing != want {
				t.Errorf("%d missing, listed %+v, %+v", all, list, stats)
			}
			return list
		}
		if l := missing(1)[0]; l.Bill != "first" || l.Shown != "paid" || l.Why != "why" || !l.Missing.Equal(noon) || !l.Since.Equal(noon) {
			t.Errorf("%+v", l)
		}
		at = noon.Add(time.Hour)
		next(0, "later")
		at = at.Add(time.Minute)
		next(1, "later") // the claim has expired
		at = noon.Add(11 * time.Hour)
		must(t, s.EndLook(t.Context(), next(0, "later"), time.Time{}))
		l := next(0, "first")
		must(t, s.EndLook(t.Context(), store.Look{Address: l.Address}, time.Time{}))
		missing(0)
		next(0, "second")
		next(0, "")
	})
}

// A callback is not removed while its bill can be looked at: the bill would look as if the callback was lost.
func TestSweepKeepsCallbacksOfOpenBills(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		for bill, until := range map[string]time.Time{"open": noon.Add(40 * 24 * time.Hour), "over": {}} {
			_, err := s.Bind(t.Context(), store.Address{
				ID: bill, Upstream: "new", Operation: "bill.create", Partner: partner.Of("one"), Bill: bill, Form: "v2", URL: "https://one.example.com/", Created: noon, Until: until,
			})
			must(t, err)
			c := callback("of "+bill, bill)
			c.Address = bill
			become(t, s, c, store.Delivered)
		}
		for _, row := range []struct{ days, want int }{{1, 0}, {3, 2}, {41, 0}, {43, 2}} { // a callback and its address
			gives(t, row.want, row.days)(s.Sweep(t.Context(), noon.Add(time.Duration(row.days)*24*time.Hour), 48*time.Hour))
		}
	})
}
