package operate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// A BillFilter selects bills of the ledger.
type BillFilter struct {
	PartnerRef
	Bill    string `json:"bill,omitzero"`
	Owner   string `json:"owner,omitzero"`          // old or new
	Open    bool   `json:"open,omitzero,string"`    // only those that may still be open
	Outcome string `json:"outcome,omitzero"`        // one of Outcomes
	Doubled bool   `json:"doubled,omitzero,string"` // bills that both backends have
	Limit
}

// Outcomes select bills with writes that had no answer: whose outcome is unknown, those of them that the reads of the
// gateway have not resolved, and those whose outcome a read has resolved in the last 30 days.
var Outcomes = []string{string(store.UnknownBills), string(store.UnclearBills), string(store.ResolvedBills)}

// A BillList is a part of the ledger.
type BillList struct {
	Bills   []BillLine `json:"bills"`
	LeftOut int        `json:"left_out"` // how many more bills the filter selects, of at most 10,000
}

// A BillLine is a bill of the ledger, or one of its writes that its list is of.
type BillLine struct {
	Who
	Bill string `json:"bill"`
	LedgerBill
	Write *UnknownWrite `json:"write,omitempty"` // in the list of doubled bills: the call that showed it
}

// An UnknownWrite is a write that ended without an answer.
type UnknownWrite struct {
	Operation string `json:"operation"`
	Merchant  string `json:"merchant,omitempty"`
	Upstream  string `json:"upstream"` // where it was sent, and where the last read was
	// the id of the call in the access log. None for a create that was interrupted by the end of its gateway
	Request  string     `json:"request,omitempty"`
	At       time.Time  `json:"at"`
	Result   string     `json:"result"` // of the last read; one of ResultTexts, "not asked" or "at both backends"
	State    string     `json:"bill_state,omitempty"`
	Amount   string     `json:"amount,omitempty"`
	ReadAt   *time.Time `json:"read_at,omitempty"`
	ReadBy   string     `json:"read_by,omitempty"`  // call (of the partner), operator or gateway
	Reads    int        `json:"reads,omitempty"`    // how often the gateway has read the bill by itself
	Resolved *time.Time `json:"resolved,omitempty"` // when the last read resolved the outcome; nil if it is unknown
}

// Bills lists bills of the ledger.
func (o billVerbs) Bills(ctx context.Context, b BillFilter) (answer BillList, err error) {
	limit, err := b.get()
	only, unnamed := b.one(ctx, o.core)
	if err := cmp.Or(o.needStore(), err, unnamed); err != nil {
		return answer, err
	}
	f := store.BillFilter{
		List: store.BillList(b.Outcome), UnclearBefore: routing.UnclearBefore(o.Now()),
		PartnerPrefix: only, Bill: b.Bill,
		Open: b.Open, Upstream: o.upstreamOf(b.Owner), Now: o.Store.Clock(o.Now()).StoreTime, Limit: limit,
	}
	switch {
	case b.Owner != "" && f.Upstream == "":
		return answer, badRequest("owner must be old or new, but is %q", b.Owner)
	case b.Outcome != "" && !slices.Contains(Outcomes, b.Outcome):
		return answer, badRequest("outcome must be %s, but is %q", strings.Join(Outcomes, ", "), b.Outcome)
	case b.Doubled && b.Outcome != "":
		return answer, badRequest("give outcome or doubled, not both")
	}
	if b.Doubled {
		f.List = store.DoubledBills
	}
	within, cancel := context.WithTimeout(ctx, storeTimeout/2)
	defer cancel()
	var list []ledger.Bill
	var all int
	err = o.scan(within, func() (err error) {
		list, all, err = o.Store.Bills(within, f)
		return err
	})
	switch {
	case err != nil && ctx.Err() == nil && within.Err() != nil:
		return answer, errUnlisted
	case err != nil:
		return answer, err
	}
	answer = BillList{Bills: []BillLine{}, LeftOut: max(0, all-len(list))}
	for _, one := range list {
		answer.Bills = append(answer.Bills, o.linesOf(f.List, one)...)
	}
	return answer, nil
}

var errUnlisted = errors.New(
	"the ledger is too large to search it within " + (storeTimeout / 2).String() + ": name a partner",
)

// linesOf are the lines of a bill in a list: one for each write that the list is of, or else one.
func (o billVerbs) linesOf(list store.BillList, b ledger.Bill) (lines []BillLine) {
	line := BillLine{Who: o.who(b.Partner), Bill: routing.ShownBill(b.ID), LedgerBill: o.ledgerBill(b)}
	if list == store.DoubledBills {
		line.Write = &UnknownWrite{
			Operation: b.Doubled.Operation, Merchant: b.Doubled.Merchant, Upstream: b.Doubled.Upstream,
			Request: b.Doubled.Request, At: b.Doubled.At, Result: bothHave,
		}
	}
	if list == store.DoubledBills || list == store.AllBills {
		return []BillLine{line}
	}
	for _, w := range slices.Backward(b.Writes) {
		if w.Resolved.IsZero() == (list == store.ResolvedBills) {
			continue
		}
		line.Owner = cmp.Or(b.Upstream, w.Upstream)
		line.Write = &UnknownWrite{
			Operation: w.Operation, Merchant: w.Merchant, Upstream: w.Upstream, Request: w.Request, At: w.At,
			Result: cmp.Or(w.Read.Finding, routing.NotAsked),
			State:  w.Read.State, Amount: w.Read.Amount, ReadAt: known(w.Read.At), ReadBy: w.Read.By,
			Reads: b.Reads, Resolved: known(w.Resolved),
		}
		lines = append(lines, line)
	}
	return lines
}

// bothHave is the result in the list of doubled bills.
const bothHave = "at both backends"
