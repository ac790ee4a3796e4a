package rollout

import (
	"context"

	"billbridge/proxy/store"
)

// UpperBound and LowerBound are the two bounds of a rate.
func UpperBound(k, n int) float64 { return upperBound(k, n) }
func LowerBound(k, n int) float64 { return lowerBound(k, n) }

// Counts is what was counted here and not yet kept.
func (r *Router) Counts() *Tally { return r.tally }

// ChanceOfMore is the chance that what came more often at the new side did so by chance.
func ChanceOfMore(atNew, ofNew, atOld, ofOld int) float64 {
	return chanceOfMore(atNew, ofNew, atOld, ofOld)
}

// Weigh makes the gauges anew, as Run does again and again.
func (r *Router) Weigh(ctx context.Context) error { return r.weigh(ctx) }

// OpenBills counts the bills in the ledger.
func (r *Router) OpenBills(ctx context.Context) ([]store.Bills, error) { return r.openBills(ctx, "") }

// CountsBills is somebody who counts the bills in the ledger until it is released.
func (r *Router) CountsBills() (release func()) {
	r.counting <- struct{}{}
	return func() { <-r.counting }
}

// Flush adds what was counted here to what the store has, as Run does again and again.
func (r *Router) Flush(ctx context.Context) error { return r.flush(ctx) }

// Sweep removes what is over, as Run does again and again.
func (r *Router) Sweep(ctx context.Context) error { return r.sweep(ctx) }
