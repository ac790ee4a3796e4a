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

// The audit log has the whole ID of a partner, also if the operator has named it by its first digits: else it would not be found
// by its partner.
func TestDecisionOfAbbreviatedPartnerIsInItsLog(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		s := open(t, url)
		various(t, s)
		id := partner.Of("two")
		gives(t, 2)(s.Decide(t.Context(), store.Replay, store.Filter{PartnerPrefix: id[:12]}, "anna", noon, nil))
		log, err := s.Audit(t.Context(), store.AuditFilter{Partner: id, Limit: 9})
		must(t, err)
		if len(log) != 1 || log[0].Action != store.CallbackReplayed || log[0].Partner != id {
			t.Errorf("%+v", log)
		}
	})
}
