package proxytest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// An Owner is what a test looks at of a bill.
type Owner struct {
	Partner   partner.ID
	Bill      string
	Upstream  string
	State     ledger.Ownership
	Open      int // creates that have not ended
	Uncertain bool
	Changed   time.Time
	Tried     time.Time
	Ends      time.Time
	Ended     time.Time
	Merchant  string
	Unknown   bool
}

// OfOther is that of the bill.
func (o Owner) OfOther(merchant string) bool {
	b := ledger.Bill{History: ledger.History{Merchant: o.Merchant}}
	return b.OfOther(merchant)
}

func ownerOf(b ledger.Bill) Owner {
	if b.State == ledger.Unrecorded {
		return Owner{Unknown: b.Unknown()}
	}
	return Owner{
		b.Partner, b.ID, b.Upstream, b.State, len(b.Creates), b.Uncertain, b.Changed, b.Tried, b.Ends, b.Ended, b.Merchant,
		b.Unknown(),
	}
}

// A Create is a create that a test has recorded.
type Create struct {
	Owner
	known    ledger.Bill
	token    string
	merchant string // of its call
}

// Bills apply events, one at a time.
type Bills struct{ store *store.Store }

// On are the bills of a store.
func On(s *store.Store) Bills { return Bills{s} }

var tokens atomic.Int64

func (b Bills) apply(
	ctx context.Context, known ledger.Bill, upstream, merchant string, at time.Time, what ledger.What,
) (ledger.Bill, error) {
	got, _, err := b.store.Apply(ctx, known, ledger.Event{
		Call: ledger.Call{At: at, Upstream: upstream, Merchant: merchant}, What: what,
	})
	return got, err
}

// Own begins a create.
func (b Bills) Own(
	ctx context.Context, id partner.ID, bill, upstream string, now, until time.Time, merchant string,
) (Create, error) {
	token := fmt.Sprint("token ", tokens.Add(1))
	got, err := b.apply(ctx, ledger.Bill{Partner: id, ID: bill}, upstream, merchant, now,
		ledger.CreateBegun{Token: token, Until: until})
	if err != nil {
		return Create{}, err
	}
	return Create{ownerOf(got), got, token, merchant}, nil
}

// Complete ends a create.
func (b Bills) Complete(ctx context.Context, c Create, outcome ledger.Outcome, now time.Time) (Owner, error) {
	got, err := b.apply(ctx, c.known, c.Upstream, c.merchant, now, ledger.CreateEnded{Token: c.token, Outcome: outcome})
	return ownerOf(got), err
}

// Found finds a bill.
func (b Bills) Found(
	ctx context.Context, id partner.ID, bill, upstream string, now time.Time, merchant string,
) (Owner, error) {
	got, err := b.apply(ctx, ledger.Bill{Partner: id, ID: bill}, upstream, merchant, now, ledger.Found{})
	return ownerOf(got), err
}

// Deny denies a bill; creates after since count as under way.
func (b Bills) Deny(
	ctx context.Context, id partner.ID, bill string, now, since time.Time, merchant string,
) (Owner, error) {
	got, err := b.apply(ctx, ledger.Bill{Partner: id, ID: bill}, "any", merchant, now,
		ledger.Denied{UnderWay: now.Sub(since)})
	return ownerOf(got), err
}

// Owner returns what is known of a bill, or store.ErrNotFound if nobody has recorded an owner.
func (b Bills) Owner(ctx context.Context, id partner.ID, bill string) (Owner, error) {
	got, err := b.store.Bill(ctx, id, bill)
	if err == nil && got.State == ledger.Unrecorded {
		err = store.ErrNotFound
	}
	return ownerOf(got), err
}

// NoAnswer records a write without an answer.
func (b Bills) NoAnswer(
	ctx context.Context, id partner.ID, bill string, c ledger.Call, read ledger.Reading, next time.Time,
) error {
	_, _, err := b.store.Apply(ctx, ledger.Bill{Partner: id, ID: bill}, ledger.Event{
		Call: c, What: ledger.WriteUnknown{Read: read, Next: next},
	})
	if errors.Is(err, store.ErrBill) {
		return nil
	}
	return err
}

// EndMoved moves the end of a bill.
func (b Bills) EndMoved(
	ctx context.Context, id partner.ID, bill string, now, until time.Time, merchant string,
) error {
	return b.store.MoveEnd(ctx, ledger.Bill{Partner: id, ID: bill}, ledger.Call{At: now, Merchant: merchant}, until)
}

// MarkDoubled marks a bill as doubled by a call.
func (b Bills) MarkDoubled(
	ctx context.Context, id partner.ID, bill, operation, request string, now time.Time,
) error {
	return b.AtBoth(ctx, id, bill, ledger.Call{Operation: operation, Request: request, At: now})
}

// Looked records a read with a result, sent at a time.
func (b Bills) Looked(
	ctx context.Context, id partner.ID, bill, upstream, merchant string, read ledger.Reading, at, resolves time.Time,
	final bool,
) error {
	_, err := b.apply(ctx, ledger.Bill{Partner: id, ID: bill}, upstream, merchant, at, ledger.Looked{
		Read: read, Final: final, Absent: read.State == "", Settles: at.Sub(resolves),
	})
	return err
}

// AtBoth marks a bill as doubled.
func (b Bills) AtBoth(ctx context.Context, id partner.ID, bill string, c ledger.Call) error {
	_, _, err := b.store.Apply(ctx, ledger.Bill{Partner: id, ID: bill}, ledger.Event{Call: c, What: ledger.AtBoth{}})
	return err
}
