package rollout

import (
	"context"
	"errors"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// ResultTexts are the results of reads, as the store has them.
var ResultTexts = map[ProbeResult]string{
	Unclear: "no clear answer", Absent: "no such bill", Present: "has it", Refusing: "refuses the partner",
}

// NotAsked is the result of a read that was not made.
const NotAsked = "not asked"

// A ReadResult is the result of a read of a bill.
type ReadResult struct {
	Result        ProbeResult
	State, Amount string // if the result is Present
	Ended         bool   // whether the bill stays in the state
	By            string // who read: ByCall, ByOperator or ByGateway
	Merchant      string // with which the bill was read
}

// Who reads a bill, as the store has it.
const (
	ByCall     = "call" // a partner's
	ByOperator = "operator"
	ByGateway  = "gateway"
)

// Relevant reports whether [Router.RecordRead] would record what the answer to a call with this route showed.
func (w Route) Relevant(s ReadResult) bool {
	return w.recorded && (w.unknown || s.Result == Present && s.Ended && !w.ended)
}

// RecordRead records what the answer to a call showed of its bill: a cancelled or destroyed bill does not count as
// open any more, and writes with an unknown outcome may be resolved.
func (r *Router) RecordRead(ctx context.Context, c Call, w Route, s ReadResult) error {
	if !w.Relevant(s) {
		return nil
	}
	s.By, s.Merchant = ByCall, c.Merchant
	return r.RecordProbe(ctx, c.Partner, c.Bill, w.Upstream, s, r.arrived(c))
}

// RecordProbe records what a read of a bill at an upstream showed. It was not sent before at.
func (r *Router) RecordProbe(
	ctx context.Context, partner partner.ID, bill, upstream string, s ReadResult, at time.Time,
) error {
	if s.Result != Present && s.Result != Absent { // the read showed nothing of the bill
		return nil
	}
	// A write that ended later may still take effect.
	resolves := at.Add(-r.current.Load().wire[upstream])
	ended := s.Result == Present && s.Ended
	err := r.store.RecordRead(ctx, partner, bill, upstream, s.Merchant, s.reading(at), resolves, ended)
	if errors.Is(err, store.ErrBill) { // no row is kept for such an id
		return nil
	}
	return err
}

func (s ReadResult) reading(at time.Time) store.Reading {
	return store.Reading{Finding: ResultTexts[s.Result], State: s.State, Amount: s.Amount, At: at, By: s.By}
}

// RecordUnknown records a write whose outcome is unknown, and what a read of the bill showed after it; s is nil if
// there was none.
func (r *Router) RecordUnknown(ctx context.Context, c Call, w Route, s *ReadResult) error {
	if r.store == nil || c.Partner == "" || c.Bill == "" {
		return nil
	}
	now := r.now()
	u := store.UnknownWrite{
		Partner: c.Partner, Bill: c.Bill, Operation: c.Operation, Upstream: w.Upstream, Request: c.ID, At: now,
		Member: c.Member, Merchant: c.Merchant, Read: store.Reading{Finding: NotAsked},
	}
	u.Next = r.Settings().NextRead(u, now)
	if s != nil {
		u.Read = s.reading(now)
		u.Read.By = ByGateway
	}
	err := r.store.RecordUnknown(ctx, u)
	if errors.Is(err, store.ErrBill) {
		return nil
	}
	if err != nil {
		r.metrics.unrecorded.Inc()
	}
	return err
}

// readsEnd is how long after a write with an unknown outcome the gateway reads its bill: what a week of reads has not
// shown, an operator must find out.
const readsEnd = 7 * 24 * time.Hour

// NextRead returns when the gateway reads the bill of a write with an unknown outcome next, after a read at now; zero
// if it does not. It reads 1, 5, 15 and 60 minutes after the write, and then daily; the first time not before a read
// can resolve the outcome.
func (s *Settings) NextRead(w store.UnknownWrite, now time.Time) time.Time {
	next := now.Add(24 * time.Hour)
	first := max(time.Minute, s.UnderWay()+time.Second)
	for _, after := range []time.Duration{time.Hour, 15 * time.Minute, max(5*time.Minute, first), first} {
		if at := w.At.Add(after); at.After(now) {
			next = at
		}
	}
	if next.After(w.At.Add(readsEnd)) {
		return time.Time{}
	}
	return next
}

// UnclearBefore returns when a write must have ended so that an operator looks at its unknown outcome: the gateway's
// reads should have resolved it.
func UnclearBefore(now time.Time) time.Time { return now.Add(-time.Hour - 5*time.Minute) }

// Count counts how a call ended that Route routed.
func (r *Router) Count(c Call, w Route, end evidence.End) {
	s := r.current.Load()
	backend, ok := s.backend(w.Upstream)
	if !ok || c.Partner == "" {
		return
	}
	end.Creates = c.Creates
	r.counts.Ended(c.Partner, c.Operation, backend, end)
}
