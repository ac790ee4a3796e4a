package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"billbridge/proxy/partner"
)

var (
	// ErrOtherOwner: the bill is at another upstream, or may be. The row that says so comes with it.
	ErrOtherOwner = errors.New("store: the bill belongs to another upstream")
	// errNotOpen: the create was settled before, or the store was restored from a backup that does not know of it.
	errNotOpen = errors.New("store: the create is not open")
	// ErrMaking: a create of the bill is under way, or ended lately with an unknown outcome.
	ErrMaking = errors.New("store: a create of the bill is under way")
	// ErrDenied: since the create arrived a caller was told that there is no such bill.
	ErrDenied = errors.New("store: a caller got the answer that there is no such bill")
	// ErrBill: no bill can be kept under that id. None that a backend documents is like it.
	ErrBill = errors.New("store: not the id of a bill that can be kept")
)

// An Ownership is what is known of a bill at the upstream that its row names.
type Ownership string

// The ownerships. Only a released bill may be given to another upstream.
const (
	Pending  Ownership = "pending"  // a create may have been sent there
	Owned    Ownership = "owned"    // it is there, for good
	Released Ownership = "released" // it certainly is not there: nothing was sent, or all of it was refused
)

// An Owner is a row of the ledger: which upstream a bill is at, if it is anywhere.
type Owner struct {
	Partner   partner.ID // full
	Bill      string
	Upstream  string
	State     Ownership
	Open      int       // creates on their way. One whose process died, or that could not be settled, stays among them
	Uncertain bool      // a create ended Unknown or Taken: the bill is not released any more
	Changed   time.Time // when it came into its state
	Tried     time.Time // when its last create was recorded; of a bill that was only found, as Changed
	Ends      time.Time // a sweep takes the row some time after this; 1970 once it was released
	Ended     time.Time // when the bill was seen destroyed or cancelled; zero if it was not. Only of an owned bill
	Unknown   bool      // a write of it has an unknown outcome that is not resolved yet (see RecordUnknown). Set by Store.Owner alone
}

// estimatedLife is after how long a bill is taken for over if nobody says when it ends.
const estimatedLife = 365 * 24 * time.Hour

// estimatedEnd is when such a bill is taken for over. A clock that is behind must not bring that nearer, so the store's
// own clock counts where it is ahead.
func (s *Store) estimatedEnd(now time.Time) time.Time {
	if vouched := s.Clock(now).Vouched; vouched.After(now) {
		now = vouched
	}
	return now.Add(estimatedLife)
}

// A Create is one that its holder may send to Upstream, which is not always the one that it asked for.
type Create struct {
	Owner
	token string // tells it from any other of the bill
}

// An Outcome is how a create ended.
type Outcome string

// The outcomes. Where two of them might fit, Unknown does.
const (
	Succeeded Outcome = "succeeded" // the upstream said so
	Refused   Outcome = "refused"   // it said that it did not take the bill, and why, but not that the id is taken
	Taken     Outcome = "taken"     // it said that it has a bill of that id, by whomever (BILL_001)
	NotSent   Outcome = "not sent"  // certainly not a byte of it left
	Unknown   Outcome = "unknown"
)

// Own notes, before it is sent, that a create of a bill is on its way, and says where it must go: to upstream if
// nobody has the bill, else to the one that the row names. All creates of one id go to one backend, whichever replicas
// they come through, and that side answers them.
//
// The bill is over at until. If that is zero or not after now (an upstream may take an end like 0001-01-01 for none), the
// end is estimated: a year from now. Of several creates the last end counts.
//
// now is when the create arrived. If a caller was told since then that there is no such bill (see Deny), the error is ErrDenied.
//
// After an error nothing may be sent, and there is nothing to settle. If the error came late, a create that nobody
// will settle is open: then the bill stays where it is, which loses nothing.
func (s *Store) Own(ctx context.Context, partner partner.ID, bill, upstream string, now, until time.Time) (Create, error) {
	if err := ownable(partner, bill, upstream, now); err != nil {
		return Create{}, err
	}
	estimated := !until.After(now)
	if estimated {
		until = s.estimatedEnd(now)
	}
	now = s.stamp(now)
	token := newCreate()
	r, err := write(ctx, s, "noting the owner of a bill", func(ctx context.Context, q queries) (r ruling, err error) {
		// Nearly every create is of a new bill: for that, nothing need be read back, which SQLite is slow at.
		result, err := q.ExecContext(ctx, `
			INSERT INTO billbridge_owners (partner, bill, upstream, state, creates, uncertain, changed, tried, ends, estimated)
			VALUES ($1, $2, $3, 'pending', $4, 0, $5, $5, $6, $7) ON CONFLICT (partner, bill) DO NOTHING`,
			partner, bill, upstream, token, now.UnixMilli(), until.UnixMilli(), bit(estimated))
		if err != nil {
			return r, err
		}
		if inserted, err := result.RowsAffected(); err != nil || inserted == 1 {
			r.owner = Owner{Partner: partner, Bill: bill, Upstream: upstream, State: Pending, Open: 1, Changed: asStored(now), Tried: asStored(now), Ends: asStored(until)}
			return r, err
		}
		// The whole again, for a row that was there may be gone by now. In one statement: what it finds, another replica
		// cannot change before it has written.
		r.owner, err = scanOwner(q.QueryRowContext(ctx, `
			INSERT INTO billbridge_owners AS was (partner, bill, upstream, state, creates, uncertain, changed, tried, ends, estimated)
			VALUES ($1, $2, $3, 'pending', $4, 0, $5, $5, $6, $7)
			ON CONFLICT (partner, bill) DO UPDATE SET
				upstream = CASE was.state WHEN 'released' THEN excluded.upstream ELSE was.upstream END,
				state = CASE was.state WHEN 'released' THEN 'pending' ELSE was.state END,
				creates = was.creates || excluded.creates,
				changed = CASE was.state WHEN 'released' THEN excluded.changed ELSE was.changed END,
				tried = CASE WHEN was.tried > excluded.tried AND was.tried < $8 THEN was.tried ELSE excluded.tried END,
				ends = CASE WHEN was.ends < excluded.ends THEN excluded.ends ELSE was.ends END,
				estimated = CASE WHEN was.ends < excluded.ends THEN excluded.estimated ELSE was.estimated END
			WHERE was.state = 'owned' OR was.denied IS NULL OR was.denied < excluded.tried OR was.denied > $8
			RETURNING `+ownerColumns, partner, bill, upstream, token, now.UnixMilli(), until.UnixMilli(), bit(estimated), now.Add(deniedFor).UnixMilli()), partner, bill)
		if errors.Is(err, sql.ErrNoRows) {
			r.refusal, err = ErrDenied, nil
		}
		return r, err
	})
	if err == nil {
		err = r.refusal
	}
	if err != nil {
		return Create{}, err
	}
	return Create{r.owner, token}, nil
}

// deniedFor is how long after its arrival a create may be on its way to the ledger. A denial that seems to come later was
// recorded by a clock that was wrong.
const deniedFor = 10 * time.Minute

// Complete notes how a create ended, once: a second time is an error and changes nothing, so that whoever had an error
// may try again. One that is never settled is taken for one that may have taken effect.
//
// A success makes the bill owned even where the row does not know of the create any more, unless it names another
// upstream by now: then it is ErrOtherOwner, and the bill is at both.
func (s *Store) Complete(ctx context.Context, c Create, outcome Outcome, now time.Time) (Owner, error) {
	if c.token == "" || now.IsZero() {
		return Owner{}, errors.New("store: only a create that came from Own can be settled, at a time")
	}
	statement, args, err := c.completion(outcome, now)
	if err != nil {
		return Owner{}, err
	}
	end := s.estimatedEnd(now)
	r, err := write(ctx, s, "noting how a create ended", func(ctx context.Context, q queries) (r ruling, err error) {
		if outcome == Succeeded && c.State == Pending && c.Open == 1 {
			var done bool
			if r.owner, done, err = c.succeedAlone(ctx, q, now); err != nil || done {
				return r, err
			}
		}
		r.owner, err = scanOwner(q.QueryRowContext(ctx, statement, args...), c.Partner, c.Bill)
		if !errors.Is(err, sql.ErrNoRows) {
			return r, err
		}
		if outcome == Succeeded {
			return found(ctx, q, c.Partner, c.Bill, c.Upstream, now, end)
		}
		r.refusal = errNotOpen
		if r.owner, err = owner(ctx, q, c.Partner, c.Bill); errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return r, err
	})
	if err == nil {
		err = r.refusal
	}
	return r.owner, err
}

// completion is the statement by which the create is not open any more and has had its outcome.
func (c Create) completion(outcome Outcome, now time.Time) (statement string, args []any, err error) {
	// This was the last that could have taken effect, and it did not.
	const over = "state = 'pending' AND uncertain = 0 AND creates = $3"
	// A bill that ended before this create arrived may be another bill of the same id from now on.
	const reopened = "ended = CASE WHEN ended < tried THEN NULL ELSE ended END"
	var change, where string
	args = []any{c.Partner, c.Bill, c.token, now.UnixMilli()}
	switch outcome {
	case Succeeded:
		change = "state = 'owned', changed = CASE state WHEN 'owned' THEN changed ELSE $4 END, " + reopened
		where, args = "AND upstream = $5", append(args, c.Upstream)
	case Refused, NotSent:
		change = `state = CASE WHEN ` + over + ` THEN 'released' ELSE state END,
			changed = CASE WHEN ` + over + ` THEN $4 ELSE changed END,
			ends = CASE WHEN ` + over + ` THEN 0 ELSE ends END` // it says no more than no row would: the next sweep takes it
	case Unknown, Taken:
		change, args = "uncertain = 1, "+reopened, args[:3]
	default:
		return "", nil, fmt.Errorf("store: a create cannot end as %q", outcome)
	}
	return `
		UPDATE billbridge_owners SET creates = replace(creates, $3, ''), ` + change + `
		WHERE partner = $1 AND bill = $2 AND replace(creates, $3, '') <> creates ` + where + `
		RETURNING ` + ownerColumns, args, nil
}

// succeedAlone completes a create that is the only one of its bill and succeeded, as nearly every create does, if its row is as
// it was: then nothing need be read back, which SQLite is slow at.
func (c Create) succeedAlone(ctx context.Context, q queries, now time.Time) (o Owner, done bool, err error) {
	result, err := q.ExecContext(ctx, `
		UPDATE billbridge_owners SET creates = '', state = 'owned', changed = $4
		WHERE partner = $1 AND bill = $2 AND creates = $3 AND state = 'pending' AND uncertain = 0 AND ends = $5 AND tried = $6`,
		c.Partner, c.Bill, c.token, now.UnixMilli(), c.Ends.UnixMilli(), c.Tried.UnixMilli())
	if err != nil {
		return Owner{}, false, err
	}
	changed, err := result.RowsAffected()
	if err != nil || changed != 1 {
		return Owner{}, false, err
	}
	o = c.Owner
	o.State, o.Open, o.Changed = Owned, 0, asStored(now)
	return o, true, nil
}

// Deny records that a caller, whose call arrived at now, is about to be told that there is no such bill: a create that arrived
// until then, and is not recorded yet, is refused by Own, so that the bill is not made after all. If a create of the bill is under way,
// or has an unknown outcome, and arrived after since, nothing changes: the row comes with ErrMaking, and the caller must
// not be told so. One that seems to come from the future was recorded by a clock that was wrong, and is old. An owned bill is its upstream's to answer for: nothing changes.
func (s *Store) Deny(ctx context.Context, partner partner.ID, bill string, now, since time.Time) (Owner, error) {
	if !partner.IsFull() || now.IsZero() {
		return Owner{}, fmt.Errorf("store: denying a bill needs the full hash of a partner and a time, not %q and %s", partner, now.Format(time.RFC3339))
	}
	if bill == "" || len(bill) > billAtMost || storable(map[string]string{"bill": bill}) != nil {
		return Owner{}, ErrBill
	}
	now, since = s.stamp(now), s.stamp(since)
	r, err := write(ctx, s, "recording that there is no such bill", func(ctx context.Context, q queries) (r ruling, err error) {
		r.owner, err = scanOwner(q.QueryRowContext(ctx, `
			INSERT INTO billbridge_owners AS was (partner, bill, upstream, state, creates, uncertain, changed, ends, denied)
			VALUES ($1, $2, '', 'released', '', 0, $3, 0, $3)
			ON CONFLICT (partner, bill) DO UPDATE SET denied = excluded.denied
			WHERE was.state = 'released' OR was.state = 'pending' AND (coalesce(was.tried, was.changed) <= $4 OR coalesce(was.tried, was.changed) > $5)
			RETURNING `+ownerColumns, partner, bill, now.UnixMilli(), since.UnixMilli(), now.Add(deniedFor).UnixMilli()), partner, bill)
		if !errors.Is(err, sql.ErrNoRows) {
			return r, err
		}
		if r.owner, err = owner(ctx, q, partner, bill); err == nil && r.owner.State == Pending {
			r.refusal = ErrMaking
		}
		return r, err
	})
	if err == nil {
		err = r.refusal
	}
	return r.owner, err
}

// Found notes that an upstream has a bill, because it showed it. Its end is estimated. If the row says
// that the bill is at another one, or may be, it stays as it is and comes with ErrOtherOwner. A row that was pending when the store was declared restored from
// a backup says neither: it may have been released since the backup, and the bill made at the upstream that shows it.
func (s *Store) Found(ctx context.Context, partner partner.ID, bill, upstream string, now time.Time) (Owner, error) {
	if err := ownable(partner, bill, upstream, now); err != nil {
		return Owner{}, err
	}
	// Most of what is read is known to be there, and stays there: that is worth no wait for the disk.
	if known, err := s.Owner(ctx, partner, bill); err == nil && known.State == Owned && known.Upstream == upstream {
		return known, nil
	}
	end := s.estimatedEnd(now)
	r, err := write(ctx, s, "noting where a bill was found", func(ctx context.Context, q queries) (ruling, error) {
		return found(ctx, q, partner, bill, upstream, now, end)
	})
	if err == nil {
		err = r.refusal
	}
	return r.owner, err
}

// A ruling is a row, and why it stayed as it was. That is a value because an error would undo what others wrote in the
// same transaction.
type ruling struct {
	owner   Owner
	refusal error
}

func found(ctx context.Context, q queries, partner partner.ID, bill, upstream string, now, end time.Time) (r ruling, err error) {
	r.owner, err = scanOwner(q.QueryRowContext(ctx, `
		INSERT INTO billbridge_owners AS was (partner, bill, upstream, state, creates, uncertain, changed, tried, ends, estimated)
		VALUES ($1, $2, $3, 'owned', '', 0, $4, $4, $5, 1)
		ON CONFLICT (partner, bill) DO UPDATE SET
			upstream = excluded.upstream, state = 'owned',
			changed = CASE was.state WHEN 'owned' THEN was.changed ELSE excluded.changed END,
			ends = CASE was.state WHEN 'released' THEN excluded.ends ELSE was.ends END,
			estimated = CASE was.state WHEN 'released' THEN 1 ELSE was.estimated END
		WHERE was.state = 'released' OR was.upstream = excluded.upstream
			OR was.state = 'pending' AND was.changed <= (SELECT restored FROM billbridge_rollout)
		RETURNING `+ownerColumns, partner, bill, upstream, now.UnixMilli(), end.UnixMilli()), partner, bill)
	if errors.Is(err, sql.ErrNoRows) {
		r.refusal = ErrOtherOwner
		r.owner, err = owner(ctx, q, partner, bill)
	}
	return r, err
}

// Owner returns the row of a bill, or ErrNotFound.
func (s *Store) Owner(ctx context.Context, partner partner.ID, bill string) (Owner, error) {
	if storable(map[string]string{"partner": string(partner), "bill": bill}) != nil {
		return Owner{}, ErrNotFound
	}
	return read(ctx, s, "reading the owner of a bill", func(ctx context.Context, q queries) (Owner, error) {
		o := Owner{Partner: partner, Bill: bill}
		err := o.scan(q.QueryRowContext(ctx, `
			SELECT `+ownerColumns+`, EXISTS (SELECT 1 FROM billbridge_unknown WHERE partner = $1 AND bill = $2)
			FROM billbridge_owners WHERE partner = $1 AND bill = $2`, partner, bill), &o.Unknown)
		if errors.Is(err, sql.ErrNoRows) {
			o = Owner{}
			if err = q.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM billbridge_unknown WHERE partner = $1 AND bill = $2)", partner, bill).Scan(&o.Unknown); err == nil {
				err = ErrNotFound
			}
		}
		return o, err
	})
}

func owner(ctx context.Context, q queries, partner partner.ID, bill string) (Owner, error) {
	return scanOwner(q.QueryRowContext(ctx, `
		SELECT `+ownerColumns+` FROM billbridge_owners WHERE partner = $1 AND bill = $2`, partner, bill), partner, bill)
}

// billAtMost is how many bytes of an id an index of PostgreSQL holds without trouble. No documented id comes near it.
const billAtMost = 1000

// ownable refuses what could not be kept, or not found again.
func ownable(partner partner.ID, bill, upstream string, now time.Time) error {
	if !partner.IsFull() || upstream == "" || now.IsZero() {
		return fmt.Errorf("store: the owner of a bill needs the full hash of a partner, an upstream and a time, not %q, %q and %s",
			partner, upstream, now.Format(time.RFC3339))
	}
	if bill == "" || len(bill) > billAtMost || storable(map[string]string{"bill": bill}) != nil {
		return ErrBill
	}
	return storable(map[string]string{"upstream": upstream})
}

const createLength = 16 + 1 // of a token

// newCreate is the token of a create. The blank keeps one from being found across two others.
func newCreate() string {
	var token [8]byte
	_, _ = rand.Read(token[:]) // never fails
	return hex.EncodeToString(token[:]) + " "
}

const ownerColumns = "upstream, state, length(creates), uncertain, changed, coalesce(tried, changed), ends, ended"

func scanOwner(row *sql.Row, partner partner.ID, bill string) (Owner, error) {
	o := Owner{Partner: partner, Bill: bill}
	if err := o.scan(row); err != nil {
		return Owner{}, err
	}
	return o, nil
}

// scan reads ownerColumns, and what the query has after them.
func (o *Owner) scan(row interface{ Scan(...any) error }, more ...any) error {
	var length int
	to := append([]any{&o.Upstream, &o.State, &length, &o.Uncertain, moment{&o.Changed}, moment{&o.Tried}, moment{&o.Ends}, moment{&o.Ended}}, more...)
	if err := row.Scan(to...); err != nil {
		return err
	}
	o.Open = length / createLength
	return nil
}
