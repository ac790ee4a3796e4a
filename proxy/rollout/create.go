package rollout

import (
	"context"
	"errors"
	"time"

	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
	"billbridge/translate/billing"
)

// create routes a create to the backend that may create the bill, and records it.
func (r *Router) create(
	ctx context.Context, s *Settings, d *decisions, at situation, c Call, ask Probe,
) (Route, error) {
	to := at.create()
	if to.probe {
		other := s.Backends[1-to.backend]
		found := r.probeBefore(ctx, s, d, at, to.backend, ask)
		switch found {
		case Present:
			if err := r.found(ctx, c, other); err != nil {
				return Route{}, err
			}
			to = decision{backend: 1 - to.backend, reason: byProbe}
		case Refusing:
			// A caller that both backends refuse gets the refusal, as without a rollout.
			if preferred := s.Backends[to.backend]; r.probe(ctx, ask, preferred) == Refusing {
				return Route{Upstream: preferred, Reason: byProbe, Answered: true}, nil
			}
			return Route{}, &Refused{Reason: "barred", Why: callerRefused}
		case Unclear:
			return Route{}, unclear("it is not known whether the bill was created at the other backend")
		case Absent:
			if at.incomplete() && !d.absentCounts(s, r.now()) {
				return Route{}, unclear(ledgerIncomplete)
			}
		}
	}
	done := r.metrics.timed("own")
	create, err := r.store.Own(ctx, c.Partner, c.Bill, s.Backends[to.backend], r.arrived(c), c.Until, c.Merchant)
	done()
	switch {
	case errors.Is(err, store.ErrBill): // no backend accepts such an id: it refuses the create
		return Route{Upstream: s.Backends[to.backend], Reason: to.reason}, nil
	case errors.Is(err, store.ErrDenied):
		return Route{}, &Refused{Reason: "denied", Why: "a later call was answered with no such bill"}
	case err != nil:
		return Route{}, storeUnavailable(err)
	case create.Upstream != s.Backends[to.backend] && create.OfOther(c.Merchant):
		owner, err := r.takeBack(ctx, s, create)
		switch {
		case err != nil:
			return Route{}, err
		case to.reason == byProbe: // the bill of this merchant is there: the backend refuses the create
			return Route{Upstream: s.Backends[to.backend], Reason: byProbe}, nil
		}
		at.owner, at.likely = nil, &owner // the row was not read, or is a new one
		return r.create(ctx, s, d, at, c, ask)
	case create.State == store.Owned || create.Open > 1 || create.Upstream != s.Backends[to.backend]:
		// The bill had an owner, or another create was faster.
		to.reason = byOwner
		if _, ok := s.backend(create.Upstream); !ok {
			_, err := r.takeBack(ctx, s, create)
			return Route{}, err
		}
	}
	return Route{Upstream: create.Upstream, Reason: to.reason, create: &create}, nil
}

// takeBack takes back a recorded create that is not sent, and returns the backend of its row.
func (r *Router) takeBack(ctx context.Context, s *Settings, create store.Create) (evidence.Backend, error) {
	_, err := r.store.Complete(ctx, create, store.NotSent, r.now())
	owner, ok := s.backend(create.Upstream)
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
func (r *Router) probeBefore(
	ctx context.Context, s *Settings, d *decisions, at situation, backend evidence.Backend, ask Probe,
) ProbeResult {
	other := s.Backends[1-backend]
	if !at.mayProceed(backend) {
		return r.probe(ctx, ask, other)
	}
	if d.absentCounts(s, r.now()) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Config.SendWithin/3)
		defer cancel()
	}
	if r.probe(ctx, ask, other) == Present {
		return Present
	}
	return Absent
}

// Deny is called before a call whose route is Deniable gets the answer that there is no such bill. After an error,
// which is a [*Refused], it must not get that answer: the bill may be created a moment later. Creates that arrived
// earlier and are not recorded yet will not be sent.
func (r *Router) Deny(ctx context.Context, c Call) error {
	return r.countRefused(r.deny(ctx, r.current.Load(), c))
}

func (r *Router) deny(ctx context.Context, s *Settings, c Call) error {
	defer r.metrics.timed("deny")()
	// A create that was recorded before this cannot take effect any more.
	since := r.now().Add(-s.UnderWay())
	// A create that arrives after this call may be sent: its caller cannot rely on this answer.
	row, err := r.store.Deny(ctx, c.Partner, c.Bill, r.arrived(c), since, c.Merchant)
	switch {
	case errors.Is(err, store.ErrBill): // no backend has such an id, and none accepts it
		return nil
	case err == nil && row.State == store.Owned && !row.OfOther(c.Merchant):
		// Since the call was routed: the answer is from before.
		return &Refused{Reason: "making", Why: createOpen}
	case err == nil:
		// The ledger has milliseconds. A create that is sent after this answer must not arrive in the same millisecond.
		time.Sleep(min(time.Millisecond, time.Millisecond-r.now().Sub(r.arrived(c))))
		return nil
	case errors.Is(err, store.ErrCreateInProgress):
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

// Complete records how a create ended. For routes of other calls it does nothing.
func (r *Router) Complete(ctx context.Context, w Route, outcome store.Outcome) error {
	if w.create == nil {
		return nil
	}
	defer r.metrics.timed("complete")()
	_, err := r.store.Complete(ctx, *w.create, outcome, r.now())
	if errors.Is(err, store.ErrOtherOwner) {
		bill := w.create.Bill
		call := Call{Partner: w.create.Partner, Bill: bill, LoggedBill: ShownBill(bill)}
		_ = r.both(ctx, call) // err says the same
	}
	return err
}

// ShownBill returns the id of a bill as operators see it: hidden if it does not look like one.
func ShownBill(bill string) string { return billing.MaskBill(bill) }
