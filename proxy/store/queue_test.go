package store_test

import (
	"fmt"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

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
		equal(t, count(map[string]int{"slow.example.com": 2}), map[string]int{"slow.example.com": 1, "one.example.com": 1}, "with two under way")
		equal(t, count(map[string]int{"slow.example.com": 3}), map[string]int{}, "with three under way")
		equal(t, count(nil), map[string]int{"slow.example.com": 3}, "with none under way")
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
		equal(t, count(map[string]int{string(partner.Of("many")): 2}), map[partner.ID]int{partner.Of("many"): 3, partnerOne: 1}, "with two under way")
		equal(t, count(map[string]int{string(partner.Of("many")): 5}), map[partner.ID]int{}, "with five under way")
		equal(t, count(nil), map[partner.ID]int{partner.Of("many"): 5}, "with none under way")
	})
}

// A row with a wrong digest holds up no other, and is delivered and listed, too.
func TestWrongDigestHoldsUpNoDelivery(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		s := open(t, url)
		long := callback("long", "b")
		long.Body = make([]byte, 33)
		accept(t, s, callback("short", "a"), long, callback("whole", "c"))
		run(t, raw(t, url), "UPDATE billbridge_callbacks SET digest = body WHERE id <> 'whole'")
		equal(t, ids(claim(t, s, noon)), []string{"short", "long", "whole"}, "claimed")
		listed, err := onePage(t, s, store.Filter{})
		must(t, err)
		equal(t, ids(listed), []string{"whole", "long", "short"}, "listed")
	})
}
