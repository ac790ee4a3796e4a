package rollout

import (
	"cmp"
	"context"
	"errors"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// A ReadResult is the result of a read of a bill.
type ReadResult struct {
	Result        ProbeResult
	State, Amount string // if the result is Present
	Ended         bool   // whether the bill stays in the state
}

// Relevant reports whether [Router.RecordRead] would record what the answer to a call with this route showed.
func (w Route) Relevant(s ReadResult) bool {
	return w.recorded && (w.unknown || s.Result == Present && s.Ended && !w.ended)
}

// RecordRead records what the answer to a call showed of its bill: a cancelled or destroyed bill does not count as open any more,
// and writes with an unknown outcome may be resolved.
func (r *Router) RecordRead(ctx context.Context, c Call, w Route, s ReadResult) error {
	if !w.Relevant(s) {
		return nil
	}
	return r.recordRead(ctx, c.Partner, c.Bill, w.Upstream, s, r.arrived(c))
}

// recordRead records what a read showed. It was not sent before at.
func (r *Router) recordRead(ctx context.Context, partner partner.ID, bill, upstream string, s ReadResult, at time.Time) error {
	if s.Result != Present && s.Result != Absent { // the read showed nothing of the bill
		return nil
	}
	// A write that ended later may still take effect.
	resolves := at.Add(-r.current.Load().wire[upstream])
	err := r.store.RecordRead(ctx, partner, bill, upstream, s.reading(at), resolves, s.Result == Present && s.Ended)
	if errors.Is(err, store.ErrBill) { // no row is kept for such an id
		return nil
	}
	return err
}

func (s ReadResult) reading(at time.Time) store.Reading {
	return store.Reading{Finding: ResultTexts[s.Result], State: s.State, Amount: s.Amount, At: at}
}

// RecordUnknown records a write whose outcome is unknown, and what a read of the bill showed after it; s is nil if there was none.
func (r *Router) RecordUnknown(ctx context.Context, c Call, w Route, s *ReadResult) error {
	if r.store == nil || c.Partner == "" || c.Bill == "" {
		return nil
	}
	now := r.now()
	u := store.UnknownWrite{
		Partner: c.Partner, Bill: c.Bill, Operation: c.Operation, Upstream: w.Upstream, Request: c.ID, At: now,
		Read: store.Reading{Finding: notAsked},
	}
	if s != nil {
		u.Read = s.reading(now)
	}
	if err := r.store.RecordUnknown(ctx, u); !errors.Is(err, store.ErrBill) {
		return err
	}
	return nil
}

// A BillList is a part of the ledger.
type BillList struct {
	Bills   []BillLine `json:"bills"`
	LeftOut int        `json:"left_out"` // how many more the filter selects
}

// A BillLine is a bill of the ledger, or a write of one.
type BillLine struct {
	Partner string        `json:"partner"`
	Name    string        `json:"name,omitempty"` // of the partner
	Bill    string        `json:"bill"`
	Owner   string        `json:"owner"`           // the backend; if the ledger does not have the bill, where the write was sent
	State   string        `json:"state,omitempty"` // pending, owned, released; none if the ledger does not have the bill
	Since   *time.Time    `json:"since,omitempty"` // since when it is in this state
	Ends    *time.Time    `json:"ends,omitempty"`  // when the bill ends
	Ended   *time.Time    `json:"ended,omitempty"` // when it was seen destroyed or cancelled
	Write   *UnknownWrite `json:"write,omitempty"` // in the list of doubled bills: the call that showed it
}

// An UnknownWrite is a write that ended without an answer.
type UnknownWrite struct {
	Operation string     `json:"operation"`
	Upstream  string     `json:"upstream"`          // where it was sent, and where the last read was
	Request   string     `json:"request,omitempty"` // the id of the call in the access log. None for a create that was interrupted by the end of its gateway
	At        time.Time  `json:"at"`
	Result    string     `json:"result"` // of the last read; one of ResultTexts, "not asked" or "at both backends"
	State     string     `json:"bill_state,omitempty"`
	Amount    string     `json:"amount,omitempty"`
	ReadAt    *time.Time `json:"read_at,omitempty"`
}

// listedMost is the most bills in one answer.
const listedMost = 10_000

// bills answers GET /rollout/bills.
func (r *Router) bills(ctx context.Context, query string) (answer BillList, err error) {
	q, err := parseQuery(query, "partner", "bill", "owner", "open", "outcome", "doubled", "limit")
	if err != nil {
		return answer, err
	}
	if err := r.requireStore(); err != nil {
		return answer, err
	}
	s := r.current.Load()
	f := store.BillFilter{Bill: q["bill"], Now: r.store.Clock(r.now()).StoreTime}
	if f.Limit, err = q.limit(listedMost); err != nil {
		return answer, err
	}
	if f.Open, err = q.flag("open"); err != nil {
		return answer, err
	}
	if name, given := q["partner"]; given {
		if f.PartnerPrefix, err = r.named(ctx, name); err != nil {
			return answer, err
		}
		if f.PartnerPrefix == "" {
			return answer, badRequest("partner cannot be default here: leave partner out for all")
		}
	}
	if owner, given := q["owner"]; given {
		if f.Upstream = map[string]string{"old": s.backends[evidence.Old], "new": s.backends[evidence.New]}[owner]; f.Upstream == "" {
			return answer, badRequest("owner must be old or new, but is %q", owner)
		}
	}
	outcome, unknown := q["outcome"]
	if unknown && outcome != "unknown" {
		return answer, badRequest("outcome must be unknown, but is %q", outcome)
	}
	doubled, err := q.flag("doubled")
	switch {
	case err != nil:
		return answer, err
	case doubled && unknown:
		return answer, badRequest("give outcome or doubled, not both")
	}
	within, cancel := context.WithTimeout(ctx, storeTimeout/2)
	defer cancel()
	list, all, err := r.listBills(within, f, unknown, doubled)
	switch {
	case err != nil && ctx.Err() == nil && within.Err() != nil:
		return answer, errUnlisted
	case err != nil:
		return answer, err
	}
	answer = BillList{Bills: []BillLine{}, LeftOut: all - len(list)}
	for _, b := range list {
		answer.Bills = append(answer.Bills, r.lineOf(b))
	}
	return answer, nil
}

var errUnlisted = errors.New("the ledger is too large to search it within " + short(storeTimeout/2) + ": name a partner")

// listBills reads the ledger, one at a time together with openBills.
func (r *Router) listBills(ctx context.Context, f store.BillFilter, unknown, doubled bool) ([]store.ListedBill, int, error) {
	select {
	case r.counting <- struct{}{}:
		defer func() { <-r.counting }()
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	switch {
	case doubled:
		return r.store.DoubledBills(ctx, f)
	case !unknown:
		return r.store.ListBills(ctx, f)
	}
	s := r.current.Load()
	// Creates that were recorded later than this may be under way.
	return r.store.UnknownOutcomes(ctx, f, r.now().Add(-max(s.wire[s.backends[evidence.Old]], s.wire[s.backends[evidence.New]])))
}

func (r *Router) lineOf(b store.ListedBill) BillLine {
	line := BillLine{
		Partner: b.Partner.Short(), Name: r.name(b.Partner), Bill: b.Bill, Owner: b.Upstream, State: string(b.State),
		Since: known(b.Changed), Ends: known(b.Ends), Ended: known(b.Ended),
	}
	if w := b.Write; w != nil {
		line.Write = &UnknownWrite{
			Operation: w.Operation, Upstream: w.Upstream, Request: w.Request, At: w.At, Result: cmp.Or(w.Read.Finding, notAsked),
			State: w.Read.State, Amount: w.Read.Amount, ReadAt: known(w.Read.At),
		}
	}
	return line
}

// known is a pointer to a time, nil for an unknown time.
func known(t time.Time) *time.Time {
	if t.IsZero() || t.UnixMilli() == 0 { // of a released bill
		return nil
	}
	return &t
}
