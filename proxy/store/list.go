package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/partner"
)

// ErrFilter: a Filter asks for what cannot be; the error's text says what.
var ErrFilter = errors.New("store: wrong filter")

// A Filter says which callbacks are meant. A field with its zero value excludes none.
type Filter struct {
	State         State
	PartnerPrefix partner.ID // full or abbreviated; ErrAmbiguous if it fits two partners
	Bill          string
	Upstream      string
	Since         time.Time // received then or later
	Until         time.Time // received before
	Limit         int       // at most so many; 0 means 100 for List, and all for Count, Replay and Drop
	After         int64     // for List: only those that follow the callback with this Cursor on the page before
}

const pageOf = 100 // what List returns when the filter names no limit

// List returns callbacks without their bodies, the last accepted first.
func (s *Store) List(ctx context.Context, f Filter) ([]Callback, error) {
	where, args, err := f.where()
	if err != nil {
		return nil, err
	}
	if f.After != 0 {
		args = append(args, f.After)
		where += fmt.Sprintf(" AND seq < $%d", len(args))
	}
	if f.Limit == 0 {
		f.Limit = pageOf
	}
	args = append(args, f.Limit)
	return read(ctx, s, "listing callbacks", func(ctx context.Context, q queries) ([]Callback, error) {
		if err := f.onePartner(ctx, q); err != nil {
			return nil, err
		}
		rows, err := q.QueryContext(ctx, fmt.Sprintf(`
			SELECT %s FROM billbridge_callbacks WHERE %s ORDER BY seq DESC LIMIT $%d`, columns, where, len(args)), args...)
		return collect(rows, err, func(c *Callback, row *sql.Rows) (err error) {
			*c, err = scan(row)
			return err
		})
	})
}

// Count returns how many callbacks the filter means.
func (s *Store) Count(ctx context.Context, f Filter) (int, error) {
	where, args, err := f.where()
	if err != nil {
		return 0, err
	}
	query := "SELECT seq FROM billbridge_callbacks WHERE " + where
	if f.Limit > 0 {
		args = append(args, f.Limit)
		query += fmt.Sprintf(" LIMIT $%d", len(args))
	}
	return read(ctx, s, "counting callbacks", func(ctx context.Context, q queries) (n int, err error) {
		if err := f.onePartner(ctx, q); err != nil {
			return 0, err
		}
		err = q.QueryRowContext(ctx, "SELECT count(*) FROM ("+query+") AS meant", args...).Scan(&n)
		return n, err
	})
}

// Get returns the callback with an id, body and all, or ErrNotFound.
func (s *Store) Get(ctx context.Context, id string) (Callback, error) {
	if storable(map[string]string{"id": id}) != nil {
		return Callback{}, ErrNotFound
	}
	return read(ctx, s, "reading a callback", func(ctx context.Context, q queries) (Callback, error) {
		var body []byte
		c, err := scan(q.QueryRowContext(ctx, "SELECT "+columnsAndBody+" FROM billbridge_callbacks WHERE id = $1", id), &body)
		if errors.Is(err, sql.ErrNoRows) {
			err = ErrNotFound
		}
		c.Body = body
		return c, err
	})
}

// A decision is what the operator makes of a callback. set takes $1, the time of the decision, and ends every lease.
type decision struct {
	action Action
	to     State
	set    string
}

var (
	revive  = decision{CallbackReplayed, Waiting, "state = 'waiting', attempts = 0, next = $1, due = $1, lease = '', done = NULL"}
	discard = decision{CallbackDropped, Dropped, "state = 'dropped', next = $1, due = $1, lease = '', done = $1"}
)

// Replay has the dead callbacks that the filter means delivered after all, from now on and under the ids they have,
// and returns how many those are. by is who decides, for the audit log. It works in batches, each with an entry there: after an
// error, n of them have been changed already. After each batch it calls progress, which may be nil, with their number so far. Nobody waits for progress but Replay.
//
// A callback that is replayed has the place in its order that it always had. It waits for an attempt under way at a
// later one, and then goes before all later ones that are still waiting.
func (s *Store) Replay(ctx context.Context, f Filter, by string, now time.Time, progress func(done int)) (n int, err error) {
	return s.decide(ctx, f, revive, by, now, progress)
}

// Drop gives up for good on the dead callbacks that the filter means, and returns how many those are. It works in
// batches and calls progress, as Replay does.
func (s *Store) Drop(ctx context.Context, f Filter, by string, now time.Time, progress func(done int)) (n int, err error) {
	return s.decide(ctx, f, discard, by, now, progress)
}

// ReplayOne has one dead or delivered callback delivered again, in its place as Replay does: what follows it in its
// order and was not delivered yet comes after it, even if attempts at that were made. It returns ErrNotFound if there
// is none with that id, and ErrState if it is in another state.
func (s *Store) ReplayOne(ctx context.Context, id, by string, now time.Time) error {
	return s.decideOne(ctx, id, revive, by, now, Dead, Delivered)
}

// DropOne gives up for good on one dead callback; errors as for ReplayOne.
func (s *Store) DropOne(ctx context.Context, id, by string, now time.Time) error {
	return s.decideOne(ctx, id, discard, by, now, Dead)
}

func (s *Store) decide(ctx context.Context, f Filter, d decision, by string, now time.Time, progress func(done int)) (n int, err error) {
	if f.State != "" && f.State != Dead {
		return 0, fmt.Errorf("%w: only dead callbacks can be replayed or dropped together, not %s ones", ErrFilter, f.State)
	}
	if err := checkDecision(by, now); err != nil {
		return 0, err
	}
	f.State = Dead
	// Each batch goes on where the one before ended: what dies again meanwhile is not taken twice.
	for from := int64(0); ; {
		batch := s.batch
		if f.Limit > 0 {
			batch = min(batch, f.Limit-n)
		}
		where, args, err := f.where(now.UnixMilli())
		if err != nil || batch <= 0 {
			return n, err
		}
		args = append(args, from, batch)
		statement := fmt.Sprintf(`
			UPDATE billbridge_callbacks SET %s WHERE seq IN (
				SELECT seq FROM billbridge_callbacks WHERE %s AND seq > $%d ORDER BY seq LIMIT $%d %s
			) RETURNING seq`, d.set, where, len(args)-1, len(args), s.passOver())
		changed, err := write(ctx, s, "changing callbacks", func(ctx context.Context, q queries) (changed []int64, err error) {
			if err := s.betweenClaims(ctx, q); err != nil {
				return nil, err
			}
			if err := f.onePartner(ctx, q); err != nil {
				return nil, err
			}
			changed, err = numbers(ctx, q, statement, args...)
			if err == nil && len(changed) > 0 {
				err = audited(ctx, q, Change{
					Action: d.action, By: by, At: now, Partner: f.PartnerPrefix, Subject: callbacksIn(len(changed)) + ", " + f.words(),
					From: string(Dead), To: string(d.to),
				})
			}
			return changed, err
		})
		if err != nil {
			return n, err
		}
		n += len(changed)
		for _, seq := range changed {
			from = max(from, seq)
		}
		if progress != nil && len(changed) > 0 {
			progress(n)
		}
		if len(changed) < batch {
			return n, nil
		}
	}
}

func (s *Store) decideOne(ctx context.Context, id string, d decision, by string, now time.Time, states ...State) error {
	if err := checkDecision(by, now); err != nil {
		return err
	}
	if storable(map[string]string{"id": id}) != nil {
		return ErrNotFound
	}
	// What was found comes back as a value: an error would undo what others wrote in the same transaction.
	refusal, err := write(ctx, s, "changing a callback", func(ctx context.Context, q queries) (refusal, err error) {
		if err := s.betweenClaims(ctx, q); err != nil {
			return nil, err
		}
		c := Change{Action: d.action, By: by, At: now, Subject: id, To: string(d.to)}
		err = q.QueryRowContext(ctx, "SELECT partner, state FROM billbridge_callbacks WHERE id = $1", id).Scan(&c.Partner, &c.From)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return ErrNotFound, nil
		case err != nil:
			return nil, err
		case !slices.Contains(states, State(c.From)):
			return ErrState, nil
		}
		// The state again: an attempt may have ended since.
		changed, err := numbers(ctx, q, "UPDATE billbridge_callbacks SET "+d.set+" WHERE id = $2 AND state = $3 RETURNING seq", now.UnixMilli(), id, c.From)
		if err == nil && len(changed) == 0 {
			return ErrState, nil
		}
		if err == nil {
			err = audited(ctx, q, c)
		}
		return nil, err
	})
	if err != nil {
		return err
	}
	return refusal
}

// betweenClaims keeps other replicas from claiming until the transaction ends, and waits for those that do. Of a claim
// under way another replica would not see that it holds a later callback, and would take the one replayed beside it.
func (s *Store) betweenClaims(ctx context.Context, q queries) error { return s.lock(ctx, q, claims) }

// passOver makes a PostgreSQL query leave out rows that another transaction holds, so that none waits for another.
func (s *Store) passOver() string {
	if s.postgres {
		return "FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// where is the condition of a filter, its arguments after those given.
func (f Filter) where(args ...any) (string, []any, error) {
	conditions := []string{"true"}
	add := func(condition string, arg any) {
		args = append(args, arg)
		conditions = append(conditions, fmt.Sprintf(condition, len(args)))
	}
	switch f.State {
	case "":
	case Waiting, Delivered, Dead, Dropped:
		conditions = append(conditions, "state = '"+string(f.State)+"'") // spelled out, for the partial indices
	default:
		return "", nil, fmt.Errorf("%w: there is no state %q", ErrFilter, f.State)
	}
	if f.Limit < 0 {
		return "", nil, fmt.Errorf("%w: the limit is %d", ErrFilter, f.Limit)
	}
	if err := storable(map[string]string{"bill": f.Bill, "upstream": f.Upstream}); err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrFilter, err)
	}
	if f.PartnerPrefix != "" {
		if err := checkPrefix(f.PartnerPrefix); err != nil {
			return "", nil, err
		}
		add("partner >= $%d", f.PartnerPrefix)
		add("partner < $%d", beyond(f.PartnerPrefix))
	}
	if f.Bill != "" {
		add("bill = $%d", f.Bill)
	}
	if f.Upstream != "" {
		add("upstream = $%d", f.Upstream)
	}
	if !f.Since.IsZero() {
		add("received >= $%d", f.Since.UnixMilli())
	}
	if !f.Until.IsZero() {
		add("received < $%d", f.Until.UnixMilli())
	}
	return strings.Join(conditions, " AND "), args, nil
}

func callbacksIn(n int) string {
	if n == 1 {
		return "1 callback"
	}
	return fmt.Sprintf("%d callbacks", n)
}

// words are what a filter asks for beside the state and the partner, for the audit log.
func (f Filter) words() string {
	words := []string{"all"}
	add := func(name string, value any) { words = append(words, fmt.Sprintf("%s %v", name, value)) }
	if f.Bill != "" {
		add("bill", f.Bill)
	}
	if f.Upstream != "" {
		add("upstream", f.Upstream)
	}
	if !f.Since.IsZero() {
		add("since", f.Since.Format(time.RFC3339))
	}
	if !f.Until.IsZero() {
		add("until", f.Until.Format(time.RFC3339))
	}
	if f.Limit > 0 {
		add("at most", f.Limit)
	}
	if len(words) > 1 {
		words = words[1:]
	}
	return strings.Join(words, ", ")
}

// beyond is greater than every ID that begins with prefix, and smaller than any other greater one: g follows f.
func beyond(prefix partner.ID) partner.ID { return prefix + "g" }

func checkPrefix(prefix partner.ID) error {
	if !prefix.IsPrefix() {
		return fmt.Errorf("%w: a partner is named by at least 12 lower-case hex digits, not %q", ErrFilter, prefix)
	}
	return nil
}

func (f Filter) onePartner(ctx context.Context, q queries) error {
	return onePartner(ctx, q, "billbridge_callbacks", f.PartnerPrefix)
}

// onePartner returns ErrAmbiguous if the rows of two partners in a table fit an abbreviated ID.
func onePartner(ctx context.Context, q queries, table string, prefix partner.ID) error {
	if prefix == "" {
		return nil
	}
	var first, last sql.NullString // the ends of the index: not every row between them is read
	err := q.QueryRowContext(ctx, `
		SELECT (SELECT min(partner) FROM `+table+` WHERE partner >= $1 AND partner < $2),
			(SELECT max(partner) FROM `+table+` WHERE partner >= $1 AND partner < $2)`,
		prefix, beyond(prefix)).Scan(&first, &last)
	if err == nil && first != last {
		err = ErrAmbiguous
	}
	return err
}

// numbers returns the one column of a query.
func numbers(ctx context.Context, q queries, query string, args ...any) ([]int64, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	return collect(rows, err, column[int64])
}
