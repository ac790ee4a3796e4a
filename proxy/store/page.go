package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sort"
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

const pageOf = 100 // the limit of Page if the filter has none

// Page returns callbacks without their bodies, the last accepted first. It reads a bounded number of rows. So a page
// can have fewer callbacks than Limit, or none, although there are more: then Next is not 0.
func (s *Store) Page(ctx context.Context, f Filter) (Page, error) {
	return s.pageWithin(ctx, f, pageBounds)
}

func (s *Store) pageWithin(ctx context.Context, f Filter, b bounds) (Page, error) {
	f.Limit = cmp.Or(f.Limit, pageOf)
	where, err := f.where()
	if err != nil {
		return Page{}, err
	}
	return read(ctx, s, "listing callbacks", func(q tx) (p Page) {
		where, index := where, "NOT INDEXED"
		onePartner(q, f.PartnerPrefix, fitting("billbridge_callbacks"))
		before := s.before(q, f)
		where.add(fmt.Sprint("seq < ", before))
		if few, args := fewCandidates(q, f, b.few); few != "" {
			where.add("seq IN (SELECT seq FROM billbridge_callbacks WHERE "+few+")", args...)
		} else {
			p.Next, index = last(q, f, before, b.examined)
			where.add(fmt.Sprint("seq >= ", p.Next))
		}
		if s.postgres {
			index = ""
		}
		for _, row := range list[callbackRow](q, fmt.Sprintf("SELECT %s FROM billbridge_callbacks %s WHERE %s "+
			"ORDER BY seq DESC LIMIT %d", columns, index, where, f.Limit+1), where.args...) {
			if len(p.Callbacks) == f.Limit {
				p.Next = p.Callbacks[f.Limit-1].Cursor
				break
			}
			c, err := s.keys.callback(row)
			if errors.As(err, new(changedError)) { // it is listed without its address, so that it can be found
				c, c.URL, err = row.Callback, "", nil
			}
			q.fail(err)
			p.Callbacks = append(p.Callbacks, c)
		}
		if p.Next != 0 && !f.Since.IsZero() && receivedAt(q, p.Next).Before(f.Since.Add(-clockSlack)) {
			p.Next = 0 // all older ones were received before, too
		}
		return p
	})
}

// last returns the seq of the last callback that a page examines, 0 if it examines all, and the index that SQLite
// must use for that, if any: it knows no statistics, and may choose one that reads more rows.
func last(q tx, f Filter, before int64, examined int) (seq int64, index string) {
	var c conditions
	c.add(fmt.Sprint("seq < ", before))
	index = "NOT INDEXED"
	switch {
	case f.State == Dead, f.State == Superseded:
		c.add("state = '" + string(f.State) + "'")
		index = "INDEXED BY billbridge_callbacks_" + string(f.State)
	case f.Upstream != "":
		c.add("upstream = %s", f.Upstream)
		index = "INDEXED BY billbridge_callbacks_upstream"
	}
	seq, _ = find[int64](q, fmt.Sprintf("SELECT seq FROM billbridge_callbacks WHERE %s ORDER BY seq DESC "+
		"LIMIT 1 OFFSET %d", c, examined-1), c.args...)
	return seq, index
}

// fewCandidates is a condition that an index serves, for the callbacks of a bill, of a partner, or those that wait.
// There is none if these are more than a page may read and sort. A bill has few.
func fewCandidates(q tx, f Filter, few int) (condition string, args []any) {
	from, before := "'"+string(f.PartnerPrefix)+"'", "'"+string(beyond(f.PartnerPrefix))+"'" // hexadecimal digits
	switch {
	case f.Bill != "":
		return "bill = %s AND partner IN (" + partnersOf("billbridge_callbacks", from, before) + ")", []any{f.Bill}
	case f.PartnerPrefix != "":
		condition = "partner >= " + from + " AND partner < " + before
	case f.State == Waiting:
		condition = "state = 'waiting'"
	default:
		return "", nil
	}
	if value[int](q, fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM billbridge_callbacks WHERE %s LIMIT %d) AS few",
		condition, few+1)) > few {
		return "", nil
	}
	return condition, nil
}

// before returns the seq before which the callbacks of the page are.
func (s *Store) before(q tx, f Filter) int64 {
	before := value[int64](q, "SELECT coalesce(max(seq), 0) + 1 FROM billbridge_callbacks")
	if f.After != 0 {
		before = min(before, f.After)
	}
	if f.Until.IsZero() {
		return before
	}
	// Later rows were received later, but for the clocks of several gateways.
	until := f.Until.Add(clockSlack)
	return int64(sort.Search(int(before), func(seq int) bool { return !receivedAt(q, int64(seq)).Before(until) }))
}

// receivedAt returns when the last callback up to a seq was received; the zero time if there is none.
func receivedAt(q tx, seq int64) time.Time {
	at, _ := find[time.Time](q,
		"SELECT received FROM billbridge_callbacks WHERE seq <= $1 ORDER BY seq DESC LIMIT 1", seq)
	return at
}
