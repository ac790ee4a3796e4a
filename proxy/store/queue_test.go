package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// A callback is read back unchanged.
func TestCallbackIsReadBackUnchanged(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		c := callback("c1", "bill-ä-1")
		c.Body = []byte("\x00\xff not a text\n")
		c.Next = noon.Add(1500 * time.Millisecond)
		accept(t, s, c)
		c.State = store.Waiting
		got := get(t, s, "c1")
		if got.Cursor <= 0 {
			t.Errorf("its cursor is %d", got.Cursor)
		}
		c.Cursor = got.Cursor
		equal(t, "Get", got, c)
		claimed := claim(t, s, noon.Add(2*time.Second)) // this is what is delivered
		if len(claimed) != 1 {
			t.Fatalf("%d are claimed", len(claimed))
		}
		equal(t, "Claim", claimed[0].Callback, c)

		c2 := callback("c2", "b2")
		c2.Body = nil
		accept(t, s, c2)
		equal(t, "Get of one without a body", len(get(t, s, "c2").Body), 0)

		if _, err := s.Get(t.Context(), "c3"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get of none: %v", err)
		}
		if _, err := s.Get(t.Context(), "c\x003"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get of an id that cannot be: %v", err)
		}
	})
}

// A callback that is under way, or waits for its next attempt, delays the later ones of its order and no others. One that is
// dead, delivered or dropped delays none.
func TestOrder(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		accept(t, s, callback("a1", "a"), callback("a2", "a"), callback("b1", "b"), callback("a3", "a"), callback("a4", "a"))
		first := claim(t, s, noon)
		equal(t, "the first of each order", ids(first), []string{"a1", "b1"})
		equal(t, "while those are under way", ids(claim(t, s, noon)), nil)

		finish(t, s, first[0], noon, store.Waiting)
		equal(t, "while a1 waits for its next attempt", ids(claim(t, s, noon.Add(59*time.Second))), nil)

		now := noon.Add(time.Minute)
		for _, step := range []struct {
			state store.State
			next  string
		}{{store.Dead, "a2"}, {store.Delivered, "a3"}, {store.Dropped, "a4"}} {
			again := claim(t, s, now)
			if step.next == "a2" { // b1's claim has ended, too
				equal(t, "a minute later", ids(again), []string{"a1", "b1"})
				finish(t, s, again[1], now, store.Delivered)
			}
			finish(t, s, again[0], now, step.state)
			next := claim(t, s, now)
			equal(t, fmt.Sprintf("after one is %s", step.state), ids(next), []string{step.next})
			finish(t, s, next[0], now, store.Waiting)
			now = now.Add(time.Minute)
		}
	})
}

// A replayed callback has its old place in its order. It is not delivered at the same time as a later one, and those that are
// still waiting come after it, also if attempts were made.
func TestOrderAfterReplay(t *testing.T) {
	for _, state := range []store.State{store.Dead, store.Delivered} {
		t.Run(string(state), func(t *testing.T) {
			each(t, func(t *testing.T, s *store.Store) {
				become(t, s, callback("a1", "a"), state)
				accept(t, s, callback("a2", "a"), callback("a3", "a"))
				later := claim(t, s, noon)
				equal(t, "what follows it", ids(later), []string{"a2"})
				if err := s.DecideOne(t.Context(), store.Replay, "a1", "tester", noon); err != nil {
					t.Fatal(err)
				}
				equal(t, "while a2 is under way", ids(claim(t, s, noon)), nil)
				finish(t, s, later[0], noon, store.Waiting)
				now := noon.Add(time.Minute)
				first := claim(t, s, now)
				equal(t, "then", ids(first), []string{"a1"})
				equal(t, "while a1 is under way", ids(claim(t, s, now)), nil)
				finish(t, s, first[0], now, store.Waiting)
				equal(t, "while a1 waits", ids(claim(t, s, now.Add(59*time.Second))), nil)
				now = now.Add(time.Minute)
				finish(t, s, claim(t, s, now)[0], now, store.Delivered)
				for _, next := range []string{"a2", "a3"} {
					claimed := claim(t, s, now)
					equal(t, "at last", ids(claimed), []string{next})
					finish(t, s, claimed[0], now, store.Delivered)
				}
			})
		})
	}
}

// The holder of a later callback was killed. When its claim ends, the replayed one is still the first, and a late result of the
// holder is still recorded.
func TestOrderAfterReplayAndALostClaim(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		become(t, s, callback("a1", "a"), store.Delivered)
		accept(t, s, callback("a2", "a"))
		later := claim(t, s, noon)
		if err := s.DecideOne(t.Context(), store.Replay, "a1", "tester", noon); err != nil {
			t.Fatal(err)
		}
		now := noon.Add(time.Minute)
		if at, ok, err := s.NextDue(t.Context(), noon); !ok || err != nil || !at.Equal(now) {
			t.Errorf("NextDue = %s, %v, %v, want the end of the claim", at, ok, err)
		}
		equal(t, "when the claim has ended", ids(claim(t, s, now)), []string{"a1"})
		finish(t, s, later[0], now, store.Delivered)
		equal(t, "a2 is", get(t, s, "a2").State, store.Delivered)
		equal(t, "a1 is", get(t, s, "a1").State, store.Waiting)
	})
}

// Claim takes the longest due first, up to its limit.
func TestClaimTakesTheLongestDueFirst(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		for i, late := range []time.Duration{3, 1, 2, -1} { // seconds overdue; the last is not due yet
			c := callback(fmt.Sprint("c", i), fmt.Sprint("b", i))
			c.Next = noon.Add(-late * time.Second)
			accept(t, s, c)
		}
		for _, want := range [][]string{{"c0", "c2"}, {"c1"}, nil} {
			claimed, err := s.Claim(t.Context(), noon, time.Minute, 2, 10, 10, nil)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "claimed", ids(claimed), want)
		}
		for _, none := range [][3]int{{0, 1, 1}, {1, 0, 1}, {1, 1, 0}} {
			claimed, err := s.Claim(t.Context(), noon.Add(time.Hour), time.Minute, none[0], none[1], none[2], nil)
			if len(claimed) > 0 || err != nil {
				t.Errorf("limit %d, %d a host, %d a partner: %v, %v", none[0], none[1], none[2], ids(claimed), err)
			}
		}
	})
}

// Many callbacks for one host do not delay those for others, and callbacks under way count for the limit of the host.
func TestR31_OneHostDelaysNoOther(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		for i := range 20 {
			c := callback(fmt.Sprint("slow", i), fmt.Sprint("s", i))
			c.Host, c.Next = "slow.example.com", noon.Add(-time.Hour)
			accept(t, s, c)
		}
		accept(t, s, callback("quick", "q"))
		count := func(busy map[string]int) map[string]int {
			t.Helper()
			claimed, err := s.Claim(t.Context(), noon, time.Minute, 100, 3, 100, busy)
			if err != nil {
				t.Fatal(err)
			}
			byHost := map[string]int{}
			for _, c := range claimed {
				byHost[c.Host]++
			}
			return byHost
		}
		equal(t, "with two under way", count(map[string]int{"slow.example.com": 2}), map[string]int{"slow.example.com": 1, "one.example.com": 1})
		equal(t, "with three under way", count(map[string]int{"slow.example.com": 3}), map[string]int{})
		equal(t, "with none under way", count(nil), map[string]int{"slow.example.com": 3})
	})
}

// One partner does not delay others, however many hosts it has, also if it has a host in common with another.
func TestR31_OnePartnerDelaysNoOther(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		for i := range 20 {
			c := callback(fmt.Sprint("many", i), fmt.Sprint("m", i))
			c.Host, c.Next, c.Partner = fmt.Sprintf("shop-%d.example.com", i), noon.Add(-time.Hour), partner.Of("many")
			accept(t, s, c)
		}
		other := callback("other", "o")
		other.Host = "shop-1.example.com"
		accept(t, s, other)
		count := func(busy map[string]int) map[partner.ID]int {
			t.Helper()
			claimed, err := s.Claim(t.Context(), noon, time.Minute, 100, 3, 5, busy)
			if err != nil {
				t.Fatal(err)
			}
			by := map[partner.ID]int{}
			for _, c := range claimed {
				by[c.Partner]++
			}
			return by
		}
		equal(t, "with two under way", count(map[string]int{string(partner.Of("many")): 2}), map[partner.ID]int{partner.Of("many"): 3, partner.Of("one"): 1})
		equal(t, "with five under way", count(map[string]int{string(partner.Of("many")): 5}), map[partner.ID]int{})
		equal(t, "with none under way", count(nil), map[partner.ID]int{partner.Of("many"): 5})
	})
}

// When a claim has expired, the callback can be claimed again, and the first holder cannot finish its attempt.
func TestLease(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		accept(t, s, callback("a1", "a"))
		first := claim(t, s, noon)
		equal(t, "it ends", first[0].Expires(), noon.Add(time.Minute))
		equal(t, "before its end", ids(claim(t, s, noon.Add(time.Minute-time.Millisecond))), nil)
		second := claim(t, s, noon.Add(time.Minute))
		equal(t, "at its end", ids(second), []string{"a1"})

		lost := s.Finish(t.Context(), first[0], store.Result{At: noon, State: store.Delivered})
		if !errors.Is(lost, store.ErrLeaseLost) {
			t.Errorf("the end of the first attempt: %v", lost)
		}
		equal(t, "it is", get(t, s, "a1").State, store.Waiting)
		// The second claim has expired, too, but the callback was not claimed again: its result counts.
		finish(t, s, second[0], noon.Add(time.Hour), store.Delivered)
		got := get(t, s, "a1")
		equal(t, "it is", got.State, store.Delivered)
		equal(t, "attempts", got.Attempts, 1)
		equal(t, "the last one's end", got.LastAt, noon.Add(time.Hour))
		equal(t, "its status", got.LastStatus, 500)
		equal(t, "its outcome", got.LastOutcome, "made up")
		if err := s.Finish(t.Context(), second[0], store.Result{At: noon, State: store.Dead}); !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("the end of an attempt that has ended: %v", err)
		}
	})
}

func TestFinishRefuses(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		accept(t, s, callback("a1", "a"))
		c := claim(t, s, noon)[0]
		for _, r := range []store.Result{{}, {At: noon}, {At: noon, State: "lost"}, {State: store.Dead}, {At: noon, State: store.Waiting}} {
			if err := s.Finish(t.Context(), c, r); err == nil || errors.Is(err, store.ErrLeaseLost) {
				t.Errorf("Finish(%+v): %v", r, err)
			}
		}
		// Values of upstreams and partners may have any bytes.
		if err := s.Finish(t.Context(), c, store.Result{At: noon, State: store.Dead, Outcome: "a\x00b\xffc"}); err != nil {
			t.Error(err)
		}
		equal(t, "outcome", get(t, s, "a1").LastOutcome, "a�b�c")
	})
}

// A deliverer that sleeps until NextDue misses nothing.
func TestNextDue(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		next := func(now, want time.Time) {
			t.Helper()
			at, ok, err := s.NextDue(t.Context(), now)
			if err != nil || ok == want.IsZero() || !at.Equal(want) {
				t.Errorf("NextDue(%s) = %s, %v, %v, want %s", now, at, ok, err, want)
			}
		}
		next(noon, time.Time{})
		a, b := callback("a1", "a"), callback("b1", "b")
		a.Next, b.Next = noon.Add(2*time.Second), noon.Add(time.Second)
		b.Host = "two.example.com"
		accept(t, s, a, b)
		next(noon, b.Next)
		next(b.Next, a.Next) // what is due by now is the claim's
		first := claim(t, s, b.Next)
		next(b.Next, a.Next)
		next(a.Next, b.Next.Add(time.Minute)) // the claim's end
		finish(t, s, first[0], b.Next, store.Waiting)
		next(a.Next, b.Next.Add(time.Minute)) // the next attempt
		now := b.Next.Add(time.Minute)
		for _, c := range claim(t, s, now.Add(time.Second)) {
			finish(t, s, c, now, store.Delivered)
		}
		next(noon, time.Time{})
	})
}

func TestStats(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		become(t, s, callback("a1", "a"), store.Dead)
		become(t, s, callback("b1", "b"), store.Delivered)
		become(t, s, callback("c1", "c"), store.Dropped)
		d, e, f := callback("d1", "d"), callback("e1", "e"), callback("f1", "f")
		d.Received, e.Upstream, f.Upstream, f.Received = noon.Add(time.Second), "old", "old", noon.Add(time.Minute)
		accept(t, s, d, e, f)
		stats, err := s.Stats(t.Context(), noon.Add(2*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "Stats", stats, map[string]store.Backlog{
			"new": {Waiting: 1, Dead: 1, Oldest: time.Second},
			"old": {Waiting: 2, Oldest: 2 * time.Second},
		})
	})
}
