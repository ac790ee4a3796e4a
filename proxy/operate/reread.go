package operate

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/relay"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// How often RunReads looks for reads that are due, and records the creates whose gateway ended. With PostgreSQL that
// reads the whole ledger.
const (
	dueEvery          = 5 * time.Second
	interruptedEvery  = 10 * time.Minute
	interruptedWithin = 5 * time.Minute
)

const readFails = "a bill that is to be read cannot be read; the gateway tries again"

// RunReads reads bills until ctx ends: those of which the ledger awaits something, at the times of
// [routing.Settings.NextRead] and after [Operator.ReadAll], and those whose callbacks may be lost, as
// callbacks.reconcile says. It sends nothing else to upstreams. Several gateways share the work. A bill of a partner
// whose key no gateway knows is read when the partner has called.
func (o billVerbs) RunReads(ctx context.Context) {
	var interrupted time.Time
	routing.Every(ctx, dueEvery, o.Logger, readFails, func(ctx context.Context) (err error) {
		if now := o.Now(); o.Rollout != nil && now.Sub(interrupted) >= interruptedEvery {
			interrupted = now
			err = o.recordInterrupted(ctx)
		}
		return errors.Join(err, o.ReadDue(ctx))
	})
}

// recordInterrupted records the creates that were never completed as writes with an unknown outcome, but for those
// that may be under way.
func (o billVerbs) recordInterrupted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, interruptedWithin)
	defer cancel()
	return o.scan(ctx, func() error {
		s, now := o.Rollout.Settings(), o.Now()
		before := now.Add(-s.UnderWay())
		what := ledger.Interrupted{Finding: routing.NotAsked, Next: s.NextRead(before, now)}
		return o.Store.Interrupted(ctx, before, what)
	})
}

// due is until when reads are due.
func (o billVerbs) due() (d store.Due) {
	if o.Rollout != nil {
		d.Bills = o.Now()
	}
	if c := o.Config().Callbacks; c != nil && c.Reconcile != nil {
		d.Looks = o.Now()
	}
	return d
}

// ReadDue makes reads that are due of the partners whose keys this gateway knows, for dueEvery: first those that the
// ledger awaits, then those for callbacks. In each round it reads one bill of each partner, so that one with many does
// not hold up the others, also not those whose reads become due meanwhile.
func (o billVerbs) ReadDue(ctx context.Context) error {
	ended := map[partner.ID]bool{} // partners of which no further bill can be read now
	first := true
	for until := time.Now().Add(dueEvery); ; {
		due, err := o.Store.DueReads(ctx, o.due())
		due = slices.DeleteFunc(due, func(p store.DuePartner) bool { return ended[p.ID] || !o.Knows(p.ID) })
		if first && err == nil {
			first = false
			o.setBehind(due)
		}
		if slices.ContainsFunc(due, func(p store.DuePartner) bool { return p.Awaited }) {
			due = slices.DeleteFunc(due, func(p store.DuePartner) bool { return !p.Awaited })
		}
		if err != nil || len(due) == 0 {
			return err
		}
		rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] }) // the time may end within the round
		for _, p := range due {
			if ctx.Err() != nil || !time.Now().Before(until) {
				return nil
			}
			read, err := o.readNext(ctx, p.ID)
			if err != nil && ctx.Err() == nil {
				o.Logger.Error(readFails, "error", err.Error())
			}
			if ended[p.ID] = !read; read {
				o.pause(ctx)
			}
		}
	}
}

// setBehind sets how far the reads for callbacks are behind.
func (o billVerbs) setBehind(due []store.DuePartner) {
	behind := time.Duration(0)
	for _, p := range due {
		if !p.Look.IsZero() {
			behind = max(behind, o.Now().Sub(p.Look))
		}
	}
	o.behind.Set(behind.Seconds())
}

// pause is the time between two reads.
func (o billVerbs) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second / time.Duration(o.Config().Limits.Reads)):
	}
}

// readNext reads the bill of a partner that has been due for longest, once as of each call that awaits it, and hands on
// what that shows: to the ledger, and to the callbacks. read is false if there is none, or after an error: then a
// gateway reads it after the claim.
func (o billVerbs) readNext(ctx context.Context, id partner.ID) (read bool, err error) {
	defer routing.Recovered(&err) // read is false then
	within, cancel := context.WithTimeout(ctx, 2*storeTimeout)
	defer cancel()
	r, err := o.Store.ClaimRead(within, id, o.due(), o.Now())
	if err != nil || r.At.IsZero() {
		return false, err
	}
	var looks []ledger.Call
	for _, l := range r.Looks {
		if relay.MayShow(r.Bill, l) {
			looks = append(looks, ledger.Call{Upstream: l.Upstream, Member: l.Member, Merchant: l.Merchant})
		}
	}
	type as struct{ upstream, merchant string }
	shown, events := map[as]routing.BackendBill{}, []ledger.Event(nil)
	for i, c := range r.Bill.Awaits(looks...) {
		if i > 0 {
			o.pause(ctx)
		}
		says, seen := o.readFor(ctx, r.Bill, c)
		if ctx.Err() != nil {
			return false, nil
		}
		shown[as{c.Upstream, c.Merchant}], events = says, append(events, seen...)
	}
	within, cancel = withNewTimeout(ctx)
	defer cancel()
	if o.Rollout != nil {
		end := ledger.ReadEnded{Claimed: r.Bill.Due, Next: o.Rollout.Settings().NextRead}
		var created func(amount string) evidence.Comparison
		if c := r.Bill.Created; c != nil {
			end.Created, created = c.Request, shown[as{c.Upstream, c.Merchant}].Created
		}
		if !r.Bill.Due.IsZero() {
			events = append(events, ledger.Event{Call: ledger.Call{At: o.Now()}, What: end})
		}
		err = o.Rollout.RecordRead(within, r.Bill, created, events...)
	}
	for _, l := range r.Looks {
		says := shown[as{l.Upstream, l.Merchant}]
		err = errors.Join(err, o.Relay.Looked(within, l, r.At, relay.Shown{
			State: says.State, Means: says.Shows.Means, Callback: says.Callback,
		}))
	}
	return err == nil, err
}

// readFor reads a bill where a call of it was sent, and returns what that shows, also as the ledger sees it. A call
// that the ledger awaits is read at a backend of the rollout alone: what else resolves it is not known.
func (o billVerbs) readFor(
	ctx context.Context, b ledger.Bill, c ledger.Call,
) (says routing.BackendBill, events []ledger.Event) {
	within, cancel := context.WithTimeout(ctx, 2*storeTimeout)
	defer cancel()
	says.Result = routing.NotAsked
	asked, sent, awaited := routing.Credentials{}, o.Now(), !c.At.IsZero()
	backend := false // not after a change of the config
	if o.Rollout != nil {
		backends := o.Rollout.Settings().Backends
		backend = slices.Contains(backends[:], c.Upstream)
	}
	if backend || !awaited {
		as := routing.Credentials{Partner: b.Partner, Member: c.Member, Merchant: c.Merchant}
		says, asked = o.ReadBill(within, c.Upstream, as, b.ID)
	}
	if ctx.Err() != nil {
		return says, nil
	}
	o.read.WithLabelValues(says.Result).Inc()
	if o.Rollout == nil || !backend && !awaited {
		return says, nil
	}
	s := resultOf(says)
	s.By, s.Merchant = routing.ByGateway, asked.Merchant  // of the partner's first call if the write named none
	if awaited && (b.Created == nil || c != *b.Created) { // else one line for each create
		o.Logger.Info("the gateway has read a bill", "partner", b.Partner.Short(),
			"bill", routing.ShownBill(b.ID), "operation", c.Operation, "request_id", c.Request,
			"upstream", c.Upstream, "result", says.Result, "bill_state", says.State, "read", b.Reads)
	}
	if s.Result == routing.Present || s.Result == routing.Absent {
		owned := b.State != ledger.Released && b.Upstream == c.Upstream
		return says, o.Rollout.Looked(c.Upstream, s, owned, sent)
	}
	return says, []ledger.Event{{
		Call: ledger.Call{At: sent, Upstream: c.Upstream, Merchant: c.Merchant},
		What: ledger.Looked{Read: ledger.Reading{Finding: says.Result, By: routing.ByGateway}},
	}}
}

// ReadAll makes the gateways read the bills of all writes with an unknown outcome now, of one partner or of all.
// Limits.Reads bounds the reads. [Operator.Reads] shows how far they are.
func (o billVerbs) ReadAll(ctx context.Context, p PartnerRef) (Reads, error) {
	id, err := p.one(ctx, o.core)
	if err = cmp.Or(o.needStore(), err); err == nil {
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
func (o billVerbs) Reads(ctx context.Context, p PartnerRef) (Reads, error) {
	id, err := p.one(ctx, o.core)
	if err = cmp.Or(o.needStore(), err); err != nil {
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
func (o billVerbs) Dismiss(ctx context.Context, d Dismissal) (n Dismissed, err error) {
	id, err := o.named(ctx, d.Partner)
	switch err := cmp.Or(o.needStore(), d.check(), err); {
	case err != nil:
		return n, err
	case id == "" || d.Bill == "":
		return n, badRequest("partner and bill are required, and partner cannot be default")
	}
	n.Writes, err = o.Store.Dismiss(ctx, id, d.Bill, d.Merchant, d.author(), o.Now())
	switch {
	case errors.Is(err, ledger.ErrMerchants):
		err = conflict("Not dismissed: writes of several merchants have an unknown outcome. Name one.")
	case err == nil && n.Writes == 0:
		err = notFound("no write of the bill has an unknown outcome")
	}
	return n, err
}
