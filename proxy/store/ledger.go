package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"billbridge/proxy/partner"
)

var (
	// ErrOtherOwner: the bill is or may be at another upstream. The row is returned with it.
	ErrOtherOwner error = sentinel("the bill belongs to another upstream")
	// errNotOpen: the create was completed before, or the store was restored from a backup without it.
	errNotOpen error = sentinel("the create is not open")
	// ErrCreateInProgress: a create of the bill is in progress, or ended recently with an unknown outcome.
	ErrCreateInProgress error = sentinel("a create of the bill is in progress")
	// ErrDenied: after the create arrived, another call got the answer that there is no such bill.
	ErrDenied error = sentinel("a caller got the answer that there is no such bill")
	// ErrBill: the id of the bill cannot be stored. Documented ids can.
	ErrBill error = sentinel("not the id of a bill that can be kept")
)

// An Ownership is the state of a bill's row: whether the bill is at the upstream of the row.
type Ownership string

// The ownerships. Only a released bill may be given to another upstream.
const (
	Pending  Ownership = "pending"  // it may be: a create may have been sent there
	Owned    Ownership = "owned"    // it is, for good
	Released Ownership = "released" // it certainly is not: nothing was sent, or every create was refused
)

// An Owner is a row of the ledger: the upstream that a bill is at.
type Owner struct {
	Partner   partner.ID // full
	Bill      string
	Upstream  string
	State     Ownership
	Open      int       // creates that were not completed: under way, or interrupted by the end of their gateway
	Uncertain bool      // a create ended Unknown or Taken: the bill will not be released
	Changed   time.Time // when it came into its state
	Tried     time.Time // when its last create was recorded; if there was none, as Changed
	Ends      time.Time // when the bill ends; its row is removed two years later. 1970 for a released row
	Ended     time.Time // when an owned bill was seen destroyed or cancelled; zero if it was not
	Merchant  string    // of the call that showed or created it; "" if it is not known, or an operator set the owner
	// a write of it has an unknown outcome that is not resolved (see RecordUnknown); set by Store.Owner alone
	Unknown bool
}

// OfOther reports whether the row is of another merchant than that of a call. A backend may hide the bill of the row
// from the call, and the bill of the call may be at another upstream.
func (o Owner) OfOther(merchant string) bool {
	return o.Merchant != "" && merchant != "" && o.Merchant != merchant
}

// key is that of an entry.
func (o Owner) key() []string { return []string{"bill", string(o.Partner), o.Bill} }

// estimatedLife is how long after its create a bill without an end is taken for over.
const estimatedLife = 365 * 24 * time.Hour

// estimatedEnd is when such a bill is taken for over. A machine's clock that is behind must not make that earlier, so
// it is computed from the store's clock if that is ahead.
func (s *Store) estimatedEnd(now time.Time) time.Time {
	if storeTime := s.Clock(now).StoreTime; storeTime.After(now) {
		now = storeTime
	}
	return now.Add(estimatedLife)
}

// end is the end of a bill. One that is not after now is estimated.
func (s *Store) end(now, until time.Time) (end time.Time, estimated bool) {
	if until.After(now) {
		return until, false
	}
	return s.estimatedEnd(now), true
}

// A Create is a recorded create. It may be sent to Upstream alone, which need not be the one that Own was asked for.
type Create struct {
	Owner
	token    string // unique among the creates of the bill
	merchant string // of its call, which need not be that of the row
}

// An Outcome is how a create ended.
type Outcome string

// The outcomes. In doubt it is Unknown.
const (
	Succeeded Outcome = "succeeded" // the upstream answered with a success
	Refused   Outcome = "refused"   // the upstream refused it, but not because the id is used
	Taken     Outcome = "taken"     // the upstream has a bill with that id, from whichever call (BILL_001)
	NotSent   Outcome = "not sent"  // no byte was sent
	Unknown   Outcome = "unknown"
)

// Own records a create of a bill before it is sent, and says which upstream it must be sent to: the given one if the
// bill has no owner, else the one of its row. So all creates of one id go to one backend, through whichever replicas
// they come.
//
// The bill is over at until. If that is zero or not after now (0001-01-01 may mean a bill without an end), the end is
// estimated: a year from now. Of several creates the latest end counts.
//
// now is when the create arrived. If another call got the answer since then that there is no such bill (see Deny),
// the error is ErrDenied. A row keeps the merchant of its first create until one succeeds: the caller must look at [Owner.OfOther].
//
// After an error nothing may be sent, and there is nothing to complete. After an error during the commit the create
// may stay recorded as open: then the bill keeps its upstream, which is safe.
func (s *Store) Own(
	ctx context.Context, partner partner.ID, bill, upstream string, now, until time.Time, merchant string,
) (Create, error) {
	if err := ownable(partner, bill, now, upstream); err != nil {
		return Create{}, err
	}
	until, estimated := s.end(now, until)
	now = s.stamp(now)
	// The blank keeps a token from matching parts of two others.
	c := Create{token: rand.Text()[:createDigits] + " ", merchant: storedName(merchant)}
	c.Owner = Owner{
		Partner: partner, Bill: bill, Upstream: upstream, State: Pending, Open: 1,
		Changed: asStored(now), Tried: asStored(now), Ends: asStored(until), Merchant: c.merchant,
	}
	// Nearly every bill has no row, and nothing of it need be read.
	return record(ctx, s, &entry{doing: "recording the owner of a bill", key: c.key(), statement: statement{
		`
		INSERT INTO billbridge_owners (partner, bill, upstream, state, creates, uncertain, changed, tried, ends,
			estimated, merchant)
		VALUES ($1, $2, $3, 'pending', $4, 0, $5, $5, $6, $7, $8) ON CONFLICT (partner, bill) DO NOTHING`,
		[]any{partner, bill, upstream, c.token, c.Tried, c.Ends, estimated, c.Merchant},
	}}, c, func(q tx) Create {
		// An insert, as the row may be gone by now. In one statement, so that no other replica changes the row between
		// reading and writing it.
		o, recorded := find[Owner](q, `
			INSERT INTO billbridge_owners AS was (partner, bill, upstream, state, creates, uncertain, changed,
				tried, ends, estimated, merchant)
			VALUES ($1, $2, $3, 'pending', $4, 0, $5, $5, $6, $7, $9)
			ON CONFLICT (partner, bill) DO UPDATE SET
				upstream = CASE was.state WHEN 'released' THEN excluded.upstream ELSE was.upstream END,
				state = CASE was.state WHEN 'released' THEN 'pending' ELSE was.state END,
				merchant = CASE was.state WHEN 'released' THEN excluded.merchant ELSE was.merchant END,
				also_at = CASE WHEN was.state = 'released' THEN '' WHEN was.also_at <> '' OR `+ofOneMerchant+`
					THEN was.also_at ELSE was.upstream END,
				-- The bill of the other merchant may have ended, but not that of this one.
				ended = CASE WHEN `+ofOneMerchant+` THEN was.ended END,
				creates = was.creates || excluded.creates,
				changed = CASE was.state WHEN 'released' THEN excluded.changed ELSE was.changed END,
				tried = CASE WHEN was.tried > excluded.tried AND was.tried < $8 THEN was.tried ELSE excluded.tried END,
				ends = CASE WHEN was.ends < excluded.ends THEN excluded.ends ELSE was.ends END,
				estimated = CASE WHEN was.ends < excluded.ends THEN excluded.estimated ELSE was.estimated END
			WHERE was.state = 'owned' AND `+ofOneMerchant+`
				OR was.denied IS NULL OR was.denied < excluded.tried OR was.denied > $8
			RETURNING `+ownerColumns,
			partner, bill, upstream, c.token, now, until, estimated, now.Add(deniedFor), c.merchant)
		if !recorded {
			q.refuse(ErrDenied)
			return Create{}
		}
		return Create{o, c.token, c.merchant}
	})
}

// ofMerchant is the condition that a row is not of another merchant than that of a call (see Owner.OfOther).
func ofMerchant(row, call string) string {
	return "(" + row + " IN ('', " + call + ") OR " + call + " = '')"
}

// ofOneMerchant is that condition of the row that an insert meets.
var ofOneMerchant = ofMerchant("was.merchant", "excluded.merchant")

// deniedFor is how long after its arrival a create may be recorded. A denial that seems to be later than that was
// recorded by a wrong clock.
const deniedFor = 10 * time.Minute

// Complete records how a create ended. A second call changes nothing and returns an error, so that a caller may try
// again after one. A create that is never completed is taken for one that may have taken effect.
//
// After a success the bill is owned, even if its row does not have the create any more. If the row names another
// upstream by then, the error is ErrOtherOwner, and the bill is at both.
func (s *Store) Complete(ctx context.Context, c Create, outcome Outcome, now time.Time) (Owner, error) {
	ctx = patient(ctx)
	if c.token == "" || now.IsZero() {
		return Owner{}, errors.New("store: only a create that came from Own can be settled, at a time")
	}
	ended := map[Outcome]string{
		Succeeded: "created", Refused: "not created", NotSent: "not created", Unknown: "unknown", Taken: "unknown",
	}[outcome]
	if ended == "" {
		return Owner{}, fmt.Errorf("store: a create cannot end as %q", outcome)
	}
	const doing = "recording how a create ended"
	end := s.estimatedEnd(now)
	complete := func(q tx) Owner {
		c := c
		c.Partner = value[partner.ID](q, "SELECT "+ofPartner("$1"), string(c.Partner))
		o, open := find[Owner](q, `
			UPDATE billbridge_owners SET creates = replace(creates, $3, ''),
				state = CASE WHEN $5 = 'created' THEN 'owned' WHEN `+over+` THEN 'released' ELSE state END,
				merchant = CASE WHEN $5 = 'created' AND state = 'pending' AND $7 <> '' THEN $7 ELSE merchant END,
				changed = CASE WHEN $5 = 'created' AND state <> 'owned' OR `+over+` THEN $4 ELSE changed END,
				ends = CASE WHEN `+over+` THEN 0 ELSE ends END, -- the next sweep removes a released row
				uncertain = CASE $5 WHEN 'unknown' THEN 1 ELSE uncertain END,
				-- If the bill ended before this create, the create may have made another bill with the same id.
				ended = CASE WHEN $5 <> 'not created' AND ended < tried THEN NULL ELSE ended END
			WHERE partner = $1 AND bill = $2 AND replace(creates, $3, '') <> creates
				AND ($5 <> 'created' OR upstream = $6)
			RETURNING `+ownerColumns, c.Partner, c.Bill, c.token, now, ended, c.Upstream,
			c.merchant)
		switch {
		case open:
		case outcome == Succeeded:
			o = found(q, c.Partner, c.Bill, c.Upstream, now, end, c.merchant)
		default:
			o, _ = owner(q, c.Partner, c.Bill)
			q.refuse(errNotOpen)
		}
		return o
	}
	if outcome != Succeeded || c.State != Pending || c.Open != 1 {
		return write(ctx, s, doing, complete)
	}
	after := c.Owner // it is nearly always the only create of its bill
	after.State, after.Open, after.Changed = Owned, 0, asStored(now)
	return record(ctx, s, &entry{doing: doing, key: c.key(), statement: statement{
		`
		UPDATE billbridge_owners SET creates = '', state = 'owned', changed = $4
		WHERE partner = $1 AND bill = $2 AND creates = $3 AND state = 'pending' AND uncertain = 0 AND ends = $5
			AND tried = $6`,
		[]any{c.Partner, c.Bill, c.token, after.Changed, c.Ends, c.Tried},
	}}, after, complete)
}

// over: no other create can have taken effect, and this one did not.
const over = "$5 = 'not created' AND state = 'pending' AND uncertain = 0 AND creates = $3"

// Deny is called before a call that arrived at now gets the answer that there is no such bill. From then on Own
// refuses creates that arrived until now, so that the answer stays true.
//
// If a create of the bill is under way or has an unknown outcome, and arrived after since, nothing changes and the
// row is returned with ErrCreateInProgress: the caller must not get that answer. (A create from the future comes from
// a wrong clock, and counts as old.) If the bill is owned nothing changes, because its upstream decides on the answer,
// unless the row is of another merchant: its creates can be of this one, and creates of merchants that do not own it
// are refused from then on.
func (s *Store) Deny(
	ctx context.Context, partner partner.ID, bill string, now, since time.Time, merchant string,
) (Owner, error) {
	if err := ownable(partner, bill, now); err != nil {
		return Owner{}, err
	}
	now, since, merchant = s.stamp(now), s.stamp(since), storedName(merchant)
	return write(ctx, s, "recording that there is no such bill", func(q tx) Owner {
		o, denied := find[Owner](q, `
			INSERT INTO billbridge_owners AS was (partner, bill, upstream, state, creates, uncertain, changed, tried,
				ends, denied, merchant)
			VALUES ($1, $2, '', 'released', '', 0, $3, $3, 0, $3, $6)
			ON CONFLICT (partner, bill) DO UPDATE SET denied = excluded.denied
			WHERE (was.state <> 'owned' OR NOT `+ofOneMerchant+`)
				AND (was.creates = '' AND was.uncertain = 0 AND was.state <> 'pending'
					OR was.tried <= $4 OR was.tried > $5)
			RETURNING `+ownerColumns, partner, bill, now, since, now.Add(deniedFor), merchant)
		if denied {
			return o
		}
		o, known := owner(q, partner, bill)
		switch {
		case !known:
			q.fail(ErrNotFound)
		case o.State == Pending || o.OfOther(merchant):
			q.refuse(ErrCreateInProgress)
		}
		return o
	})
}

// Found records that an upstream showed a bill, and becomes its owner. Its end is estimated. If by its row the bill
// is or may be at another upstream, nothing changes and the row is returned with ErrOtherOwner. A row that was
// pending before the store was declared restored does not count: it may have been released after the backup, and the
// bill made at the other upstream. A row of another merchant keeps its owner, and is returned without an error, but
// from then on has bills of several merchants: it counts as open until it ends, and also at the upstream of this bill.
func (s *Store) Found(
	ctx context.Context, partner partner.ID, bill, upstream string, now time.Time, merchant string,
) (Owner, error) {
	if err := ownable(partner, bill, now, upstream); err != nil {
		return Owner{}, err
	}
	// Most bills that are read are owned by that upstream already: then nothing is written.
	if known, err := s.Owner(ctx, partner, bill); err == nil && known.State == Owned && known.Upstream == upstream &&
		!known.OfOther(storedName(merchant)) {
		return known, nil
	}
	end := s.estimatedEnd(now)
	now = s.stamp(now)
	return write(ctx, s, "recording where a bill was found", func(q tx) Owner {
		return found(q, partner, bill, upstream, now, end, storedName(merchant))
	})
}

// MoveEnd records that an operation other than a create has moved the end of a bill to until. As in Own, an end that
// is not after now is estimated. The callback addresses of the bill stay as long. A bill that the ledger does not
// know is left out, as is a row of another merchant. A row of bills of several merchants gets no earlier end.
func (s *Store) MoveEnd(
	ctx context.Context, partner partner.ID, bill string, now, until time.Time, merchant string,
) error {
	until, estimated := s.end(now, until)
	return s.update(ctx, "recording the end of a bill", func(q tx) {
		q.exec(`
			UPDATE billbridge_owners SET ends = $3, estimated = $4 WHERE partner = $1 AND bill = $2
				AND state <> 'released' AND (also_at = '' AND `+ofMerchant("merchant", "$5")+`
					OR also_at <> '' AND ends < $3)`,
			partner, bill, until, estimated, storedName(merchant))
		q.exec(`
			UPDATE billbridge_addresses SET until = $3, ends = $3
			WHERE partner = $1 AND bill = $2 AND coalesce(until, 0) < $3 AND `+ofMerchant("merchant", "$4"),
			partner, bill, until, storedName(merchant))
	})
}

func found(q tx, partner partner.ID, bill, upstream string, now, end time.Time, merchant string) Owner {
	o, recorded := find[Owner](q, `
		INSERT INTO billbridge_owners AS was (partner, bill, upstream, state, creates, uncertain, changed, tried,
			ends, estimated, merchant)
		VALUES ($1, $2, $3, 'owned', '', 0, $4, $4, $5, 1, $6)
		ON CONFLICT (partner, bill) DO UPDATE SET
			upstream = excluded.upstream, state = 'owned',
			merchant = CASE was.state WHEN 'released' THEN excluded.merchant ELSE was.merchant END,
			changed = CASE was.state WHEN 'owned' THEN was.changed ELSE excluded.changed END,
			ends = CASE was.state WHEN 'released' THEN excluded.ends ELSE was.ends END,
			estimated = CASE was.state WHEN 'released' THEN 1 ELSE was.estimated END
		WHERE was.state = 'released' OR `+ofOneMerchant+`
			AND (was.upstream = excluded.upstream
				OR was.state = 'pending' AND was.changed <= (SELECT restored FROM billbridge_rollout))
		RETURNING `+ownerColumns, partner, bill, upstream, now, end, merchant)
	if recorded {
		return o
	}
	o, known := owner(q, partner, bill)
	switch {
	case !known:
		q.fail(ErrNotFound)
	case !o.OfOther(merchant):
		q.refuse(ErrOtherOwner)
	default:
		q.exec(`
			UPDATE billbridge_owners SET also_at = $3, ends = CASE WHEN ends < $4 THEN $4 ELSE ends END,
				estimated = CASE WHEN ends < $4 THEN 1 ELSE estimated END,
				ended = CASE WHEN upstream <> $3 THEN ended END
			WHERE partner = $1 AND bill = $2 AND also_at IN ('', upstream) AND also_at <> $3`,
			partner, bill, upstream, end)
		o, _ = owner(q, partner, bill)
	}
	return o
}

// Owner returns the row of a bill, or ErrNotFound, with which Unknown is right, too.
func (s *Store) Owner(ctx context.Context, partner partner.ID, bill string) (Owner, error) {
	return read(ctx, s, "reading the owner of a bill", func(q tx) Owner {
		// One row also of a bill that the ledger does not have, which can have a write with an unknown outcome.
		o := value[Owner](q, `
			SELECT coalesce(partner, ''), coalesce(bill, ''), coalesce(upstream, ''), coalesce(state, ''),
				coalesce(length(creates), 0) / 17, coalesce(uncertain, 0), changed, tried, ends, ended,
				coalesce(merchant, ''),
				EXISTS (SELECT 1 FROM billbridge_unknown WHERE partner = $1 AND bill = $2 AND resolved IS NULL)
			FROM (SELECT 1) AS one LEFT JOIN billbridge_owners ON partner = $1 AND bill = $2`, string(partner), bill)
		if o.State == "" {
			q.refuse(ErrNotFound)
		}
		return o
	})
}

func owner(q tx, partner partner.ID, bill string) (o Owner, known bool) {
	return find[Owner](q, "SELECT "+ownerColumns+" FROM billbridge_owners WHERE partner = $1 AND bill = $2",
		partner, bill)
}

// billAtMost is the most bytes of an id, well within what an index of PostgreSQL takes. Documented ids are far shorter.
const billAtMost = 1000

// ownable refuses what cannot be stored, or not be found again.
func ownable(partner partner.ID, bill string, at time.Time, names ...string) error {
	if bill == "" || len(bill) > billAtMost || columnValues([]any{bill}) != nil {
		return ErrBill
	}
	return needs(partner, at, names...)
}

const (
	createDigits = 16 // of the token of a create, which is 17 characters of creates
	// ownerColumns are the columns of an Owner.
	ownerColumns = `partner, bill, upstream, state, length(creates) / 17, uncertain, changed, tried, ends, ended,
		merchant, 0`
)
