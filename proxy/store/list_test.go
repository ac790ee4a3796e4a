package store_test

import (
	"fmt"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// various are six callbacks in all states, of two partners and two upstreams, a minute apart.
func various(t *testing.T, s *store.Store) {
	t.Helper()
	for i, state := range []store.State{store.Waiting, store.Delivered, store.Dead, store.Dropped, store.Dead, store.Dead} {
		c := callback(fmt.Sprint("c", i), fmt.Sprint("b", i/2))
		c.Order, c.Received, c.Next = c.ID, noon.Add(time.Duration(i)*time.Minute), noon
		if i%2 == 1 {
			c.Upstream = "old"
		}
		if i > 3 {
			c.Partner = partner.Of("two")
		}
		become(t, s, c, state)
	}
}
