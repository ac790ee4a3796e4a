package operate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
	"billbridge/proxy/store"
)

// How often RunReads looks for reads that are due, and records the creates whose gateway ended. With PostgreSQL that
// reads the whole ledger.
const (
	dueEvery          = 5 * time.Second
	interruptedEvery  = 10 * time.Minute
	interruptedWithin = 5 * time.Minute
)

const readFails = "a bill of a write with an unknown outcome cannot be read; the gateway tries again"

// RunReads reads the bills of writes with an unknown outcome where they were sent, until ctx ends: at the times of
// [rollout.Settings.NextRead], and after [Operator.ReadAll]. Several gateways share the work. A bill of a partner whose
// key no gateway knows is read when the partner has called.
func (o *Operator) RunReads(ctx context.Context) {
	if o.Store == nil || o.Rollout == nil || o.ReadBill == nil {
		return
	}
	var interrupted time.Time
	rollout.Every(ctx, dueEvery, o.Logger, readFails, func(ctx context.Context) (err error) {
		if now := o.Now(); now.Sub(interrupted) >= interruptedEvery {
			interrupted = now
			err = o.recordInterrupted(ctx)
		}
		return errors.Join(err, o.ReadDue(ctx))
	})
}

// recordInterrupted records the creates that were never completed as writes with an unknown outcome, but for those
// that may be under way.
func (o *Operator) recordInterrupted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, interruptedWithin)
	defer cancel()
	end, err := o.Rollout.BeginScan(ctx)
	if err != nil {
		return err
	}
	defer end()
	s, now := o.Rollout.Settings(), o.Now()
	before := now.Add(-s.UnderWay())
	return o.Store.Interrupted(ctx, before, ledger.Interrupted{Finding: rollout.NotAsked, Next: s.NextRead(before, now)})
}

// ReadDue makes the reads that are due of the partners whose keys this gateway knows. In each round it reads one bill of
// each partner, so that one with many does not hold up the others, also not those whose reads become due meanwhile.
func (o *Operator) ReadDue(ctx context.Context) error {
	ended := map[partner.ID]bool{} // partners of which no further bill can be read now
	for {
		partners, err := o.Store.DueReads(ctx, o.Now())
		partners = slices.DeleteFunc(partners, func(id partner.ID) bool { return ended[id] || !o.Knows(id) })
		if err != nil || len(partners) == 0 {
			return err
		}
		for _, id := range partners {
			if ctx.Err() != nil {
				return nil
			}
			read, err := o.readNext(ctx, id)
			if err != nil && ctx.Err() == nil {
				o.Logger.Error(readFails, "error", err.Error())
			}
			if read {
				select {
				case <-ctx.Done():
				case <-time.After(time.Second / time.Duration(o.Rollout.Settings().Config.UnknownRate)):
				}
			}
			ended[id] = !read
		}
	}
}

// readNext reads the bill of a partner that has been due for longest, as of each call that awaits it.
// read is false if there is none, or after an error.
func (o *Operator) readNext(ctx context.Context, id partner.ID) (read bool, err error) {
	defer rollout.Recovered(&err) // read is false then
	within, cancel := context.WithTimeout(ctx, 2*storeTimeout)
	defer cancel()
	b, due, err := o.Store.ClaimRead(within, id, o.Now(), o.Now())
	if err != nil || !due {
		return false, err
	}
	for _, c := range b.Awaits() {
		if err := o.readAfter(ctx, b, c); err != nil || ctx.Err() != nil { // another gateway reads it after the claim
			return false, err
		}
	}
	within, cancel = withNewTimeout(ctx)
	defer cancel()
	_, _, err = o.Store.Apply(within, ledger.Bill{Partner: id, ID: b.ID}, ledger.Event{
		Call: ledger.Call{At: o.Now()}, What: ledger.ReadEnded{Claimed: b.Due, Next: o.Rollout.Settings().NextRead},
	})
	return true, err
}

// readAfter reads a bill where a call of it was sent.
func (o *Operator) readAfter(ctx context.Context, b ledger.Bill, w ledger.Call) error {
	within, cancel := context.WithTimeout(ctx, 2*storeTimeout)
	defer cancel()
	says, asked, sent := rollout.BackendBill{Result: rollout.NotAsked}, rollout.Credentials{}, o.Now()
	if backends := o.Rollout.Settings().Backends; slices.Contains(backends[:], w.Upstream) { // else the config has changed
		as := rollout.Credentials{Partner: b.Partner, Member: w.Member, Merchant: w.Merchant}
		says, asked = o.ReadBill(within, w.Upstream, as, b.ID)
	}
	if ctx.Err() != nil {
		return nil
	}
	within, cancel = withNewTimeout(ctx)
	defer cancel()
	s := resultOf(says)
	s.By, s.Merchant = rollout.ByGateway, asked.Merchant // of the partner's first call if the write named none
	o.Rollout.CountRead(says.Result)
	o.Logger.Info("the gateway has read a bill", "partner", b.Partner.Short(),
		"bill", rollout.ShownBill(b.ID), "operation", w.Operation, "request_id", w.Request,
		"upstream", w.Upstream, "result", says.Result, "bill_state", says.State, "read", b.Reads)
	if s.Result == rollout.Present || s.Result == rollout.Absent {
		owned := b.State != ledger.Released && b.Upstream == w.Upstream
		return o.recordRead(within, b.Partner, b.ID, w.Upstream, s, owned, sent)
	}
	_, _, err := o.Store.Apply(within, ledger.Bill{Partner: b.Partner, ID: b.ID}, ledger.Event{
		Call: ledger.Call{At: sent, Upstream: w.Upstream, Merchant: w.Merchant},
		What: ledger.Looked{Read: ledger.Reading{Finding: says.Result, By: rollout.ByGateway}},
	})
	return err
}

// ReadAll makes the gateways read the bills of all writes with an unknown outcome now, of one partner or of all.
// UnknownRate bounds the reads. [Operator.Reads] shows how far they are.
func (o *Operator) ReadAll(ctx context.Context, p PartnerRef) (Reads, error) {
	if err := o.needStore(); err != nil {
		return Reads{}, err
	}
	id, err := p.one(ctx, o)
	if err == nil {
		err = o.Store.PlanReads(ctx, id)
	}
	if err != nil {
		return Reads{}, err
	}
	return o.Reads(ctx, p)
}

// Reads are the numbers of bills that have a write with an unknown outcome.
type Reads struct {
	Unknown int `json:"unknown"` // all
	Due     int `json:"due"`     // their bills are read now, or when their partner has called
}

// Reads counts the bills of one partner or of all.
func (o *Operator) Reads(ctx context.Context, p PartnerRef) (Reads, error) {
	if err := o.needStore(); err != nil {
		return Reads{}, err
	}
	id, err := p.one(ctx, o)
	if err != nil {
		return Reads{}, err
	}
	f := store.BillFilter{List: store.UnknownBills, PartnerPrefix: id, Now: o.Now(), Limit: 1}
	_, all, err := o.Store.Bills(ctx, f)
	f.Due = o.Now()
	_, due, failed := o.Store.Bills(ctx, f)
	return Reads{all, due}, cmp.Or(err, failed)
}

// A Dismissal is the decision that the outcomes of a bill's writes are known.
type Dismissal struct {
	Author
	PartnerRef
	Bill     string `json:"bill,omitzero"`
	Merchant string `json:"merchant,omitzero"` // can be left out if the writes are of one
}

// A Dismissed says how many outcomes were dismissed.
type Dismissed struct {
	Writes int `json:"writes"`
}

// Dismiss resolves the unknown outcomes of a bill without a read: an operator knows them from elsewhere.
func (o *Operator) Dismiss(ctx context.Context, d Dismissal) (n Dismissed, err error) {
	if err := o.needStore(); err != nil {
		return n, err
	}
	if err := d.check(); err != nil {
		return n, err
	}
	id, err := o.named(ctx, d.Partner)
	switch {
	case err != nil:
		return n, err
	case id == "" || d.Bill == "":
		return n, badRequest("partner and bill are required, and partner cannot be default")
	}
	n.Writes, err = o.Store.Dismiss(ctx, id, d.Bill, d.Merchant, d.By, o.Now())
	switch {
	case errors.Is(err, ledger.ErrMerchants):
		err = conflict("Not dismissed: writes of several merchants have an unknown outcome. Name one.")
	case err == nil && n.Writes == 0:
		err = notFound("no write of the bill has an unknown outcome")
	}
	return n, err
}
