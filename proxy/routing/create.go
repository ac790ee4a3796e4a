package routing

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/ledger"
	"billbridge/proxy/store"
	"billbridge/translate/billing"
)

// create routes a create to the backend that may create the bill, and records it.
func (p *passage) create(ctx context.Context) (Route, error) {
	r, c := p.r, p.call
	to := p.at.create()
	if to.probe {
		switch p.probeBefore(ctx, to.backend) {
		case Present:
			bill, err := p.found(ctx, p.s.Backends[1-to.backend])
			if err != nil {
				return Route{}, err
			}
			p.at.known = bill
			to = decision{backend: 1 - to.backend, reason: byProbe}
		case Refusing:
			// A caller that both backends refuse gets the refusal, as without a rollout.
			if found, answer := p.probe(ctx, to.backend); found == Refusing {
				return Route{Upstream: p.s.Backends[to.backend], Reason: byProbe, Answered: true, Answer: answer}, nil
			}
			return Route{}, &Refused{Reason: "barred", Why: callerRefused}
		case Unclear:
			return Route{}, unclear("it is not known whether the bill was created at the other backend")
		case Absent:
			if err := p.unproved(); err != nil {
				return Route{}, err
			}
		}
	}
	done := r.metrics.timed("own")
	preferred, token := p.s.Backends[to.backend], rand.Text()[:createDigits]
	bill, address, err := r.store.Begin(ctx, p.at.bill(c), c.Address,
		c.event(c.Arrived, preferred, ledger.CreateBegun{Token: token, Until: c.Until, Amount: c.Amount}))
	done()
	route := Route{Upstream: bill.Upstream, Reason: to.reason, Address: address, bill: bill, create: token}
	switch {
	case errors.Is(err, store.ErrBill): // no backend accepts such an id: it refuses the create
		return Route{Upstream: preferred, Reason: to.reason}, nil
	case errors.Is(err, ledger.ErrDenied):
		return Route{}, &Refused{Reason: "denied", Why: "a later call was answered with no such bill"}
	case err != nil:
		return Route{}, storeUnavailable(err)
	case bill.OfOther(c.Merchant) && (bill.Upstream != preferred || p.s.alsoAtOther(bill) && !to.probe):
		owner, err := p.takeBack(ctx, route)
		switch {
		case err != nil:
			return Route{}, err
		case to.reason == byProbe: // the bill of this merchant is there: the backend refuses the create
			return Route{Upstream: preferred, Reason: byProbe}, nil
		}
		// The bill was not read, or is a new one.
		p.at.owner, p.at.likely, p.at.also = nil, &owner, p.s.alsoAtOther(bill)
		return p.create(ctx)
	case bill.State == ledger.Owned || len(bill.Creates) > 1 || bill.Upstream != preferred:
		// The bill had an owner, or another create was faster.
		route.Reason = byOwner
		if _, ok := p.s.backend(bill.Upstream); !ok {
			_, err := p.takeBack(ctx, route)
			return Route{}, err
		}
	}
	return route, nil
}

// createDigits are enough for a token that is unique among the creates of a bill.
const createDigits = 16

// event is an event of a call at an upstream.
func (c Call) event(at time.Time, upstream string, what ledger.What) ledger.Event {
	return ledger.Event{Call: ledger.Call{
		At: at, Operation: c.Operation, Request: c.ID, Upstream: upstream, Member: c.Member, Merchant: c.Merchant,
	}, What: what}
}

// takeBack takes back a recorded create that is not sent, and returns the backend of its bill.
func (p *passage) takeBack(ctx context.Context, w Route) (evidence.Backend, error) {
	ended := ledger.CreateEnded{Token: w.create, Outcome: ledger.NotSent}
	_, _, err := p.r.apply(ctx, w.bill, p.call.event(p.r.now(), w.Upstream, ended))
	owner, ok := p.s.backend(w.Upstream)
	switch {
	case !ok: // recorded by a replica with another config
		return owner, &Refused{Reason: "other_upstream", Why: atOtherUpstream, Cause: err}
	case err != nil:
		return owner, storeUnavailable(err)
	}
	return owner, nil
}

// probeBefore probes the other backend before a create is sent. While the kill switch is on (P3), an answer that does
// not show the bill is Absent, which counts after the settling period only. From then on it must come so early that the
// create can be sent.
func (p *passage) probeBefore(ctx context.Context, backend evidence.Backend) ProbeResult {
	if result := p.probing; result != nil && backend == evidence.New {
		p.probing = nil
		return <-result
	}
	proceeds := p.at.mayProceed(backend)
	if proceeds && p.d.absentCounts(p.s, p.r.now()) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.s.Config.SendWithin/3)
		defer cancel()
	}
	found, _ := p.probe(ctx, 1-backend)
	if proceeds && found != Present {
		return Absent
	}
	return found
}

// Deny is called before a call whose route is Deniable gets the answer that there is no such bill. After an error,
// which is a [*Refused], it must not get that answer: the bill may be created a moment later. Creates that arrived
// earlier and are not recorded yet will not be sent.
func (r *Router) Deny(ctx context.Context, c Call) error {
	return r.countRefused(r.deny(ctx, r.current.Load(), c))
}

func (r *Router) deny(ctx context.Context, s *Settings, c Call) error {
	defer r.metrics.timed("deny")()
	// A create that arrives after this call may be sent: its caller cannot rely on this answer.
	denied := c.event(r.arrived(c), s.Backends[evidence.Old], ledger.Denied{UnderWay: s.UnderWay()})
	bill, _, err := r.apply(ctx, ledger.Bill{Partner: c.Partner, ID: c.Bill}, denied)
	switch {
	case errors.Is(err, store.ErrBill): // no backend has such an id, and none accepts it
		return nil
	case err == nil && bill.State == ledger.Owned && !bill.OfOther(c.Merchant):
		// Since the call was routed: the answer is from before.
		return &Refused{Reason: "making", Why: createOpen}
	case err == nil:
		// The ledger has milliseconds. A create that is sent after this answer must not arrive in the same millisecond.
		time.Sleep(min(time.Millisecond, time.Millisecond-r.now().Sub(r.arrived(c))))
		return nil
	case errors.Is(err, ledger.ErrInProgress):
		return &Refused{Reason: "making", Why: createOpen}
	}
	return storeUnavailable(err)
}

// arrived is when a call arrived.
func (r *Router) arrived(c Call) time.Time {
	if c.Arrived.IsZero() {
		return r.now()
	}
	return c.Arrived
}

// absentCounts reports whether "no such bill" of both backends can be relied on while the ledger is incomplete: only
// after the settling period, as a create that the ledger lost may be under way.
func (d *decisions) absentCounts(s *Settings, now time.Time) bool {
	return now.Sub(d.counted) >= time.Duration(s.Config.Settle)
}

// ShownBill returns the id of a bill as operators see it: hidden if it does not look like one.
func ShownBill(bill string) string { return billing.MaskBill(bill) }
