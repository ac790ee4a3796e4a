package rollout

import (
	"context"
	"errors"
	"time"

	"billbridge/proxy/store"
)

// A pendingStop is a kill switch that could not be stored yet.
type pendingStop struct {
	store.Declaration
	overridden string
}

// Stop turns the kill switch on: here at once, and in the store. If it cannot be stored, it is stored later, and
// stays on here. The result is this stop, or an earlier one that could not be stored yet. If the store has one
// already, the error is a [*store.AlreadyStopped].
func (r *follower) Stop(ctx context.Context, by string, at time.Time, overridden string) (store.Declaration, error) {
	ours := &pendingStop{store.Declaration{By: by, At: at}, overridden}
	if !r.stopping.CompareAndSwap(nil, ours) {
		if first := r.stopping.Load(); first != nil {
			ours = first
		}
	}
	return ours.Declaration, r.store.Stop(ctx, ours.By, ours.At, ours.overridden)
}

// Stopping returns the kill switch that was turned on here and is not stored yet, or nil.
func (r *follower) Stopping() *store.Declaration {
	if pending := r.stopping.Load(); pending != nil {
		return &pending.Declaration
	}
	return nil
}

// Resume turns the kill switch off, also if it could not be stored. The error is store.ErrState if it is off.
func (r *follower) Resume(ctx context.Context, by string, at time.Time) error {
	r.following.Lock() // Follow may be about to store the stop
	defer r.following.Unlock()
	pending := r.stopping.Load()
	err := r.store.Resume(ctx, by, at)
	if errors.Is(err, store.ErrState) && pending != nil {
		err = nil
	}
	if err == nil {
		r.stopping.CompareAndSwap(pending, nil)
	}
	return err
}
