package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/store"
)

// later are the states after which one is no news.
var later = map[string]string{"": "paid cancelled", "paid": "paid cancelled", "cancelled": "cancelled"}

// Each row is a sequence of callbacks of a bill. A made one begins with an m, one that is not stored ends with a -, and ? is an unknown
// state. A made one is never stored if the state was reported, and an own one is not if one was made.
func TestMadeCallbacksAreStoredOnce(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
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
				fresh, _, err := s.Accept(ctx, c, time.Hour)
				if err != nil || fresh == repeated {
					t.Errorf("%s: %s: %v, %v", sequence, step, fresh, err)
				}
				if first.ID == "" {
					first = c
				}
				if repeated && !made {
					repeats++
				}
				if told, _, err := s.Told(ctx, c.Order, "", c.Later, "new", c.Says); err != nil || !told {
					t.Errorf("%s: after %s it is not told, %v", sequence, step, err)
				}
			}
			if got := get(t, s, first.ID); strings.HasPrefix(sequence, "m") && (got.Repeats != repeats || got.Says != first.Says) {
				t.Errorf("%s: %d repetitions, want %d", sequence, got.Repeats, repeats)
			}
		}
		for says, want := range map[string]bool{"cancelled": true, "destroyed": false, "": false} {
			if _, tells, err := s.Told(ctx, "no order", "", "x", "new", says); err != nil || tells != want {
				t.Errorf("the upstream reports %q: %v, %v", says, tells, err)
			}
		}
		if told, tells, err := s.Told(ctx, "no order", "", "paid", "another", "cancelled"); told || tells || err != nil {
			t.Errorf("%v %v %v", told, tells, err)
		}
	})
}
