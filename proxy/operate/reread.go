package operate

import (
	"context"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
	"billbridge/proxy/store"
)

// How often RunReads looks for reads that are due, and records the creates whose gateway ended.
const (
	dueEvery         = 5 * time.Second
	interruptedEvery = 10 * time.Minute
)

// RunReads reads the bills of writes with an unknown outcome at their owning backends, as [Operator.Read] does, until ctx
// ends: at times of rollout.unknown, and after [Operator.ReadAll]. Several gateways share the work. A bill of a partner
// whose key no gateway knows is read when the partner has called.
func (o *Operator) RunReads(ctx context.Context) {
	if o.Store == nil || o.Rollout == nil || o.ReadBill == nil {
		return
	}
	tick := time.NewTicker(dueEvery)
	defer tick.Stop()
	var interrupted time.Time
	for {
		now, err := o.Now(), error(nil)
		if now.Sub(interrupted) >= interruptedEvery {
			if err = o.scanInterrupted(ctx); err == nil {
				interrupted = now
			}
		}
		if err == nil {
			err = o.ReadDue(ctx)
		}
		if err != nil && ctx.Err() == nil {
			o.Logger.Error("bills of writes with an unknown outcome cannot be read; the gateway tries again",
				"error", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (o *Operator) scanInterrupted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	end, err := o.Rollout.BeginScan(ctx)
	if err != nil {
		return err
	}
	defer end()
	return o.recordInterrupted(ctx)
}

// recordInterrupted records the creates that were never completed as writes with an unknown outcome, but for those
// that may be under way.
func (o *Operator) recordInterrupted(ctx context.Context) error {
	s, now := o.Rollout.Settings(), o.Now()
	before := now.Add(-s.UnderWay())
	return o.Store.RecordInterrupted(ctx, before, rollout.NotAsked, s.NextRead(store.UnknownWrite{At: before}, now))
}

// ReadDue makes the reads that are due of the partners whose keys this gateway knows.
func (o *Operator) ReadDue(ctx context.Context) error {
	partners, err := o.Store.DueReads(ctx, o.Now())
	if err != nil {
		return err
	}
	for _, id := range partners {
		for due := true; due && o.Knows(id) && ctx.Err() == nil; {
			if due, err = o.readNext(ctx, id); err != nil {
				return err
			}
			if due {
				wait := time.Second / time.Duration(o.Rollout.Settings().Config.Unknown.Rate)
				select {
				case <-ctx.Done():
				case <-time.After(wait):
				}
			}
		}
	}
	return nil
}

// readNext reads the bill of the write of a partner that has been due for longest. due is false if there is none.
func (o *Operator) readNext(ctx context.Context, id partner.ID) (due bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*storeTimeout)
	defer cancel()
	w, due, err := o.Store.ClaimRead(ctx, id, o.Now(), func(w store.UnknownWrite) time.Time {
		return o.Rollout.Settings().NextRead(w, o.Now())
	})
	if err != nil || !due {
		return false, err
	}
	ref := BillRef{PartnerRef: PartnerRef{string(w.Partner)}, Bill: w.Bill}
	b, err := o.lookUp(ctx, ref, rollout.ByGateway)
	if err != nil {
		return true, err
	}
	for _, says := range b.Backends {
		o.Rollout.CountRead(says.Result)
		o.Logger.Info("a bill was read after a write with an unknown outcome", "partner", w.Partner.Short(),
			"bill", rollout.ShownBill(w.Bill), "operation", w.Operation, "request_id", w.Request,
			"upstream", says.Upstream, "result", says.Result, "bill_state", says.State, "read", w.Reads+1)
	}
	return true, nil
}

// A Planned says how many writes have an unknown outcome and are read now. Until its read is made, At is the NextRead
// of a write.
type Planned struct {
	Writes int64     `json:"writes"`
	At     time.Time `json:"at"`
}

// ReadAll makes the gateways read the bills of all writes with an unknown outcome now, of one partner or of all.
// rollout.unknown.rate bounds the reads. [Operator.Bills] shows how far they are.
func (o *Operator) ReadAll(ctx context.Context, p PartnerRef) (planned Planned, err error) {
	if err := o.needStore(); err != nil {
		return planned, err
	}
	id, err := p.one(ctx, o)
	if err != nil {
		return planned, err
	}
	if err := o.scanInterrupted(ctx); err != nil {
		return planned, err
	}
	planned.Writes, planned.At, err = o.Store.PlanReads(ctx, id, o.Now())
	return planned, err
}
