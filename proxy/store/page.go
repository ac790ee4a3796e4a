package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"billbridge/proxy/partner"
)

// The bounds of the rows that one page reads, so that it takes milliseconds however many callbacks there are.
const (
	examined   = 20_000 // in the order of acceptance
	fewOfOne   = 2_000  // of one partner, or waiting: these are read and sorted
	clockSlack = time.Hour
)

// A Page is a part of a list.
type Page struct {
	Callbacks []Callback
	Next      int64 // for Filter.After of the next page; 0 if there are no more
}

// Page returns callbacks like List, and reads a bounded number of rows. A page can have fewer callbacks than Limit, or none, although
// there are more: then Next is not 0.
func (s *Store) Page(ctx context.Context, f Filter) (Page, error) {
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
		return s.page(ctx, q, f, where, args)
	})
}

// page reads the candidates in the cheapest way that has a bound, and then those of them that the filter selects.
func (s *Store) page(ctx context.Context, q queries, f Filter, where string, args []any) (Page, error) {
	few, err := s.fewCandidates(ctx, q, f)
	if err != nil {
		return Page{}, err
	}
	before, err := s.before(ctx, q, f)
	if err != nil {
		return Page{}, err
	}
	window, more := few, false
	if window == nil {
		if window, err = s.window(ctx, q, f, before); err != nil {
			return Page{}, err
		}
		more = len(window) == examined
	}
	p := Page{Callbacks: []Callback{}}
	for part := range slices.Chunk(window, 500) {
		if part = slices.DeleteFunc(part, func(seq int64) bool { return seq >= before }); len(part) == 0 {
			continue
		}
		found, err := s.selected(ctx, q, where, args, part, f.Limit+1-len(p.Callbacks))
		if err != nil {
			return Page{}, err
		}
		p.Callbacks = append(p.Callbacks, found...)
		if len(p.Callbacks) > f.Limit {
			p.Callbacks = p.Callbacks[:f.Limit]
			p.Next = p.Callbacks[f.Limit-1].Cursor
			return p, nil
		}
	}
	if more {
		p.Next = window[examined-1]
	}
	if p.Next != 0 && !f.Since.IsZero() { // older rows were received earlier, but for the clocks of several gateways
		at, err := receivedAt(ctx, q, p.Next)
		if err != nil || at.Before(f.Since.Add(-clockSlack)) {
			p.Next = 0
			return p, err
		}
	}
	return p, nil
}

// selected returns the callbacks of a part of the candidates that the filter selects, the last accepted first.
func (s *Store) selected(ctx context.Context, q queries, where string, args []any, part []int64, limit int) ([]Callback, error) {
	list := ""
	for i, seq := range part {
		if i > 0 {
			list += ","
		}
		list += fmt.Sprint(seq) // a number: nothing to quote
	}
	rows, err := q.QueryContext(ctx, fmt.Sprintf(`SELECT %s FROM billbridge_callbacks WHERE seq IN (%s) AND %s ORDER BY seq DESC LIMIT %d`, columns, list, where, limit), args...)
	return collect(rows, err, func(c *Callback, row *sql.Rows) (err error) {
		*c, err = s.scan(row, nil)
		return err
	})
}

// fewCandidates returns the callbacks of a bill, of a partner or of those that wait if they are few, the last accepted first; otherwise
// nil.
func (s *Store) fewCandidates(ctx context.Context, q queries, f Filter) (few []int64, err error) {
	switch {
	case f.Bill != "" && f.PartnerPrefix != "":
		few, err = numbers(ctx, q, "SELECT seq FROM billbridge_callbacks WHERE partner = $1 AND bill = $2 ORDER BY seq DESC LIMIT $3", f.PartnerPrefix, f.Bill, examined)
	case f.Bill != "":
		// The index begins with the partner: each partner is looked up, and then its bill.
		few, err = numbers(ctx, q, `
			WITH RECURSIVE known(partner) AS (
				SELECT min(partner) FROM billbridge_callbacks
				UNION ALL
				SELECT (SELECT min(c.partner) FROM billbridge_callbacks c WHERE c.partner > known.partner) FROM known WHERE known.partner IS NOT NULL
			)
			SELECT c.seq FROM known CROSS JOIN billbridge_callbacks c WHERE known.partner IS NOT NULL AND c.partner = known.partner AND c.bill = $1 LIMIT $2`, f.Bill, examined)
	case f.PartnerPrefix != "":
		few, err = numbers(ctx, q, "SELECT seq FROM billbridge_callbacks WHERE partner = $1 LIMIT $2", f.PartnerPrefix, fewOfOne+1)
	case f.State == Waiting:
		few, err = numbers(ctx, q, "SELECT seq FROM billbridge_callbacks WHERE state = 'waiting' LIMIT $1", fewOfOne+1)
	default:
		return nil, nil
	}
	if err != nil || f.Bill == "" && len(few) > fewOfOne {
		return nil, err
	}
	slices.SortFunc(few, func(a, b int64) int { return cmp.Compare(b, a) })
	return append([]int64{}, few...), nil // not nil
}

// window returns the newest candidates before a seq, at most examined.
func (s *Store) window(ctx context.Context, q queries, f Filter, before int64) ([]int64, error) {
	switch {
	case f.State == Dead:
		return numbers(ctx, q, "SELECT seq FROM billbridge_callbacks WHERE state = 'dead' AND seq < $1 ORDER BY seq DESC LIMIT $2", before, examined)
	case f.Upstream != "":
		return numbers(ctx, q, "SELECT seq FROM billbridge_callbacks WHERE upstream = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3", f.Upstream, before, examined)
	}
	return numbers(ctx, q, "SELECT seq FROM billbridge_callbacks WHERE seq < $1 ORDER BY seq DESC LIMIT $2", before, examined)
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
