package rollout

import (
	"context"
	"errors"
	"slices"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
	"billbridge/translate/wording"
)

// page is the range of the first limit partners after one. next is the last of them, "" if there are no more.
func (r *Router) page(ctx context.Context, stages map[partner.ID]StageSetting, after partner.ID, limit int) (in store.Range, next string, err error) {
	in = store.AllPartners
	if after != "" {
		in = store.After(after)
	}
	var ids []partner.ID
	if r.store != nil {
		if ids, err = r.store.PartnersIn(ctx, in, limit+1); err != nil {
			return in, "", err
		}
	}
	for id := range stages {
		if id != "" && in.Has(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) <= limit {
		return in, "", nil
	}
	last := partner.ID(ids[limit-1].Short()) // with all that look alike
	return in.Through(last), string(last), nil
}

// known are the partners that were seen, and those that have bills: one partner, or for "" those in a range.
func (r *Router) known(ctx context.Context, only partner.ID, in store.Range) (seen []store.SeenPartner, bills []store.Bills, err error) {
	if r.store == nil {
		return nil, nil, nil
	}
	if only == "" {
		seen, err = r.store.SeenPartnersIn(ctx, in)
	} else if first, lost := r.store.FirstSeen(ctx, only); !errors.Is(lost, store.ErrNotFound) {
		seen, err = []store.SeenPartner{{Partner: only, First: first}}, lost
	}
	if err != nil {
		return nil, nil, err
	}
	count, cancel := context.WithTimeout(ctx, storeTimeout/2)
	defer cancel()
	if only != "" {
		in = in.Of(only)
	}
	if bills, err = r.openBillsIn(count, in); err != nil && ctx.Err() == nil && count.Err() != nil {
		return seen, nil, errUncounted
	}
	return seen, bills, err
}

// openBills counts the bills of one partner or, for "", of all.
func (r *Router) openBills(ctx context.Context, only partner.ID) ([]store.Bills, error) {
	return r.openBillsIn(ctx, store.AllPartners.Of(only))
}

// openBillsIn counts the bills in the ledger, one count at a time: several would leave SQLite no reader for the calls of partners.
func (r *Router) openBillsIn(ctx context.Context, in store.Range) ([]store.Bills, error) {
	select {
	case r.counting <- struct{}{}:
		defer func() { <-r.counting }()
		return r.store.OpenBillsIn(ctx, in, r.store.Clock(r.now()).StoreTime) // a wrong clock ends no bill
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// errUncounted: the ledger is too large to count it while an operator waits.
var (
	errUncounted = errors.New(tooLarge.String())
	tooLarge     = wording.Of("the ledger is too large to count its bills within %v", short(storeTimeout/2))
)
