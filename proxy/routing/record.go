package routing

import (
	"context"
	"errors"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// RecordSeen records that a partner was seen: that a call of it succeeded.
func (r *Router) RecordSeen(ctx context.Context, partner partner.ID) error {
	if _, known := r.recorded.Load(partner); known || r.store == nil || partner == "" {
		return nil
	}
	at := r.now()
	if storeTime := r.store.Clock(at).StoreTime; storeTime.After(at) {
		at = storeTime // a clock that is behind must not make the settling period shorter
	}
	if err := r.store.Seen(ctx, partner, at); err != nil {
		return err
	}
	r.recorded.Store(partner, nil)
	return nil
}

// isSettled reports whether the settling period of a partner is over: no call that it sent without the gateway is
// under way.
func (r *Router) isSettled(ctx context.Context, s *Settings, partner partner.ID) (bool, error) {
	if _, known := r.settled.Load(partner); known || r.store == nil {
		return true, nil
	}
	first, err := r.store.FirstSeen(ctx, partner)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	r.recorded.Store(partner, nil)
	r.counts.Know(partner)
	if age(r.store, r.now(), first) < time.Duration(s.Config.Settle) {
		return false, nil
	}
	if r.current.Load() == s { // else the settling period may be another
		r.settled.Store(partner, nil)
	}
	return true, nil
}

// age returns the time since a time in the store. While the machine's clock differs too much from the store's, it is
// by the store's.
func age(s *store.Store, now, of time.Time) time.Duration {
	if clock := s.Clock(now); clock.Stepped() {
		now = clock.StoreTime
	}
	return now.Sub(of)
}
