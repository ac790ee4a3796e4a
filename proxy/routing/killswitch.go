package routing

import (
	"context"
	"errors"

	"billbridge/proxy/store"
)

// Stop turns the kill switch on: here at once, and in the store. If it cannot be stored, it is stored later, and
// stays on here. The result is this stop, or an earlier one that could not be stored yet. If the store has one
// already, the error is a [*store.AlreadyStopped].
func (r *follower) Stop(ctx context.Context, c store.Change) (store.Declaration, error) {
	ours := &c
	if !r.stopping.CompareAndSwap(nil, ours) {
		if first := r.stopping.Load(); first != nil {
			ours = first
		}
	}
	return store.Declaration{By: ours.By, At: ours.At, Reason: ours.Reason}, r.store.Change(ctx, *ours)
}

// Stopping returns the kill switch that was turned on here and is not stored yet, or nil.
func (r *follower) Stopping() *store.Declaration {
	if pending := r.stopping.Load(); pending != nil {
		return &store.Declaration{By: pending.By, At: pending.At, Reason: pending.Reason}
	}
	return nil
}

// resume turns the kill switch off, also if it could not be stored. The error is store.ErrState if it is off.
func (r *follower) resume(ctx context.Context, c store.Change) error {
	r.following.Lock() // Follow may be about to store the stop
	defer r.following.Unlock()
	pending := r.stopping.Load()
	err := r.store.Change(ctx, c)
	if errors.Is(err, store.ErrState) && pending != nil {
		err = nil
	}
	if err == nil {
		r.stopping.CompareAndSwap(pending, nil)
	}
	return err
}

// Decide makes any change but a stop: in the store, and what goes with it here.
func (r *Router) Decide(ctx context.Context, c store.Change) error {
	if c.Action == store.Resumed {
		return r.resume(ctx, c)
	}
	err := r.store.Change(ctx, c)
	if err == nil && c.Action == store.Reset {
		r.counts.Forget(c.Partner)
	}
	return err
}
