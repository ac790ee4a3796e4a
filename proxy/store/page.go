package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
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

// Page returns callbacks like List, and reads a bounded number of rows. A page can have fewer callbacks than Limit,
// or none, although there are more: then Next is not 0.
func (s *Store) Page(ctx context.Context, f Filter) (Page, error) {
	return s.pageWithin(ctx, f, pageBounds)
}

func (s *Store) pageWithin(ctx context.Context, f Filter, b bounds) (Page, error) {
	f.Limit = cmp.Or(f.Limit, pageOf)
	where, args, err := f.where()
	if err != nil {
		return Page{}, err
	}
	return read(ctx, s, "listing callbacks", func(q tx) (Page, error) {
		full, err := f.onePartner(q)
		if err != nil || full == "" && f.PartnerPrefix != "" {
			return Page{}, err
		}
		f := f
		f.PartnerPrefix = full
		return s.page(q, f, b, where, args)
	})
}

// page reads the candidates in the cheapest way that has a bound, and of these the callbacks that the filter selects.
func (s *Store) page(q tx, f Filter, b bounds, where string, args []any) (p Page, err error) {
	before, err := s.before(q, f)
	if err != nil {
		return p, err
	}
	few, more, err := s.fewCandidates(q, f, before, b)
	if err != nil {
		return p, err
	}
	index, candidates := "NOT INDEXED", []string(nil)
	for part := range slices.Chunk(few, 500) {
		list := strings.Trim(strings.ReplaceAll(fmt.Sprint(part), " ", ","), "[]")
		candidates = append(candidates, "seq IN ("+list+")")
	}
	if few == nil {
		if p.Next, index, err = last(q, f, before, b.examined); err != nil {
			return p, err
		}
		candidates = []string{fmt.Sprintf("seq >= %d AND seq < %d", p.Next, before)}
	} else if more {
		p.Next = few[len(few)-1]
	}
	if s.postgres {
		index = ""
	}
	for _, condition := range candidates {
		found, err := list(q, func(c *Callback, row row) (err error) {
			*c, err = s.scan(row, nil)
			return err
		}, fmt.Sprintf("SELECT %s FROM billbridge_callbacks %s WHERE %s AND %s ORDER BY seq DESC LIMIT %d",
			columns, index, condition, where, f.Limit+1-len(p.Callbacks)), args...)
		if err != nil {
			return p, err
		}
		if p.Callbacks = append(p.Callbacks, found...); len(p.Callbacks) > f.Limit {
			p.Callbacks = p.Callbacks[:f.Limit]
			p.Next = p.Callbacks[f.Limit-1].Cursor
			break
		}
	}
	if p.Next == 0 || f.Since.IsZero() {
		return p, nil
	}
	at, err := receivedAt(q, p.Next)
	if at.Before(f.Since.Add(-clockSlack)) { // so were all older ones
		p.Next = 0
	}
	return p, err
}

// last returns the seq of the last callback that a page examines, 0 if it examines all, and the index that SQLite
// must use for that, if any: it knows no statistics, and may choose one that reads more rows.
func last(q tx, f Filter, before int64, examined int) (seq int64, index string, err error) {
	condition, index, args := "true", "NOT INDEXED", []any(nil)
	switch {
	case f.State == Dead:
		condition, index = "state = 'dead'", "INDEXED BY billbridge_callbacks_dead"
	case f.Upstream != "":
		condition, index, args = "upstream = $1", "INDEXED BY billbridge_callbacks_upstream", []any{f.Upstream}
	}
	seq, err = value[int64](q, fmt.Sprintf(`
		SELECT seq FROM billbridge_callbacks WHERE %s AND seq < %d ORDER BY seq DESC
			LIMIT 1 OFFSET %d`, condition, before, examined-1), args...)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return seq, index, err
}

// fewCandidates returns the callbacks of a bill, of a partner, or those that wait, if they are few, the last accepted
// first; otherwise nil. more reports that there are older ones.
func (s *Store) fewCandidates(q tx, f Filter, before int64, b bounds) (few []int64, more bool, err error) {
	switch {
	case f.Bill != "":
		few, err = s.ofBill(q, f, before, b.examined)
		more = len(few) == b.examined
	case f.PartnerPrefix != "":
		few, err = numbers(q, "SELECT seq FROM billbridge_callbacks WHERE partner = $1 LIMIT $2", f.PartnerPrefix,
			b.few+1)
	case f.State == Waiting:
		few, err = numbers(q, "SELECT seq FROM billbridge_callbacks WHERE state = 'waiting' LIMIT $1", b.few+1)
	default:
		return nil, false, nil
	}
	if err != nil || f.Bill == "" && len(few) > b.few {
		return nil, false, err
	}
	few = slices.DeleteFunc(few, func(seq int64) bool { return seq >= before })
	slices.SortFunc(few, func(a, b int64) int { return cmp.Compare(b, a) })
	return append([]int64{}, few...), more, nil // not nil
}

// ofBill returns callbacks of a bill, of one partner or of all. A bill has few.
func (s *Store) ofBill(q tx, f Filter, before int64, most int) ([]int64, error) {
	if f.PartnerPrefix != "" {
		return numbers(q, `
			SELECT seq FROM billbridge_callbacks WHERE partner = $1 AND bill = $2 AND seq < $3 ORDER BY seq DESC
				LIMIT $4`,
			f.PartnerPrefix, f.Bill, before, most)
	}
	// The index begins with the partner: each partner is looked up, and then its bill.
	return numbers(q, `
		WITH RECURSIVE known(partner) AS (
			SELECT min(partner) FROM billbridge_callbacks
			UNION ALL
			SELECT (SELECT min(c.partner) FROM billbridge_callbacks c WHERE c.partner > known.partner)
			FROM known WHERE known.partner IS NOT NULL
		)
		SELECT c.seq FROM known CROSS JOIN billbridge_callbacks c
		WHERE known.partner IS NOT NULL AND c.partner = known.partner AND c.bill = $1 AND c.seq < $2
		ORDER BY c.seq DESC LIMIT $3`, f.Bill, before, most)
}

// before returns the seq before which the callbacks of the page are.
func (s *Store) before(q tx, f Filter) (int64, error) {
	before, err := value[int64](q, "SELECT coalesce(max(seq), 0) + 1 FROM billbridge_callbacks")
	if f.After != 0 {
		before = min(before, f.After)
	}
	if err != nil || f.Until.IsZero() {
		return before, err
	}
	// Later rows were received later, but for the clocks of several gateways.
	until := f.Until.Add(clockSlack)
	low, high := int64(0), before
	for low+1 < high {
		middle := low + (high-low)/2
		at, err := receivedAt(q, middle)
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
func receivedAt(q tx, seq int64) (time.Time, error) {
	at, err := value[time.Time](q,
		"SELECT received FROM billbridge_callbacks WHERE seq <= $1 ORDER BY seq DESC LIMIT 1", seq)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return at, err
}
