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
			must(t, err)
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
			must(t, err)
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

func TestFinishRefuses(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		accept(t, s, callback("a1", "a"))
		c := claim(t, s, noon)[0]
		for _, r := range []store.Result{{}, {At: noon}, {At: noon, State: "lost"}, {State: store.Dead}, {At: noon, State: store.Waiting}} {
			if _, err := s.Finish(t.Context(), c, r); err == nil || errors.Is(err, store.ErrLeaseLost) {
				t.Errorf("Finish(%+v): %v", r, err)
			}
		}
		// Values of upstreams and partners may have any bytes.
		if _, err := s.Finish(t.Context(), c, store.Result{At: noon, State: store.Dead, Outcome: "a\x00b\xffc"}); err != nil {
			t.Error(err)
		}
		equal(t, "outcome", get(t, s, "a1").LastOutcome, "a�b�c")
	})
}
