package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"billbridge/proxy/ledger"
)

// rounds runs a property at least 1,000 times.
func rounds(t *testing.T, check func(*rapid.T)) {
	t.Helper()
	for range 10 { // rapid makes 100 runs
		rapid.Check(t, check)
	}
}

// A backend that tells the truth, from a copy of its data that is up to a minute behind, contradicts nothing: what is
// doubted vanishes.
func TestHonestBackendContradictsNothing(t *testing.T) {
	t.Parallel()
	rounds(t, func(t *rapid.T) {
		now, states := noon, []string{"W"} // since noon
		since := []time.Time{noon}
		b := ledger.Bill{ID: "b"}
		apply := func(at time.Time, what ledger.What) {
			call := ledger.Call{At: at, Operation: "bill.read", Upstream: "new", Merchant: "shop"}
			next, found, err := ledger.Next(env, b, ledger.Event{Call: call, What: what})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range found {
				if !c.Vanished {
					t.Fatalf("%v at %s: %+v of %+v", states, at.Sub(noon), c, b)
				}
			}
			b = next
		}
		apply(now, ledger.CreateBegun{Token: "t", Amount: "100"})
		apply(now, ledger.CreateEnded{Token: "t", Outcome: ledger.Succeeded})
		shows := func(state string) ledger.Shows {
			s := ledger.Shows{Means: state, Moves: moves, Whole: true}
			if state == "F" || state == "C" {
				s.Amount, s.Exact = "100", map[string]string{"num": "number of " + state, "time": "time of " + state}
				s.Others = []ledger.Value{{Path: "card", Text: "1"}}
			}
			return s
		}
		t.Repeat(map[string]func(*rapid.T){
			"wait": func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(1, 50).Draw(t, "seconds")) * time.Second) },
			"move": func(t *rapid.T) {
				later := map[string][]string{"W": {"F", "D"}, "F": {"C"}}[states[len(states)-1]]
				if len(later) == 0 {
					t.Skip("it is over")
				}
				state := rapid.SampledFrom(later).Draw(t, "state")
				states, since = append(states, state), append(since, now)
				if state == "C" || state == "D" || rapid.Bool().Draw(t, "by a callback") { // a write of the partner, or told
					said := shows(state)
					said.Whole, said.Others = false, nil
					apply(now, ledger.Looked{Said: state != "F", Shows: said, Read: ledger.Reading{State: state}, Final: state != "F"})
				}
			},
			"callback": func(t *rapid.T) { // again, or late
				state := rapid.SampledFrom(states).Draw(t, "state")
				told := shows(state)
				told.Whole, told.Others = false, nil
				apply(now, ledger.Told{Shows: told})
			},
			"look": func(t *rapid.T) {
				copied, state := now.Add(-time.Duration(rapid.IntRange(0, 59).Draw(t, "behind"))*time.Second), "W"
				for i, at := range since {
					if !at.After(copied) {
						state = states[i]
					}
				}
				apply(now, ledger.Looked{Shows: shows(state), Read: ledger.Reading{State: state}, Final: state == "C" || state == "D"})
			},
		})
	})
}

// Whatever creates, looks and answers come in whatever order, the creates of an id go to one backend, until none of them
// can have taken effect, and none is sent that arrived before the answer "no such bill".
func TestCreatesOfAnIDGoToOneBackend(t *testing.T) {
	t.Parallel()
	rounds(t, func(t *rapid.T) {
		type create struct {
			token, upstream string
			may, open       bool
		}
		now, b := noon, ledger.Bill{ID: "b"}
		var creates []*create
		var told time.Time // that there is no such bill
		apply := func(at time.Time, upstream string, what ledger.What) error {
			call := ledger.Call{At: at, Upstream: upstream, Merchant: "shop"}
			next, _, err := ledger.Next(env, b, ledger.Event{Call: call, What: what})
			b = next
			return err
		}
		at := func() *create {
			for _, c := range creates {
				if c.may {
					return c
				}
			}
			return nil
		}
		t.Repeat(map[string]func(*rapid.T){
			"wait": func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second) },
			"create": func(t *rapid.T) {
				c := &create{token: fmt.Sprint(len(creates)), may: true, open: true}
				arrived := now.Add(-time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds ago")) * time.Second)
				err := apply(arrived, rapid.SampledFrom([]string{"old", "new"}).Draw(t, "backend"), ledger.CreateBegun{Token: c.token})
				if errors.Is(err, ledger.ErrDenied) {
					return
				}
				if c.upstream = b.Upstream; !told.IsZero() && !arrived.After(told) && b.State != ledger.Owned {
					t.Fatalf("a create of %s is sent, and at %s a caller was told that there is no such bill", arrived, told)
				}
				if first := at(); first != nil && first.upstream != c.upstream {
					t.Fatalf("a create is sent to %s, and one that may have taken effect was sent to %s", c.upstream, first.upstream)
				}
				creates = append(creates, c)
			},
			"end": func(t *rapid.T) {
				open := slices.DeleteFunc(slices.Clone(creates), func(c *create) bool { return !c.open })
				if len(open) == 0 {
					t.Skip("none is open")
				}
				c := rapid.SampledFrom(open).Draw(t, "create")
				outcome := rapid.SampledFrom([]ledger.Outcome{
					ledger.Succeeded, ledger.Refused, ledger.NotSent, ledger.Taken, ledger.Unknown,
				}).Draw(t, "outcome")
				if err := apply(now, c.upstream, ledger.CreateEnded{Token: c.token, Outcome: outcome}); err != nil {
					t.Fatal(err)
				}
				c.open, c.may = false, outcome != ledger.Refused && outcome != ledger.NotSent
			},
			"tell": func(t *rapid.T) {
				if err := apply(now, "old", ledger.Denied{UnderWay: time.Minute}); err == nil && b.State != ledger.Owned {
					told = now
				}
			},
		})
	})
}

// What is known before an event is not changed by it: the store applies the event again if another one was faster.
func TestNextChangesNothingOfTheBillBefore(t *testing.T) {
	t.Parallel()
	call := ledger.Call{At: noon, Upstream: "new", Merchant: "shop"}
	doubt := &ledger.Contradiction{Call: call, Kind: ledger.State, Before: "F", Now: "W"}
	before := ledger.Bill{
		ID: "b", Upstream: "new", State: ledger.Owned, History: ledger.History{Merchant: "shop"},
		Looks: ledger.Looks{
			Seen: ledger.Sight{Means: "F", Call: call}, Doubt: doubt, Exact: map[string]string{"F num": "x"},
		},
	}
	call.At = noon.Add(time.Hour)
	_, found, err := ledger.Next(env, before, ledger.Event{Call: call, What: ledger.Looked{
		Read: ledger.Reading{State: "F"}, Shows: ledger.Shows{Means: "F", Moves: moves, Exact: map[string]string{"time": "1"}},
	}})
	if err != nil || len(found) != 1 || !found[0].Vanished || doubt.Vanished || len(before.Exact) != 1 || before.Doubt != doubt {
		t.Errorf("%+v, %v, before: %+v", found, err, before)
	}
}
