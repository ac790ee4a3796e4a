package rollout

import (
	"context"

	"billbridge/proxy/store"
)

// BeginScan waits until no other scan is running: a read of a large part of the ledger. Several at a time would leave
// SQLite no reader for the calls of partners. The caller must call end after its own.
func (r *Router) BeginScan(ctx context.Context) (end func(), err error) {
	select {
	case r.scanning <- struct{}{}:
		return func() { <-r.scanning }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// OpenBills counts the bills of the partners of a range.
func (r *Router) OpenBills(ctx context.Context, in store.Range) ([]store.Bills, error) {
	end, err := r.BeginScan(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return r.store.OpenBillsIn(ctx, in, r.store.Clock(r.now()).StoreTime) // a wrong clock ends no bill
}
