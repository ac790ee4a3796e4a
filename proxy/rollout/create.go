package rollout

import (
	"context"
	"errors"
	"time"

	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// create takes a create to the backend that may make the bill.
func (r *Router) create(ctx context.Context, s *settings, d *decisions, at situation, c Call, ask Probe) (Route, error) {
	to := at.create()
	if to.ask {
		other := s.backends[1-to.backend]
		switch r.probe(ctx, ask, other) {
		case Present:
			if refused := r.found(ctx, c, other); refused != nil {
				return Route{}, refused
			}
			to = decision{backend: 1 - to.backend, reason: byProbe}
		case Refusing:
			// A caller whom both refuse gets that refusal, as it would without a rollout.
			if preferred := s.backends[to.backend]; r.probe(ctx, ask, preferred) == Refusing {
				return Route{Upstream: preferred, Reason: byProbe, Answered: true}, nil
			}
			return Route{}, &Refused{Reason: "barred", Text: barred}
		case Unclear:
			return Route{}, &Refused{Reason: "unclear", Text: "it is not known whether the bill has been made at the other backend"}
		case Absent:
			if at.incomplete() && !r.believes(s, d) {
				return Route{}, &Refused{Reason: "unclear", Text: young}
			}
		}
	}
	done := r.metrics.timed("own")
	create, err := r.store.Own(ctx, c.Partner, c.Bill, s.backends[to.backend], r.arrived(c), c.Until)
	done()
	switch {
	case errors.Is(err, store.ErrBill): // no backend takes such an id: let it say so
		return Route{Upstream: s.backends[to.backend], Reason: to.reason}, nil
	case errors.Is(err, store.ErrDenied):
		return Route{}, &Refused{Reason: "denied", Text: "since this create arrived it was said that there is no such bill"}
	case err != nil:
		return Route{}, outOfReach(err)
	case create.State == store.Owned || create.Open > 1 || create.Upstream != s.backends[to.backend]: // the bill was there, or another create was faster
		to.reason = byOwner
		if _, ok := s.backend(create.Upstream); !ok { // through a replica with other sides: nothing goes out here
			_, err := r.store.Complete(ctx, create, store.NotSent, r.now())
			return Route{}, &Refused{Reason: "stranger", Text: strange, Cause: err}
		}
	}
	return Route{Upstream: create.Upstream, Reason: to.reason, create: &create}, nil
}

// Deny records that a caller is about to be told that there is no such bill, where the way is Deniable. After an error, which is
// a [*Refused], the caller must not be told so: the bill may be made a moment later. A create that arrived before, and is not
// recorded yet, is not sent any more.
func (r *Router) Deny(ctx context.Context, c Call) error {
	if refused := r.deny(ctx, r.current.Load(), c); refused != nil {
		r.metrics.refused.WithLabelValues(refused.Reason).Inc()
		return refused
	}
	return nil
}

func (r *Router) deny(ctx context.Context, s *settings, c Call) *Refused {
	defer r.metrics.timed("deny")()
	// A create that was recorded earlier than this has had its effect, if it has one.
	since := r.now().Add(-max(s.wire[s.backends[evidence.Old]], s.wire[s.backends[evidence.New]]))
	// A create that arrives later than this call may be made: its caller does not rest on this answer.
	_, err := r.store.Deny(ctx, c.Partner, c.Bill, r.arrived(c), since)
	switch {
	case errors.Is(err, store.ErrBill): // no backend has such an id, and none is made
		return nil
	case err == nil:
		// The ledger counts milliseconds. A create that its caller sends after this answer must not arrive in the same one.
		time.Sleep(min(time.Millisecond, time.Millisecond-r.now().Sub(r.arrived(c))))
		return nil
	case errors.Is(err, store.ErrMaking):
		return &Refused{Reason: "making", Text: making}
	}
	return outOfReach(err)
}

// arrived is when a call did.
func (r *Router) arrived(c Call) time.Time {
	if c.Arrived.IsZero() {
		return r.now()
	}
	return c.Arrived
}

// believes reports whether "no such bill" of both backends is to be believed, where the ledger is incomplete: only after the
// settling period, since a create that the ledger lost may be on its way.
func (r *Router) believes(s *settings, d *decisions) bool {
	return r.now().Sub(d.counted) >= time.Duration(s.config.Settle)
}

// Complete notes how a create ended, after a way that Route gave. Of any other way it notes nothing.
func (r *Router) Complete(ctx context.Context, w Route, outcome store.Outcome) error {
	if w.create == nil {
		return nil
	}
	defer r.metrics.timed("settle")()
	_, err := r.store.Complete(ctx, *w.create, outcome, r.now())
	if errors.Is(err, store.ErrOtherOwner) {
		r.metrics.doubled.Inc()
	}
	return err
}
