package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/partner"
)

// ErrFilter: a Filter is wrong; the error says why.
var ErrFilter = errors.New("store: wrong filter")

// A Filter selects callbacks. A field with its zero value excludes none.
type Filter struct {
	State         State
	PartnerPrefix partner.ID // full or abbreviated; ErrAmbiguous if it fits two partners
	Bill          string
	Upstream      string
	Since         time.Time // received then or later
	Until         time.Time // received before
	Limit         int       // at most so many; 0 means 100 for List, and all for Count, Replay and Drop
	After         int64     // for List: only those after the callback with this Cursor, the last of the page before
}

const pageOf = 100 // the limit of List if the filter has none

// List returns callbacks without their bodies, the last accepted first.
func (s *Store) List(ctx context.Context, f Filter) (all []Callback, err error) {
	for limit := cmp.Or(f.Limit, pageOf); ; {
		f.Limit = limit - len(all)
		p, err := s.Page(ctx, f)
		if err != nil {
			return nil, err
		}
		if all = append(all, p.Callbacks...); p.Next == 0 || len(all) == limit {
			return all, nil
		}
		f.After = p.Next
	}
}

// Count returns the number of callbacks that a filter selects.
func (s *Store) Count(ctx context.Context, f Filter) (int, error) {
	where, args, err := f.where()
	if err != nil {
		return 0, err
	}
	if f.Limit > 0 {
		where += fmt.Sprintf(" LIMIT %d", f.Limit)
	}
	return read(ctx, s, "counting callbacks", func(q tx) (int, error) {
		if _, err := f.onePartner(q); err != nil {
			return 0, err
		}
		return value[int](q, `
			SELECT count(*) FROM (SELECT seq FROM billbridge_callbacks WHERE `+where+") AS meant", args...)
	})
}

// Get returns the callback with an id, with its body, or ErrNotFound.
func (s *Store) Get(ctx context.Context, id string) (Callback, error) {
	if storable("id", id) != nil {
		return Callback{}, ErrNotFound
	}
	return read(ctx, s, "reading a callback", func(q tx) (Callback, error) {
		var body []byte
		return s.scan(q.row("SELECT "+columnsAndBody+" FROM billbridge_callbacks WHERE id = $1", id), &body)
	})
}

// A decision is what an operator does with a callback. set takes $1, the time of the decision, and ends every lease.
type decision struct {
	action Action
	to     State
	set    string
}

var (
	revive = decision{CallbackReplayed, Waiting, "state = 'waiting', attempts = 0, next = $1, due = $1, lease " +
		"= '', done = NULL"}
	discard = decision{CallbackDropped, Dropped, "state = 'dropped', next = $1, due = $1, lease = '', done = $1"}
)

// Replay makes the dead callbacks that a filter selects Waiting again, due now and with the ids they have, and
// returns their number. by is who decides, for the audit log. It works in batches, each with an entry in the log:
// after an error, n callbacks have been changed. After each batch it calls progress, which may be nil, with the
// number so far.
//
// A replayed callback keeps its place in its order: it waits for an attempt under way at a later one, and is
// delivered before all later ones that are still waiting.
func (s *Store) Replay(
	ctx context.Context, f Filter, by string, now time.Time, progress func(done int),
) (n int, err error) {
	return s.decide(ctx, f, revive, by, now, progress)
}

// Drop makes the dead callbacks that a filter selects Dropped, and returns their number. It works in batches and
// calls progress as Replay does.
func (s *Store) Drop(
	ctx context.Context, f Filter, by string, now time.Time, progress func(done int),
) (n int, err error) {
	return s.decide(ctx, f, discard, by, now, progress)
}

// ReplayOne is Replay for one dead or delivered callback. It returns ErrNotFound if there is none with that id,
// ErrState if it is in another state, and ErrErased if its body was deleted.
func (s *Store) ReplayOne(ctx context.Context, id, by string, now time.Time) error {
	return s.decideOne(ctx, id, revive, by, now, Dead, Delivered)
}

// DropOne is Drop for one dead callback, with the errors of ReplayOne.
func (s *Store) DropOne(ctx context.Context, id, by string, now time.Time) error {
	return s.decideOne(ctx, id, discard, by, now, Dead)
}

func (s *Store) decide(
	ctx context.Context, f Filter, d decision, by string, now time.Time, progress func(done int),
) (n int, err error) {
	if f.State != "" && f.State != Dead {
		return 0, fmt.Errorf("%w: only dead callbacks can be replayed or dropped together, not %s ones",
			ErrFilter, f.State)
	}
	if err := checkDecision(by, now); err != nil {
		return 0, err
	}
	f.State = Dead
	// Each batch begins after the last callback of the one before: what fails again meanwhile is not changed twice.
	for from := int64(0); ; {
		batch := s.batch
		if f.Limit > 0 {
			batch = min(batch, f.Limit-n)
		}
		where, args, err := f.where(now)
		if err != nil || batch <= 0 {
			return n, err
		}
		args = append(args, from, batch)
		statement := fmt.Sprintf(`
			UPDATE billbridge_callbacks SET %s WHERE seq IN (
				SELECT seq FROM billbridge_callbacks WHERE %s AND seq > $%d ORDER BY seq LIMIT $%d %s
			) RETURNING seq`, d.set, where, len(args)-1, len(args), s.passOver())
		changed, err := write(ctx, s, "changing callbacks", func(q tx) (changed []int64, err error) {
			if err := s.betweenClaims(q); err != nil {
				return nil, err
			}
			if _, err := f.onePartner(q); err != nil {
				return nil, err
			}
			changed, err = numbers(q, statement, args...)
			if err == nil && len(changed) > 0 {
				err = audited(q, Change{
					Action: d.action, By: by, At: now, Partner: f.PartnerPrefix,
					Subject: callbacksIn(len(changed)) + ", " + f.words(),
					From:    string(Dead), To: string(d.to),
				})
			}
			return changed, err
		})
		if err != nil {
			return n, err
		}
		n += len(changed)
		from = slices.Max(append(changed, from))
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
	if storable("id", id) != nil {
		return ErrNotFound
	}
	return s.update(ctx, "changing a callback", func(q tx) error {
		if err := s.betweenClaims(q); err != nil {
			return err
		}
		c := Change{Action: d.action, By: by, At: now, Subject: id, To: string(d.to)}
		var erased bool
		err := q.row("SELECT partner, state, erased IS NOT NULL FROM billbridge_callbacks WHERE id = $1", id).
			Scan(&c.Partner, &c.From, &erased)
		switch {
		case errors.Is(err, ErrNotFound):
			return refused{ErrNotFound}
		case err != nil:
			return err
		case !slices.Contains(states, State(c.From)):
			return refused{ErrState}
		case erased && d.to == Waiting:
			return refused{ErrErased}
		}
		// The state is compared again: an attempt may have ended since, or a sweep may have deleted the body.
		n, err := q.exec(`
			UPDATE billbridge_callbacks SET `+d.set+" WHERE id = $2 AND state = $3 AND erased IS NULL", now, id, c.From)
		if err == nil && n == 0 {
			return refused{ErrState}
		}
		if err == nil {
			err = audited(q, c)
		}
		return err
	})
}

// betweenClaims waits for claims under way and keeps other replicas from claiming until the transaction ends.
// Otherwise another replica could claim a replayed callback without seeing that a later one of its order is being
// claimed.
func (s *Store) betweenClaims(q tx) error { return s.lock(q, claims) }

// passOver makes a PostgreSQL query skip rows that another transaction has locked.
func (s *Store) passOver() string {
	if s.postgres {
		return "FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// where is the condition of a filter, and its arguments after the given ones.
func (f Filter) where(args ...any) (string, []any, error) {
	conditions := []string{"true"}
	add := func(condition string, arg any) {
		args = append(args, arg)
		conditions = append(conditions, fmt.Sprintf(condition, len(args)))
	}
	switch f.State {
	case "":
	case Waiting, Delivered, Dead, Dropped:
		conditions = append(conditions, "state = '"+string(f.State)+"'") // not an argument, for the partial indices
	default:
		return "", nil, fmt.Errorf("%w: there is no state %q", ErrFilter, f.State)
	}
	if f.Limit < 0 {
		return "", nil, fmt.Errorf("%w: the limit is %d", ErrFilter, f.Limit)
	}
	if err := storable("bill", f.Bill, "upstream", f.Upstream); err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrFilter, err)
	}
	if f.PartnerPrefix != "" {
		if err := checkPrefix(f.PartnerPrefix); err != nil {
			return "", nil, err
		}
		add("partner >= $%d", f.PartnerPrefix)
		add("partner < $%d", beyond(f.PartnerPrefix))
	}
	for _, part := range f.parts() {
		add(part.condition, part.value)
	}
	return strings.Join(conditions, " AND "), args, nil
}

// A part of a filter is compared with one column.
type part struct {
	name, condition string
	value           any
}

func (f Filter) parts() []part {
	return slices.DeleteFunc([]part{
		{"bill", "bill = $%d", f.Bill},
		{"upstream", "upstream = $%d", f.Upstream},
		{"since", "received >= $%d", f.Since},
		{"until", "received < $%d", f.Until},
	}, func(p part) bool { return p.value == "" || p.value == any(time.Time{}) })
}

func callbacksIn(n int) string {
	if n == 1 {
		return "1 callback"
	}
	return fmt.Sprintf("%d callbacks", n)
}

// words describe a filter, except its state and partner, for the audit log.
func (f Filter) words() string {
	var words []string
	for _, part := range f.parts() {
		if at, ok := part.value.(time.Time); ok {
			part.value = at.Format(time.RFC3339)
		}
		words = append(words, fmt.Sprintf("%s %v", part.name, part.value))
	}
	if f.Limit > 0 {
		words = append(words, fmt.Sprintf("at most %d", f.Limit))
	}
	return cmp.Or(strings.Join(words, ", "), "all")
}

// beyond is the end of the range of IDs that begin with prefix: g follows f, the last hex digit.
func beyond(prefix partner.ID) partner.ID { return prefix + "g" }

func checkPrefix(prefix partner.ID) error {
	if !prefix.IsPrefix() {
		// The text may be a key, and is not repeated.
		return fmt.Errorf("%w: a partner is named by 12 to 64 lower-case hex digits of the SHA-256 of its key",
			ErrFilter)
	}
	return nil
}

func (f Filter) onePartner(q tx) (partner.ID, error) {
	return onePartner(q, "billbridge_callbacks", f.PartnerPrefix)
}

// onePartner returns the partner of the rows in a table that an abbreviated ID fits, and "" if there is none or
// prefix is "". If the rows of two partners fit it, the error is ErrAmbiguous.
func onePartner(q tx, table string, prefix partner.ID) (partner.ID, error) {
	if prefix == "" {
		return "", nil
	}
	var first, last partner.ID // min and max read two entries of the index, not all rows between
	err := q.row(`
		SELECT coalesce((SELECT min(partner) FROM `+table+` WHERE partner >= $1 AND partner < $2), ''),
			coalesce((SELECT max(partner) FROM `+table+` WHERE partner >= $1 AND partner < $2), '')`,
		prefix, beyond(prefix)).Scan(&first, &last)
	if err == nil && first != last {
		err = ErrAmbiguous
	}
	return first, err
}

// numbers returns the one column of a query.
func numbers(q tx, query string, args ...any) ([]int64, error) {
	return list(q, column[int64], query, args...)
}
