package routing

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"billbridge/config"
	"billbridge/proxy/evidence"
	"billbridge/proxy/ledger"
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
	Said          bool   // it is no read, but a write that was acknowledged to make the state

	Shows ledger.Shows // what can be compared with the ledger
}

// Who reads a bill, as the store has it.
const (
	ByCall     = "call" // a partner's
	ByOperator = "operator"
	ByGateway  = "gateway"
)

// Relevant reports whether [Router.Ended] would record or count what the answer to a call with this route showed.
func (w Route) Relevant(s ReadResult) bool {
	return w.recorded && w.bill.Unknown() || (w.recorded || w.ReadBack) && s.Result == Present
}

// An Ending is how a call ended, for the ledger.
type Ending struct {
	Outcome ledger.Outcome
	Unknown bool        // a write without an answer; its outcome must be found out
	Proof   bool        // the answer proves that the bill is at the upstream
	Shown   *ReadResult // what the answer showed of the bill, or a read after a write without an answer; nil: nothing
}

// Ended records how a call with a route ended: how its create ended, then that the bill is there, then what was shown
// of it, then when it ends. The outcome of the call itself is the last: only a later read can resolve it.
func (r *Router) Ended(ctx context.Context, w Route, e Ending) error {
	c := w.call
	if c.Partner == "" || c.Bill == "" {
		return nil
	}
	if r.store == nil {
		r.countLook(w, e, ledger.Bill{})
		return nil
	}
	var events []ledger.Event
	known := w.bill
	if known.ID == "" {
		known = ledger.Bill{Partner: c.Partner, ID: c.Bill}
	}
	if w.create != "" {
		defer r.metrics.timed("complete")()
		events = append(events, c.event(r.now(), w.Upstream, ledger.CreateEnded{Token: w.create, Outcome: e.Outcome}))
	}
	if e.Proof && (w.pending || w.create != "") {
		events = append(events, c.event(c.Arrived, w.Upstream, ledger.Proved{}))
	}
	if w.ReadBack && c.Creates && e.Outcome == ledger.Succeeded {
		if next := r.nextTurn(); !next.IsZero() {
			events = append(events, c.event(c.Arrived, w.Upstream, ledger.Created{Amount: c.Amount, Next: next}))
		}
	}
	if e.Shown != nil && w.recorded && w.Relevant(*e.Shown) {
		s := *e.Shown
		s.By, s.Merchant = ByCall, c.Merchant
		events = append(events, r.looked(c, w.Upstream, s, r.arrived(c))...)
	}
	if e.Unknown {
		next := r.Settings().NextRead(r.now(), r.now())
		write := ledger.WriteUnknown{Read: ledger.Reading{Finding: NotAsked}, Next: next}
		if e.Shown != nil {
			write.Read = e.Shown.reading()
			write.Read.At, write.Read.By = r.now(), ByGateway
		}
		events = append(events, c.event(r.now(), w.Upstream, write))
	}
	var found []ledger.Contradiction
	var err error
	if len(events) > 0 {
		var bill ledger.Bill
		bill, found, err = r.apply(ctx, known, events...)
		switch {
		case errors.Is(err, store.ErrBill): // nothing is kept of such an id
			err = nil
		case errors.Is(err, ledger.ErrOtherOwner):
			_ = r.sawBoth(c, bill, nil) // err says the same
		case err != nil && e.Unknown:
			r.metrics.unrecorded.Inc()
		}
		known = bill
	}
	if len(found) == 0 {
		r.countLook(w, e, known)
	}
	if e.Outcome == ledger.Succeeded && c.Writes && !c.Creates && !c.Until.IsZero() &&
		r.current.Load().Config.Bills != config.Shared {
		err = errors.Join(err, r.store.MoveEnd(ctx, known, c.event(c.Arrived, w.Upstream, nil).Call, c.Until))
	}
	return err
}

// apply applies events to a bill.
func (r *Router) apply(
	ctx context.Context, known ledger.Bill, events ...ledger.Event,
) (ledger.Bill, []ledger.Contradiction, error) {
	bill, found, err := r.store.Apply(ctx, known, events...)
	r.Contradicted(bill, found)
	return bill, found, err
}

// Contradicted records what contradicts the ledger: it is evidence against the new backend, whoever saw it.
func (r *Router) Contradicted(bill ledger.Bill, found []ledger.Contradiction) {
	for _, c := range found {
		level := slog.LevelWarn
		if c.Vanished {
			level = slog.LevelInfo
		}
		r.log.Log(context.Background(), level, "a backend contradicts what it has shown of a bill",
			"partner", bill.Partner.Short(), "bill", ShownBill(bill.ID), "upstream", c.Upstream, "kind", c.Kind,
			"field", c.Path, "operation", c.Operation, "request_id", c.Request, "vanished", c.Vanished)
		if backend, ok := r.current.Load().backend(c.Upstream); ok && backend == evidence.New {
			r.counts.Add(bill.Partner, ledger.CreateOperation, evidence.Contradicts(bill.ID, c))
		}
	}
}

// countLook counts a read of a partner that shows a bill of the new backend with the amount of its create. If both
// backends have the same bills, the ledger does not have that amount: reads that show a bill paid count. In stage
// shadow such amounts were compared.
func (r *Router) countLook(w Route, e Ending, known ledger.Bill) {
	if e.Shown == nil || e.Shown.Said || e.Shown.Result != Present || !w.ReadBack || w.call.Writes {
		return
	}
	shows := e.Shown.Shows
	counts := shows.Amount == known.Amount
	if r.current.Load().Config.Bills == config.Shared {
		counts = shows.Paid
	}
	if !counts || shows.Amount == "" {
		return
	}
	r.counts.Add(w.call.Partner, ledger.CreateOperation, evidence.Comparison{
		Class: evidence.Same, Bill: w.call.Bill, Succeeded: [2]bool{true, true}, ReadBack: true, States: true,
		Paid: shows.Paid, Request: w.call.ID, At: r.now(),
	})
}

// looked is the event of a read that was not sent before at; none if the read showed nothing of the bill. A write that
// ended later than wire before it may still take effect.
func (r *Router) looked(c Call, upstream string, s ReadResult, at time.Time) []ledger.Event {
	if s.Result != Present && s.Result != Absent {
		return nil
	}
	e := c.event(c.Arrived, upstream, ledger.Looked{
		Said: s.Said, Shows: s.Shows, Read: s.reading(), Final: s.Result == Present && s.Ended,
		Absent: s.Result == Absent, Settles: r.current.Load().wire[upstream],
	})
	e.At, e.Merchant = at, s.Merchant
	return []ledger.Event{e}
}

// Looked are the events of a read of a bill at an upstream, of its owner or not, that was not sent before at.
func (r *Router) Looked(upstream string, s ReadResult, owner bool, at time.Time) (events []ledger.Event) {
	c := Call{Merchant: s.Merchant}
	if owner && s.Result == Present {
		events = append(events, c.event(r.now(), upstream, ledger.Proved{}))
	}
	return append(events, r.looked(c, upstream, s, at)...)
}

// RecordRead applies the events of reads to a bill. If it was read back, created compares it with its create's amount.
func (r *Router) RecordRead(
	ctx context.Context, bill ledger.Bill, created func(amount string) evidence.Comparison, events ...ledger.Event,
) error {
	if len(events) == 0 {
		return nil
	}
	_, found, err := r.apply(ctx, bill, events...)
	if errors.Is(err, store.ErrBill) { // no row is kept for such an id
		return nil
	}
	if created != nil && err == nil && len(found) == 0 {
		asked := bill.Amount
		if len(bill.Creates) > 0 { // the bill that was read can be that of another create
			asked = ""
		}
		result := created(asked)
		result.Request, result.At = bill.Created.Request, bill.Created.At
		r.counts.Add(bill.Partner, bill.Created.Operation, result)
	}
	return err
}

// mostTurns is how far ahead bills are read back.
const mostTurns = time.Minute

// nextTurn returns when a bill is read back after its create. Bills take turns, so that other reads always come, too;
// zero: so many creates have succeeded that there is no turn, and the bill is not read back.
func (r *Router) nextTurn() (next time.Time) {
	now, each := r.now(), r.current.Load().each
	r.turns.Lock()
	defer r.turns.Unlock()
	switch ahead := r.turn.Sub(now); {
	case ahead < 0 || ahead > 2*mostTurns: // the clock was set back
		r.turn = now
	case ahead > mostTurns:
		return time.Time{}
	}
	next, r.turn = r.turn, r.turn.Add(each)
	return next
}

func (s ReadResult) reading() ledger.Reading {
	return ledger.Reading{Finding: ResultTexts[s.Result], State: s.State, Amount: s.Amount, By: s.By}
}

// readsEnd is how long after a write with an unknown outcome the gateway reads its bill: what a week of reads has not
// shown, an operator must find out.
const readsEnd = 7 * 24 * time.Hour

// NextRead returns when the gateway reads the bill of a write next that ended without an answer at since, after a read
// at now; zero if it does not. It reads 1, 5, 15 and 60 minutes after the write, and then daily; the first time not
// before a read can resolve the outcome.
func (s *Settings) NextRead(since, now time.Time) time.Time {
	next := now.Add(24 * time.Hour)
	first := max(time.Minute, s.UnderWay()+time.Second)
	for _, after := range []time.Duration{time.Hour, 15 * time.Minute, max(5*time.Minute, first), first} {
		if at := since.Add(after); at.After(now) {
			next = at
		}
	}
	if next.After(since.Add(readsEnd)) {
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
