package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
)

// ErrBill: the id of the bill cannot be stored. Documented ids can.
var ErrBill error = sentinel("not the id of a bill that can be kept")

// estimatedLife is how long after its create a bill without an end is taken for over.
const estimatedLife = 365 * 24 * time.Hour

// estimatedEnd is when such a bill is taken for over. A machine's clock that is behind must not make that earlier, so
// it is computed from the store's clock if that is ahead.
func (c *clock) estimatedEnd(now time.Time) time.Time {
	if storeTime := c.Clock(now).StoreTime; storeTime.After(now) {
		now = storeTime
	}
	return asStored(now.Add(estimatedLife))
}

// A billRow is a row of a bill: what statements need, and the rest as JSON.
type billRow struct {
	Partner            partner.ID
	ID                 string
	Version            int64
	Upstream           string
	State              ledger.Ownership
	AlsoAt             string
	Ends               time.Time
	Estimated          bool
	Ended, Denied, Due time.Time
	Data               []byte
}

// The columns of a billRow, and those that are computed from its data.
const (
	billColumns = `partner, bill, version, upstream, state, also_at, ends, estimated, ended, denied, due, data`
	billInsert  = `INSERT INTO billbridge_bills (` + billColumns + `, unknown, resolved, doubled)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
		ON CONFLICT (partner, bill) DO NOTHING`
	billUpdate = `UPDATE billbridge_bills SET version = $3, upstream = $4, state = $5, also_at = $6, ends = $7,
			estimated = $8, ended = $9, denied = $10, due = $11, data = $12, unknown = $13, resolved = $14,
			doubled = $15
		WHERE partner = $1 AND bill = $2 AND version = $16`
	// Most changes leave all other columns as they are: an index of a column that is set would be written, too.
	billUpdateState = `UPDATE billbridge_bills SET version = $3, state = $4, due = $5, data = $6
		WHERE partner = $1 AND bill = $2 AND version = $7`
)

// bill is the bill of a row.
func (r billRow) bill() (b ledger.Bill, err error) {
	if err = json.Unmarshal(r.Data, &b); err != nil {
		return b, fmt.Errorf("the row of a bill cannot be read: %w", err)
	}
	b.Partner, b.ID, b.Version = r.Partner, r.ID, r.Version
	b.Upstream, b.State, b.AlsoAt, b.Ends, b.Estimated = r.Upstream, r.State, r.AlsoAt, r.Ends, r.Estimated
	b.Ended, b.Denied, b.Due = r.Ended, r.Denied, r.Due
	return b, nil
}

// storing is the statement that stores a bill in the place of what it was; of version 0: there is none. Versions are
// drawn: a store that went back in time never has the same one with another bill.
func storing(b, was *ledger.Bill) (statement, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return statement{}, err
	}
	b.Version = 1 + rand.Int64N(1<<62)
	if was.Version != 0 && restOf(b) == restOf(was) {
		args := []any{b.Partner, b.ID, b.Version, b.State, b.Due, string(data), was.Version}
		return statement{billUpdateState, args}, nil
	}
	args := []any{
		b.Partner, b.ID, b.Version, b.Upstream, b.State, b.AlsoAt, restOf(b).ends, b.Estimated, b.Ended, b.Denied,
		b.Due, string(data), b.UnknownSince(), b.ResolvedAt(), b.DoubledAt(),
	}
	if was.Version == 0 {
		return statement{billInsert, args}, nil
	}
	return statement{billUpdate, append(args, was.Version)}, nil
}

// A rest is what billUpdateState leaves as it is, with times as their columns have them.
type rest struct {
	upstream, alsoAt string
	estimated        bool
	ends             int64
	others           [5]int64
}

func restOf(b *ledger.Bill) rest {
	r := rest{upstream: b.Upstream, alsoAt: b.AlsoAt, estimated: b.Estimated}
	if !b.Ends.IsZero() {
		r.ends = b.Ends.UnixMilli()
	}
	for i, at := range []time.Time{b.Ended, b.Denied, b.UnknownSince(), b.ResolvedAt(), b.DoubledAt()} {
		r.others[i] = at.UnixMilli()
	}
	return r
}

// Bill returns what is known of the bills of a partner with an id. Its version is 0 if that is nothing.
func (s *Store) Bill(ctx context.Context, id partner.ID, bill string) (ledger.Bill, error) {
	return read(ctx, s.db, "reading a bill", func(q tx) ledger.Bill { return storedBill(q, id, bill) })
}

func storedBill(q tx, id partner.ID, bill string) ledger.Bill {
	row, found := find[billRow](q, "SELECT "+billColumns+" FROM billbridge_bills WHERE partner = $1 AND bill = $2",
		string(id), bill)
	if !found {
		return ledger.Bill{Partner: id, ID: bill}
	}
	return opened(q, row, billRow.bill)
}

// Apply applies events to a bill, in their order, and returns it as it is then stored, with what they contradict. known
// is the bill as the caller knows it: at least its partner and id. The error is that of the first event that has one
// (see [ledger.Event]); the later ones are applied, too. After any other error, the events may have been stored or not:
// an event that says how a create ended can be applied again.
//
// Nothing is written if nothing changes. After an error of the store nothing may be sent.
func (s *Store) Apply(
	ctx context.Context, known ledger.Bill, events ...ledger.Event,
) (ledger.Bill, []ledger.Contradiction, error) {
	got, err := s.begin(ctx, known, Address{}, events...)
	return got.Bill, got.found, err
}

// Begin is Apply for the begin of a create with a callback address, whose ID has the random digits (see
// [Store.Sealed]). In the same transaction it stores the address, as Bind does, and returns its id: "" if there is no
// address, or if the bill is at another upstream than that of the event.
func (s *Store) Begin(ctx context.Context, known ledger.Bill, a Address, e ledger.Event) (ledger.Bill, string, error) {
	if a.ID != "" {
		a.Upstream = e.Upstream
		a.ID = s.Sealed(a)
	}
	got, err := s.begin(ctx, known, a, e)
	return got.Bill, got.address, err
}

// begin applies events, and stores an address if there is one.
func (s *Store) begin(
	ctx context.Context, known ledger.Bill, a Address, events ...ledger.Event,
) (got application, err error) {
	decides := slices.ContainsFunc(events, ledger.Event.Decides)
	for _, e := range events {
		var names []string
		if e.Decides() {
			names = []string{e.Upstream}
		}
		if err := ownable(known.Partner, known.ID, e.At, names...); err != nil {
			return application{Bill: known}, err
		}
		switch e.What.(type) {
		case ledger.CreateEnded, ledger.WriteUnknown: // what is lost here, an operator must find out
			ctx = patient(ctx)
		}
	}
	_, begins := events[0].What.(ledger.CreateBegun)
	_, looks := events[0].What.(ledger.Found)
	if looks || !decides && known.Version == 0 { // mostly nothing is new, and then nothing is written
		if known, err = s.Bill(ctx, known.Partner, known.ID); err != nil {
			return application{Bill: known}, err
		}
	}
	fast := s.applied(known, events)
	if fast.err == nil && (!decides || looks) && fast.Same(known) {
		fast.Bill = known
		return fast, nil
	}
	const doing = "recording a bill"
	slowly := func(q tx) application {
		after := s.apply(q, known, events)
		if binds := s.bound(a, &after); binds.text != "" {
			q.exec(binds.text, binds.args...)
		}
		return after
	}
	if fast.err == nil && (known.Version != 0 && !decides || known.Version == 0 && begins && len(events) == 1) {
		n := entry{doing: doing, key: []string{"bill", string(known.Partner), known.ID}}
		if n.statements[1], err = storing(&fast.Bill, &known); err != nil {
			return fast, err
		}
		n.statements[2] = s.bound(a, &fast)
		got, err = record(ctx, s.db, &n, fast, slowly)
	} else {
		got, err = write(ctx, s.db, doing, slowly)
	}
	return got, cmp.Or(err, got.err)
}

// An application is a bill after events.
type application struct {
	ledger.Bill
	found   []ledger.Contradiction
	address string // the id of the one that is stored with the bill; "" if none is
	err     error  // the first
}

// bound is the statement that stores an address with a bill, if the bill is at the upstream of the address.
func (s *Store) bound(a Address, with *application) (binds statement) {
	if a.ID != "" && with.err == nil && with.Upstream == a.Upstream {
		binds, with.address = s.binding(a, with.Version), a.ID
		binds.text += "NOTHING"
	}
	return binds
}

// applied applies events to a bill, in memory.
func (s *Store) applied(b ledger.Bill, events []ledger.Event, restored ...time.Time) application {
	env := ledger.Env{
		Stamp:        func(at time.Time) time.Time { return asStored(s.stamp(at)) },
		EstimatedEnd: s.estimatedEnd, Name: storedName, Text: printable,
	}
	for _, at := range restored {
		env.Restored = at
	}
	a := application{Bill: b}
	for _, e := range events {
		next, found, err := ledger.Next(env, a.Bill, e)
		a = application{Bill: next, found: append(a.found, found...), err: cmp.Or(a.err, err)}
	}
	return a
}

// apply applies events to the bill that is stored. Another transaction can change that between reading and writing:
// then it is read again. It takes no lock before: AddKey could wait for it, while it waits for AddKey.
func (s *Store) apply(q tx, known ledger.Bill, events []ledger.Event) application {
	id, restored := known.Partner, value[time.Time](q, "SELECT restored FROM billbridge_rollout")
	for q.err == nil {
		if !slices.ContainsFunc(events, ledger.Event.Decides) { // the key may have become one of a partner
			id = value[partner.ID](q, "SELECT "+ofPartner("$1"), string(known.Partner))
		}
		was := storedBill(q, id, known.ID)
		after := s.applied(was, events, restored)
		if q.err != nil || after.Same(was) {
			after.Bill = was
			return after
		}
		statement, failed := storing(&after.Bill, &was)
		q.fail(failed)
		if q.exec(statement.text, statement.args...) == 1 {
			return after
		}
	}
	return application{Bill: known}
}

// billAtMost is the most bytes of an id, well within what an index of PostgreSQL takes. Documented ids are far shorter.
const billAtMost = 1000

// ownable refuses what cannot be stored, or not be found again.
func ownable(id partner.ID, bill string, at time.Time, names ...string) error {
	if bill == "" || len(bill) > billAtMost || columnValues([]any{bill}) != nil {
		return ErrBill
	}
	return needs(id, at, names...)
}

// nameAtMost is the most bytes of a member or merchant that is stored. Documented ones are far shorter.
const nameAtMost = 200

// storedName is a name as it is stored: unchanged, or "" if it cannot be. Another name would find other bills.
func storedName(name string) string {
	if len(name) > nameAtMost || columnValues([]any{name}) != nil {
		return ""
	}
	return name
}

// ofMerchant is the condition that a row is not of another merchant than that of a call.
func ofMerchant(row, call string) string {
	return "(" + row + " IN ('', " + call + ") OR " + call + " = '')"
}

// MoveEnd records that an operation other than a create has moved the end of a bill to until. The callback addresses of
// the bill stay as long.
func (s *Store) MoveEnd(ctx context.Context, known ledger.Bill, c ledger.Call, until time.Time) error {
	_, _, err := s.Apply(ctx, known, ledger.Event{Call: c, What: ledger.EndMoved{Until: until}})
	if !until.After(c.At) {
		until = s.estimatedEnd(c.At)
	}
	return errors.Join(err, s.exec(ctx, "recording the end of a bill", `
		UPDATE billbridge_addresses SET until = $3, ends = $3
		WHERE partner = $1 AND bill = $2 AND coalesce(until, 0) < $3 AND `+ofMerchant("merchant", "$4"),
		known.Partner, known.ID, until, storedName(c.Merchant)))
}
