package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"billbridge/proxy/partner"
)

// bounds are those of the rows that one page reads, so that it takes milliseconds however many callbacks there are.
type bounds struct {
	examined int // in the order of acceptance
	few      int // of one partner, or waiting: these are read and sorted
}

var pageBounds = bounds{examined: 20_000, few: 2_000}

// clockSlack is more than the clocks of gateways that share a store differ.
const clockSlack = time.Hour

// A Page is a part of a list.
type Page struct {
	Callbacks []Callback
	Next      int64 // for Filter.After of the next page; 0 if there are no more
}

// Page returns callbacks like List, and reads a bounded number of rows. A page can have fewer callbacks than Limit, or none, although
// there are more: then Next is not 0.
func (s *Store) Page(ctx context.Context, f Filter) (Page, error) {
	return s.pageWithin(ctx, f, pageBounds)
}

func (s *Store) pageWithin(ctx context.Context, f Filter, b bounds) (Page, error) {
	if f.Limit == 0 {
		f.Limit = pageOf
	}
	where, args, err := f.where()
	if err != nil {
		return Page{}, err
	}
	return read(ctx, s, "listing callbacks", func(ctx context.Context, q queries) (Page, error) {
		if f.PartnerPrefix != "" {
			full, err := fullPartner(ctx, q, f.PartnerPrefix)
			if full == "" || err != nil {
				return Page{}, err
			}
			f.PartnerPrefix = full
		}
		return s.page(ctx, q, f, b, where, args)
	})
}

// page reads the candidates in the cheapest way that has a bound, and of these the callbacks that the filter selects.
func (s *Store) page(ctx context.Context, q queries, f Filter, b bounds, where string, args []any) (p Page, err error) {
	before, err := s.before(ctx, q, f)
	if err != nil {
		return p, err
	}
	few, more, err := s.fewCandidates(ctx, q, f, before, b)
	if err != nil {
		return p, err
	}
	if few != nil {
		for part := range slices.Chunk(few, 500) {
			found, err := s.selected(ctx, q, s.index("NOT INDEXED"), fmt.Sprintf("seq IN (%s) AND %s", commaSeparated(part), where), args, f.Limit+1-len(p.Callbacks))
			if err != nil {
				return p, err
			}
			if p.Callbacks = append(p.Callbacks, found...); len(p.Callbacks) > f.Limit {
				break
			}
		}
		if more {
			p.Next = few[len(few)-1]
		}
	} else {
		condition, of, index := s.candidates(f)
		if p.Next, err = last(ctx, q, condition, of, before, b.examined); err != nil {
			return p, err
		}
		if p.Callbacks, err = s.selected(ctx, q, index, fmt.Sprintf("seq >= %d AND seq < %d AND %s", p.Next, before, where), args, f.Limit+1); err != nil {
			return p, err
		}
	}
	if len(p.Callbacks) > f.Limit {
		p.Callbacks = p.Callbacks[:f.Limit]
		p.Next = p.Callbacks[f.Limit-1].Cursor
	}
	return p, s.endAtSince(ctx, q, f, &p)
}

// endAtSince ends the list if all older callbacks were received before f.Since.
func (s *Store) endAtSince(ctx context.Context, q queries, f Filter, p *Page) error {
	if p.Next == 0 || f.Since.IsZero() {
		return nil
	}
	at, err := receivedAt(ctx, q, p.Next)
	if at.Before(f.Since.Add(-clockSlack)) {
		p.Next = 0
	}
	return err
}

// selected returns the callbacks that a condition selects, the last accepted first.
func (s *Store) selected(ctx context.Context, q queries, index, where string, args []any, limit int) ([]Callback, error) {
	rows, err := q.QueryContext(ctx, fmt.Sprintf(`SELECT %s FROM billbridge_callbacks %s WHERE %s ORDER BY seq DESC LIMIT %d`, columns, index, where, limit), args...)
	return collect(rows, err, func(c *Callback, row *sql.Rows) (err error) {
		*c, err = s.scan(row, nil)
		return err
	})
}

// index makes an SQLite query use an index, or none: it knows no statistics, and may choose one that reads more rows.
func (s *Store) index(clause string) string {
	if s.postgres {
		return ""
	}
	return clause
}

func commaSeparated(numbers []int64) string {
	var list []byte
	for i, n := range numbers {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, n, 10)
	}
	return string(list)
}

// candidates returns the condition of callbacks that are read in their order, its arguments, and the index for them.
func (s *Store) candidates(f Filter) (condition string, args []any, index string) {
	switch {
	case f.State == Dead:
		return "state = 'dead'", nil, s.index("INDEXED BY billbridge_callbacks_dead")
	case f.Upstream != "":
		return "upstream = $1", []any{f.Upstream}, s.index("INDEXED BY billbridge_callbacks_upstream")
	}
	return "true", nil, s.index("NOT INDEXED")
}

// last returns the seq of the last candidate that a page examines, 0 if it examines all.
func last(ctx context.Context, q queries, condition string, args []any, before int64, examined int) (seq int64, err error) {
	err = q.QueryRowContext(ctx, fmt.Sprintf("SELECT seq FROM billbridge_callbacks WHERE %s AND seq < %d ORDER BY seq DESC LIMIT 1 OFFSET %d", condition, before, examined-1), args...).Scan(&seq)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return seq, err
}

// fewCandidates returns the callbacks of a bill, of a partner, or those that wait, if they are few, the last accepted first; otherwise nil.
// more reports whether there are older ones.
func (s *Store) fewCandidates(ctx context.Context, q queries, f Filter, before int64, b bounds) (few []int64, more bool, err error) {
	most := b.few
	switch {
	case f.Bill != "":
		most = b.examined
		few, err = s.ofBill(ctx, q, f, before, most)
	case f.PartnerPrefix != "":
		few, err = numbers(ctx, q, "SELECT seq FROM billbridge_callbacks WHERE partner = $1 LIMIT $2", f.PartnerPrefix, most+1)
	case f.State == Waiting:
		few, err = numbers(ctx, q, "SELECT seq FROM billbridge_callbacks WHERE state = 'waiting' LIMIT $1", most+1)
	default:
		return nil, false, nil
	}
	if err != nil || f.Bill == "" && len(few) > most {
		return nil, false, err
	}
	more = f.Bill != "" && len(few) == most
	few = slices.DeleteFunc(few, func(seq int64) bool { return seq >= before })
	slices.SortFunc(few, func(a, b int64) int { return cmp.Compare(b, a) })
	return append([]int64{}, few...), more, nil // not nil
}

// ofBill returns callbacks of a bill, of one partner or of all. A bill has few.
func (s *Store) ofBill(ctx context.Context, q queries, f Filter, before int64, most int) ([]int64, error) {
	if f.PartnerPrefix != "" {
		return numbers(ctx, q, "SELECT seq FROM billbridge_callbacks WHERE partner = $1 AND bill = $2 AND seq < $3 ORDER BY seq DESC LIMIT $4", f.PartnerPrefix, f.Bill, before, most)
	}
	// The index begins with the partner: each partner is looked up, and then its bill.
	return numbers(ctx, q, `
		WITH RECURSIVE known(partner) AS (
			SELECT min(partner) FROM billbridge_callbacks
			UNION ALL
			SELECT (SELECT min(c.partner) FROM billbridge_callbacks c WHERE c.partner > known.partner) FROM known WHERE known.partner IS NOT NULL
		)
		SELECT c.seq FROM known CROSS JOIN billbridge_callbacks c
		WHERE known.partner IS NOT NULL AND c.partner = known.partner AND c.bill = $1 AND c.seq < $2 ORDER BY c.seq DESC LIMIT $3`, f.Bill, before, most)
}

// before returns the seq before which the callbacks of the page are.
func (s *Store) before(ctx context.Context, q queries, f Filter) (int64, error) {
	var last sql.NullInt64
	if err := q.QueryRowContext(ctx, "SELECT max(seq) FROM billbridge_callbacks").Scan(&last); err != nil {
		return 0, err
	}
	before := last.Int64 + 1
	if f.After != 0 {
		before = min(before, f.After)
	}
	if f.Until.IsZero() {
		return before, nil
	}
	// Later rows were received later, but for the clocks of several gateways.
	until := f.Until.Add(clockSlack)
	low, high := int64(0), before
	for low+1 < high {
		middle := low + (high-low)/2
		at, err := receivedAt(ctx, q, middle)
		if err != nil {
			return 0, err
		}
		if at.Before(until) {
			low = middle
		} else {
			high = middle
		}
	}
	return high, nil
}

// receivedAt returns when the last callback up to a seq was received; the zero time if there is none.
func receivedAt(ctx context.Context, q queries, seq int64) (time.Time, error) {
	var at int64
	err := q.QueryRowContext(ctx, "SELECT received FROM billbridge_callbacks WHERE seq <= $1 ORDER BY seq DESC LIMIT 1", seq).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return time.UnixMilli(at), err
}

// fullPartner returns the partner of callbacks whose ID begins with prefix, "" if there is none. With several it is ErrAmbiguous.
func fullPartner(ctx context.Context, q queries, prefix partner.ID) (partner.ID, error) {
	if err := onePartner(ctx, q, "billbridge_callbacks", prefix); err != nil {
		return "", err
	}
	var full sql.NullString
	err := q.QueryRowContext(ctx, "SELECT min(partner) FROM billbridge_callbacks WHERE partner >= $1 AND partner < $2", prefix, beyond(prefix)).Scan(&full)
	return partner.ID(full.String), err
}
