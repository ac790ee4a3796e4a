package operate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/ledger"
	"billbridge/proxy/moves"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// A BillRef names a bill of a partner, by the partner's ID or its key, and says with which member and merchant it is
// read. If they are left out, they are those of a write of the bill with an unknown outcome; else the merchant is that
// of the bill in the ledger, and what is not known is that of the partner's first call.
type BillRef struct {
	PartnerRef
	Key      string `json:"key,omitzero"` // the partner's
	Bill     string `json:"bill,omitzero"`
	Member   string `json:"member,omitzero"`
	Merchant string `json:"merchant,omitzero"`
}

// A Bill is what the ledger and the backends have of one bill.
type Bill struct {
	Who
	Bill     string                `json:"bill"`
	Ledger   *LedgerBill           `json:"ledger,omitempty"` // nil if the ledger does not have it
	Backends []routing.BackendBill `json:"backends"`         // old and new
	ReadAs   *routing.Credentials  `json:"read_as,omitempty"`
}

// A LedgerBill is a bill's row in the ledger. If the ledger does not have the bill, Owner is where its write was sent.
type LedgerBill struct {
	Owner string     `json:"owner"`
	State string     `json:"state,omitempty"` // pending, owned, released; none if the ledger does not have the bill
	Since *time.Time `json:"since,omitempty"` // since when it is in this state
	// creates that were not completed: under way, or interrupted by the end of their gateway
	Open    int        `json:"open,omitempty"`
	Unknown bool       `json:"unknown,omitempty"` // a create had an unknown outcome, or found that the id exists
	Ends    *time.Time `json:"ends,omitempty"`    // when the bill ends
	Ended   *time.Time `json:"ended,omitempty"`   // when it was seen destroyed or cancelled

	NextRead *time.Time `json:"next_read,omitempty"` // when the gateway reads it, or when its partner has called
	Awaits   []string   `json:"awaits,omitempty"`    // operations whose effect a read is to show, "read back"
}

// Read reads a bill at both backends, and records in the ledger what they say.
func (o billVerbs) Read(ctx context.Context, ref BillRef) (Bill, error) {
	sent := o.Now()
	b, owner, err := o.lookUp(ctx, ref)
	if err != nil || b.ReadAs == nil {
		return b, err
	}
	// Recorded as after a partner's read. Only an answer of the owning backend makes the bill owned: without an owner a
	// create may be under way.
	ctx, cancel := withNewTimeout(ctx) // the reads may have used up the first timeout
	defer cancel()
	for _, says := range b.Backends {
		s := resultOf(says)
		s.By, s.Merchant = routing.ByOperator, b.ReadAs.Merchant
		events := o.Rollout.Looked(says.Upstream, s, says.Upstream == owner, sent)
		if err := o.Rollout.RecordRead(ctx, ledger.Bill{Partner: b.ID, ID: b.Bill}, nil, events...); err != nil {
			return b, err
		}
	}
	_, err = o.inLedger(ctx, &b)
	return b, err
}

// lookUp finds what the ledger and both backends have of a bill. owner is the upstream of its owner, "" if it has none
// or that of another merchant.
func (o billVerbs) lookUp(ctx context.Context, ref BillRef) (b Bill, owner string, err error) {
	if err := o.needStore(); err != nil {
		return b, "", err
	}
	switch {
	case ref.Key != "" && ref.Partner != "":
		return b, "", badRequest("give partner or the partner's key, not both")
	case ref.Key != "":
		b.ID = o.identity(partner.Of(ref.Key))
	default:
		if b.ID, err = o.named(ctx, ref.Partner); err != nil {
			return b, "", err
		}
	}
	if b.ID == "" || ref.Bill == "" {
		return b, "", badRequest("partner and bill are required, and partner cannot be default")
	}
	b.Who, b.Bill = o.who(b.ID), ref.Bill
	row, err := o.inLedger(ctx, &b)
	if err != nil {
		return b, "", err
	}
	if ref.Member == "" {
		last := row.LastWrite(ref.Merchant)
		ref.Member, ref.Merchant = last.Member, cmp.Or(ref.Merchant, last.Merchant, row.Merchant)
	}
	if b.Ledger != nil && row.State != ledger.Released && !row.OfOther(ref.Merchant) {
		owner = row.Upstream
	}
	as := routing.Credentials{Partner: b.ID, Key: ref.Key, Member: ref.Member, Merchant: ref.Merchant}
	for _, upstream := range o.Rollout.Settings().Backends {
		says, asked := routing.BackendBill{Upstream: upstream, Result: routing.NotAsked}, routing.Credentials{}
		if o.ReadBill != nil {
			says, asked = o.ReadBill(ctx, upstream, as, b.Bill)
		}
		if asked.Key != "" {
			b.ReadAs = &asked
		}
		b.Backends = append(b.Backends, says)
	}
	return b, owner, nil
}

// inLedger finds what the ledger has of a bill.
func (o billVerbs) inLedger(ctx context.Context, b *Bill) (row ledger.Bill, err error) {
	row, err = o.Store.Bill(ctx, b.ID, b.Bill)
	if row.State != ledger.Unrecorded {
		b.Ledger = new(o.ledgerBill(row))
	}
	return row, err
}

func (o billVerbs) ledgerBill(row ledger.Bill) LedgerBill {
	if row.Due.Equal(store.AskedFor) {
		row.Due = o.Now()
	}
	b := LedgerBill{
		row.Upstream, string(row.State), known(row.Changed),
		len(row.Creates), row.Uncertain, known(row.Ends), known(row.Ended), known(row.Due), nil,
	}
	for _, c := range row.Awaited() {
		why := c.Operation
		if row.Created != nil && c == *row.Created {
			why = string(evidence.ByReadBack)
		}
		if !slices.Contains(b.Awaits, why) {
			b.Awaits = append(b.Awaits, why)
		}
	}
	return b
}

func resultOf(says routing.BackendBill) routing.ReadResult {
	s := routing.ReadResult{
		Result: routing.Unclear, State: says.State, Ended: says.Ended, Amount: says.Amount, Shows: says.Shows,
	}
	for result, words := range routing.ResultTexts {
		if words == says.Result {
			s.Result = result
		}
	}
	return s
}

// upstreamOf returns the upstream that an operator calls old or new, "" for another word.
func (o billVerbs) upstreamOf(word string) string {
	backends := o.Rollout.Settings().Backends
	return map[string]string{"old": backends[evidence.Old], "new": backends[evidence.New]}[word]
}

// An Assign says which backend owns a bill that both have.
type Assign struct {
	Decision
	BillRef
	To string `json:"to,omitzero"` // old or new
}

// Assign sets the owner of a bill. Unless both backends have it, there is a blocking reason.
func (o billVerbs) Assign(ctx context.Context, a Assign) (c Change, err error) {
	if c, err = o.begin(a.Decision, store.Assigned, false); err != nil {
		return c, err
	}
	if c.To = o.upstreamOf(a.To); c.To == "" {
		return c, badRequest("to must be old or new, but is %q", a.To)
	}
	b, _, err := o.lookUp(ctx, a.BillRef)
	if err != nil {
		return c, err
	}
	var reasons []moves.BlockingReason
	for _, at := range b.Backends {
		if at.Result != routing.ResultTexts[routing.Present] {
			note := evidence.Say("not_at_both", at.Upstream, at.Result)
			reasons = append(reasons, moves.BlockingReason{Kind: moves.NotAtBoth, Text: note})
		}
	}
	c.Partner, c.Name, c.Subject = b.Partner, b.Name, b.Bill
	if b.Ledger != nil {
		c.From = b.Ledger.Owner
	}
	return o.commit(ctx, c, reasons, a.Force, store.Change{Partner: b.ID, Subject: b.Bill, To: c.To})
}
