package rollout

import (
	"context"
	"time"

	"billbridge/proxy/store"
)

// A Scan reads large parts of the ledger, one at a time: several would leave SQLite no reader for the calls of
// partners.
type Scan struct {
	store   *store.Store
	now     func() time.Time
	running chan struct{} // holds one
}

func newScan(s *store.Store, now func() time.Time) *Scan {
	return &Scan{s, now, make(chan struct{}, 1)}
}

// Begin waits until no other scan is running. The caller must call end after its own.
func (s *Scan) Begin(ctx context.Context) (end func(), err error) {
	select {
	case s.running <- struct{}{}:
		return func() { <-s.running }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// OpenBills counts the bills of the partners of a range.
func (s *Scan) OpenBills(ctx context.Context, in store.Range) ([]store.Bills, error) {
	end, err := s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return s.store.OpenBillsIn(ctx, in, s.store.Clock(s.now()).StoreTime) // a wrong clock ends no bill
}
