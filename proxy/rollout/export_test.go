package rollout

import (
	"context"

	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// NewReport and TableVersion are of the report.
var (
	NewReport    = newReport
	TableVersion = tableVersion
)

// Counts is what was counted here and not yet kept.
func (r *Router) Counts() *evidence.Counts { return r.counts }

// Weigh makes the gauges anew, as Run does again and again.
func (r *Router) Weigh(ctx context.Context) error { return r.setGauges(ctx) }

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
