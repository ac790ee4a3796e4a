package rollout

import (
	"context"

	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// NewReport makes a report.
var NewReport = newReport

// Counts are the counts of this replica that are not in the store yet.
func (r *Router) Counts() *evidence.Counts { return r.counts }

// Weigh sets the gauges, as Run does at intervals.
func (r *Router) Weigh(ctx context.Context) error { return r.setGauges(ctx) }

// OpenBills counts the bills in the ledger.
func (r *Router) OpenBills(ctx context.Context) ([]store.Bills, error) { return r.openBills(ctx, "") }

// CountsBills holds the lock of the count of bills until it is released.
func (r *Router) CountsBills() (release func()) {
	r.counting <- struct{}{}
	return func() { <-r.counting }
}

// Flush adds the counts of this replica to those in the store, as Run does at intervals.
func (r *Router) Flush(ctx context.Context) error { return r.flush(ctx) }

// Sweep removes old rows, as Run does at intervals.
func (r *Router) Sweep(ctx context.Context) error { return r.sweep(ctx) }

// RefusalReasons are the values of Refused.Reason.
var RefusalReasons = refusalReasons
