package routing

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/ledger"
	"billbridge/proxy/store"
)

// A passage is a call with what its route depends on.
type passage struct {
	r    *Router
	s    *Settings
	d    *decisions
	at   situation
	call Call
	ask  Probe
	// probing has what the old backend says, once; nil if it is not probed before the ledger is read.
	probing chan ProbeResult
	atOld   ProbeResult // what it has said before the ledger is read
}

// route finds the route in a situation of which only the owner of the bill is missing.
func (p *passage) route(ctx context.Context) (Route, error) {
	c, at := p.call, &p.at
	if at.shared || c.Partner == "" || c.Bill == "" { // without partner or bill, the upstream refuses the call
		return p.to(at.byStage()), nil
	}
	if c.Creates && !at.incomplete() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if !at.create().probe || p.probeFirst(ctx) {
			return p.create(ctx) // recording the create finds the owner
		}
	}
	done := p.r.metrics.timed("owner")
	bill, err := p.r.store.Bill(ctx, c.Partner, c.Bill)
	done()
	if err != nil {
		return withoutLedger(p.s, *at, c, err)
	}
	if at.known = bill; bill.State == ledger.Pending || bill.State == ledger.Owned {
		owner, ok := p.s.backend(bill.Upstream)
		switch {
		case !ok && !c.Creates && bill.OfOther(c.Merchant):
			at.elsewhere = true
		case !ok:
			return Route{}, &Refused{Reason: "other_upstream", Why: atOtherUpstream}
		case !bill.OfOther(c.Merchant) && (bill.State == ledger.Owned || bill.Changed.After(p.d.restored)) &&
			(p.atOld != Present || bill.Changed.Before(c.Arrived)): // the probe contradicts an owner of since then
			at.owner = &owner
		default:
			at.likely, at.also = &owner, p.s.alsoAtOther(bill)
			_, here := p.s.backend(bill.AlsoAt)
			at.elsewhere = bill.AlsoAt != "" && !here
		}
	}
	if c.Creates {
		return p.create(ctx)
	}
	route, err := p.other(ctx)
	route.pending = at.owner != nil && bill.State == ledger.Pending
	route.Deniable = bill.State != ledger.Owned || bill.OfOther(c.Merchant)
	route.recorded = at.owner != nil || route.Reason == byProbe || bill.Unknown()
	return route, err
}

// ledgerWait is how long a create waits for a probe before the ledger is read, too: a bill whose owner is known does
// not wait for a backend that hangs.
const ledgerWait = 250 * time.Millisecond

// probeFirst probes the old backend for a create that may go to the new one. It reports whether the ledger need not be
// read: nearly always the old backend has no such bill, and then recording the create finds whether the ledger has it.
func (p *passage) probeFirst(ctx context.Context) bool {
	// The probe may end after the call: it does not refer to p, which holds the call.
	r, ask, old, result := p.r, p.ask, p.s.Backends[evidence.Old], make(chan ProbeResult, 1)
	go func() {
		found, _ := r.probe(ctx, ask, old)
		result <- found
	}()
	p.probing = result
	select {
	case p.atOld = <-result:
		result <- p.atOld
		return p.atOld == Absent
	case <-time.After(ledgerWait):
		return false
	}
}

// to is the route of a decision.
func (p *passage) to(d decision) Route {
	return Route{Upstream: p.s.Backends[d.backend], Reason: d.reason, bill: p.at.known}
}

// unproved refuses to rely on "no such bill" of the backends while a create that the ledger lacks may be under way.
func (p *passage) unproved() error {
	if p.at.incomplete() && !p.d.absentCounts(p.s, p.r.now()) {
		return unclear(ledgerIncomplete)
	}
	return nil
}

// other routes any operation but a create: to the owner of the bill.
func (p *passage) other(ctx context.Context) (Route, error) {
	to := p.at.other()
	route := p.to(to)
	if !to.probe {
		return route, nil
	}
	found, answer := p.askBoth(ctx, to.backend)
	if p.at.drained() && found == [2]ProbeResult{Unclear, Present} {
		found[evidence.Old] = Absent
	}
	answered := route
	answered.Answered, answered.Answer = true, answer
	switch found {
	case [2]ProbeResult{Absent, Absent}:
		if p.at.elsewhere {
			return Route{}, &Refused{Reason: "other_upstream", Why: atOtherUpstream}
		}
		if err := p.unproved(); err != nil {
			return Route{}, err
		}
		if err := p.r.deny(ctx, p.s, p.call); err != nil {
			return Route{}, err
		}
		return answered, nil
	case [2]ProbeResult{Refusing, Refusing}:
		return answered, nil // the preferred backend would refuse the call, too
	case [2]ProbeResult{Present, Present}:
		at := p.call.event(p.r.now(), p.s.Backends[1-to.backend], ledger.AtBoth{})
		bill, _, err := p.r.apply(ctx, p.at.known, at)
		if err = p.r.sawBoth(p.call, bill, err); p.call.Writes {
			return Route{}, err
		}
		return route, nil
	case [2]ProbeResult{Present, Absent}:
		route.Upstream = p.s.Backends[evidence.Old]
	case [2]ProbeResult{Absent, Present}:
		route.Upstream = p.s.Backends[evidence.New]
	default:
		if found[to.backend] == Refusing && found[1-to.backend] == Absent {
			return answered, nil
		}
		// Whatever the other backend would have answered: a read of a bill that is at both is answered by the
		// preferred one.
		if !p.call.Writes && found[to.backend] == Present {
			route.OnlyIfFound = true // its answer may differ from that to the probe
			return route, nil
		}
		return Route{}, unclear(ownerUnknown)
	}
	var err error
	if route.bill, err = p.found(ctx, route.Upstream); err != nil {
		return Route{}, err
	}
	return route, nil
}

// otherBackendWait is how long a read that the preferred backend can answer waits for the other backend.
const otherBackendWait = 250 * time.Millisecond

// askBoth probes both backends at once. answer is that of the preferred one. For a read of a bill that the preferred
// backend has, it waits for the other one only a short time: the preferred one answers in any case.
func (p *passage) askBoth(ctx context.Context, preferred evidence.Backend) (found [2]ProbeResult, answer Answer) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	other := make(chan ProbeResult, 1) // it may not be received
	// The probe may end after the call: it does not refer to p, which holds the call.
	r, ask, upstream := p.r, p.ask, p.s.Backends[1-preferred]
	go func() {
		found, _ := r.probe(ctx, ask, upstream)
		other <- found
	}()
	found[preferred], answer = p.probe(ctx, preferred)
	var late <-chan time.Time
	if !p.call.Writes && found[preferred] == Present {
		late = time.After(otherBackendWait)
	}
	select {
	case found[1-preferred] = <-other:
	case <-late:
	}
	return found, answer
}

// probe probes a backend.
func (p *passage) probe(ctx context.Context, backend evidence.Backend) (ProbeResult, Answer) {
	return p.r.probe(ctx, p.ask, p.s.Backends[backend])
}

// probe probes an upstream. A panic must not end the process; its result is Unclear, so that nothing is sent. The
// value of the panic is not logged: it may contain parts of an answer.
func (r *Router) probe(ctx context.Context, ask Probe, upstream string) (found ProbeResult, answer Answer) {
	defer func() {
		if panicked := recover(); panicked != nil {
			found = Unclear
			r.log.Error("panic in a probe", "type", fmt.Sprintf("%T", panicked), "stack", string(debug.Stack()))
		}
	}()
	return ask(ctx, upstream)
}

// found records that an upstream has the bill. It returns why the call cannot be sent there, nil if it can.
func (p *passage) found(ctx context.Context, upstream string) (ledger.Bill, error) {
	defer p.r.metrics.timed("found")()
	// As of its arrival: what the call itself shows of the bill, such as its end, is recorded as of then.
	c := p.call
	found := c.event(c.Arrived, upstream, ledger.Found{})
	bill, _, err := p.r.apply(ctx, ledger.Bill{Partner: c.Partner, ID: c.Bill}, found)
	switch {
	case err == nil, errors.Is(err, store.ErrBill): // no backend accepts such an id: the upstream refuses it
		return bill, nil
	case errors.Is(err, ledger.ErrOtherOwner) && bill.State == ledger.Owned:
		return bill, p.r.sawBoth(c, bill, nil)
	case errors.Is(err, ledger.ErrOtherOwner): // a create of it is under way at the other backend
		return bill, unclear(ownerUnknown)
	}
	return bill, storeUnavailable(err)
}
