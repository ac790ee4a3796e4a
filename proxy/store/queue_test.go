package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// Many callbacks for one host do not delay those for others, and those of a partner, however many hosts it has, not
// those of another with a host in common. Those that are under way count for both limits.
func TestR31_OneDelaysNoOther(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		many := partner.Of("many")
		for i := range 20 {
			slow := callback(fmt.Sprint("slow", i), fmt.Sprint("s", i))
			shop := callback(fmt.Sprint("many", i), fmt.Sprint("m", i))
			slow.Host, slow.Next = "slow.example.com", noon.Add(-time.Hour)
			shop.Host, shop.Next, shop.Partner = fmt.Sprintf("shop-%d.example.com", i), noon.Add(-time.Hour), many
			accept(t, s, slow, shop)
		}
		other := callback("other", "o")
		other.Host = "shop-1.example.com"
		accept(t, s, callback("quick", "q"), other)
		count := func(busy map[string]int, want string) {
			t.Helper()
			claimed, err := s.Claim(t.Context(), noon, time.Minute, 100, 3, 5, busy)
			must(t, err)
			n := map[string]int{}
			for _, c := range claimed {
				n[strings.TrimRight(c.ID, "0123456789")]++
			}
			equal(t, fmt.Sprint(n), want, busy)
		}
		count(map[string]int{"slow.example.com": 2, string(many): 2}, "map[many:3 other:1 quick:1 slow:1]")
		count(map[string]int{"slow.example.com": 3, string(many): 5}, "map[]")
		count(nil, "map[many:5 slow:3]")
	})
}
