package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sort"
	"strings"
	"time"

	"billbridge/proxy/partner"
)

// ErrFilter: a Filter is wrong; the error says why.
var ErrFilter error = sentinel("wrong filter")

// A Filter selects callbacks. A field with its zero value excludes none.
type Filter struct {
	State         State
	PartnerPrefix partner.ID // full or abbreviated; ErrAmbiguous if it fits two partners
	Bill          string
	Upstream      string
	Since         time.Time // received then or later
	Until         time.Time // received before
	Limit         int       // at most so many; 0 means 100 for Page, and all for Count, Replay and Drop
	InOrder       bool      // without those of a bill that a newer one follows, which waits or was delivered
	After         int64     // for Page: only those after the callback with this Cursor, the last of the page before
}

// Count returns the number of callbacks that a filter selects.
func (s *Store) Count(ctx context.Context, f Filter) (int, error) {
	where, err := f.where()
	if err != nil {
		return 0, err
	}
	return read(ctx, s, "counting callbacks", func(q tx) int {
		onePartner(q, f.PartnerPrefix, fitting("billbridge_callbacks"))
		const meant = "SELECT count(*) FROM (SELECT seq FROM billbridge_callbacks WHERE %s LIMIT %d) AS meant"
		return value[int](q, fmt.Sprintf(meant, where, cmp.Or(f.Limit, math.MaxInt)), where.args...)
	})
}

// Get returns the callback with an id, with its body, or ErrNotFound.
func (s *Store) Get(ctx context.Context, id string) (Callback, error) {
	return read(ctx, s, "reading a callback", func(q tx) Callback {
		row := value[Callback](q, "SELECT "+columnsAndBody+" FROM billbridge_callbacks WHERE id = $1", id)
		return opened(q, row, s.keys.callback)
	})
}

// A Decision is what an operator does with callbacks.
type Decision struct {
	Action Action
	From   []State // in which one callback may be; of several only the failed ones are meant
	To     State
	set    string // takes $1, the time of the decision, and ends every lease
}

// The decisions.
var (
	// Replay makes callbacks due now, with the ids they have. A replayed callback keeps its place in its order: it
	// waits for an attempt under way at a later one, and is delivered before all later ones that are still waiting.
	Replay = Decision{
		CallbackReplayed,
		[]State{Dead, Delivered, Superseded},
		Waiting,
		"state = 'waiting', attempts = 0, next = $1, due = $1, lease = '', done = NULL",
	}
	Drop = Decision{
		CallbackDropped,
		[]State{Dead},
		Dropped,
		"state = 'dropped', next = $1, due = $1, lease = '', done = $1",
	}
)

// Decide makes a decision about the failed callbacks that a filter selects, and returns their number. by is who
// decides, for the audit log. It works in batches, each with an entry in the log: after an error, n callbacks have
// been changed. After each batch it calls progress, which may be nil, with the number so far.
func (s *Store) Decide(
	ctx context.Context, d Decision, f Filter, by string, now time.Time, progress func(done int),
) (n int, err error) {
	if f.State != "" && f.State != Dead {
		return 0, fmt.Errorf("%w: only failed callbacks can be replayed or dropped together, not %s ones",
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
		where, err := f.where(now)
		if err != nil || batch <= 0 {
			return n, err
		}
		where.add("seq > %s", from)
		meant := fmt.Sprintf("SELECT ordering FROM billbridge_callbacks WHERE CAST($1 AS BIGINT) > 0 AND %s "+
			"ORDER BY seq LIMIT %d", where, batch)
		given := slices.Clone(where.args)
		where.add("ordering IN "+s.each, "")
		statement := fmt.Sprintf(`
			UPDATE billbridge_callbacks SET %s WHERE seq IN (
				SELECT seq FROM billbridge_callbacks WHERE %s ORDER BY seq LIMIT %d %s
			) RETURNING seq`, d.set, where, batch, s.passOver)
		changed, err := write(ctx, s, "changing callbacks", func(q tx) []int64 {
			s.betweenClaims(q)
			of := onePartner(q, f.PartnerPrefix, fitting("billbridge_callbacks"))
			orders := list[string](q, meant, slices.Clone(given)...)
			slices.Sort(orders)
			orders = slices.Compact(orders)
			s.lockOrders(q, orders)
			changed := list[int64](q, statement, append(slices.Clone(given), texts(orders))...)
			if d.To == Waiting {
				markAll(q, now, "ordering IN "+fmt.Sprintf(s.each, "$2"), texts(orders))
			}
			if len(changed) > 0 {
				audited(q, Change{
					Action: d.Action, By: by, At: now, Partner: of,
					Subject: callbacksIn(len(changed)) + ", " + f.words(),
					From:    string(Dead), To: string(d.To),
				})
			}
			return changed
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

// DecideOne makes a decision about one callback. It returns ErrNotFound if there is none with that id, ErrState if it
// is not in a state of d.From, and ErrErased if it is to be replayed and its body was deleted.
func (s *Store) DecideOne(ctx context.Context, d Decision, id, by string, now time.Time) error {
	if err := checkDecision(by, now); err != nil {
		return err
	}
	if columnValues([]any{id}) != nil {
		return ErrNotFound
	}
	return s.update(ctx, "changing a callback", func(q tx) {
		s.betweenClaims(q)
		c := Change{Action: d.Action, By: by, At: now, Subject: id, To: string(d.To)}
		is, known := find[Callback](q, "SELECT "+columns+" FROM billbridge_callbacks WHERE id = $1", id)
		c.Partner, c.From = is.Partner, string(is.State)
		switch {
		case !known:
			q.refuse(ErrNotFound)
		case !slices.Contains(d.From, is.State):
			q.refuse(ErrState)
		case !is.Erased.IsZero() && d.To == Waiting:
			q.refuse(ErrErased)
		}
		s.lock(q, exclusive, "order", is.Order)
		// The state is compared again: an attempt may have ended since, or a sweep may have deleted the body.
		if q.exec(`
			UPDATE billbridge_callbacks SET `+d.set+" WHERE id = $2 AND state = $3 AND erased IS NULL", now, id,
			c.From) == 0 {
			q.refuse(ErrState)
		}
		if d.To == Waiting {
			markAll(q, now, "ordering = $2", is.Order)
		}
		audited(q, c)
	})
}

// betweenClaims waits for claims under way and keeps other replicas from claiming until the transaction ends.
// Otherwise another replica could claim a replayed callback without seeing that a later one of its order is being
// claimed. Other transactions that lock a row and then need another lock take it shared, too: else AddKey could
// deadlock with them.
func (s *Store) betweenClaims(q tx) { s.lock(q, exclusive, claims) }

// conditions select rows, with arguments.
type conditions struct {
	all  []string
	args []any
}

// add adds a condition. Each argument stands where the condition has a verb.
func (c *conditions) add(condition string, args ...any) {
	places := make([]any, len(args))
	for i := range args {
		places[i] = fmt.Sprint("$", len(c.args)+i+1)
	}
	c.all, c.args = append(c.all, fmt.Sprintf(condition, places...)), append(c.args, args...)
}

// given adds a condition with an argument that is not zero.
func (c *conditions) given(condition string, arg any) {
	if !reflect.ValueOf(arg).IsZero() {
		c.add(condition, arg)
	}
}

func (c conditions) String() string { return cmp.Or(strings.Join(c.all, " AND "), "true") }

// where is the condition of a filter, whose arguments come after the given ones.
func (f Filter) where(args ...any) (c conditions, err error) {
	c.args = args
	switch f.State {
	case "":
	case Waiting, Delivered, Dead, Dropped, Superseded:
		c.add("state = '" + string(f.State) + "'") // not an argument, for the partial indices
	default:
		return c, fmt.Errorf("%w: there is no state %q", ErrFilter, f.State)
	}
	if f.Limit < 0 {
		return c, fmt.Errorf("%w: the limit is %d", ErrFilter, f.Limit)
	}
	if err := columnValues([]any{f.Bill, f.Upstream}); err != nil {
		return c, fmt.Errorf("%w: %w", ErrFilter, err)
	}
	if f.PartnerPrefix != "" {
		if err := checkPrefix(f.PartnerPrefix); err != nil {
			return c, err
		}
		c.add("partner >= %s AND partner < %s", f.PartnerPrefix, beyond(f.PartnerPrefix))
	}
	for _, part := range f.parts() {
		c.given(part.condition, part.value)
	}
	if f.InOrder {
		c.add(`NOT (bill <> '' AND EXISTS (SELECT 1 FROM billbridge_callbacks newer
			WHERE newer.ordering = billbridge_callbacks.ordering AND newer.seq > billbridge_callbacks.seq
				AND newer.seq > 0 AND newer.state IN ('waiting', 'delivered') AND ` + sameMerchant + `))`)
	}
	return c, nil
}

// A part of a filter is compared with one column.
type part struct {
	name, condition string
	value           any
}

func (f Filter) parts() []part {
	return []part{
		{"bill", "bill = %s", f.Bill},
		{"upstream", "upstream = %s", f.Upstream},
		{"since", "received >= %s", f.Since},
		{"until", "received < %s", f.Until},
	}
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
		switch at, ok := part.value.(time.Time); {
		case reflect.ValueOf(part.value).IsZero():
			continue
		case ok:
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

// fitting is a query for the first and the last partner of the rows in a table that an abbreviated ID, $1, fits. It
// reads two entries of an index, not all rows between.
func fitting(table string) string {
	const meant = "SELECT coalesce(%[2]s(partner), '') AS partner FROM %[1]s WHERE partner >= $1 AND partner < $2"
	return fmt.Sprintf(meant, table, "min") + " UNION " + fmt.Sprintf(meant, table, "max")
}

// onePartner returns the partner that an abbreviated ID fits, by queries for partners, and "" if there is none or
// prefix is "". If it fits two, the call fails with ErrAmbiguous.
func onePartner(q tx, prefix partner.ID, queries ...string) (one partner.ID) {
	if prefix == "" {
		return ""
	}
	// A condition around the queries would make SQLite read all rows.
	all := slices.DeleteFunc(list[partner.ID](q, strings.Join(queries, " UNION "), prefix, beyond(prefix)),
		func(id partner.ID) bool { return id == "" })
	if len(all) > 1 {
		q.fail(ErrAmbiguous)
	}
	return append(all, "")[0]
}

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
		for _, row := range list[Callback](q, fmt.Sprintf("SELECT %s FROM billbridge_callbacks %s WHERE %s "+
			"ORDER BY seq DESC LIMIT %d", columns, index, where, f.Limit+1), where.args...) {
			if len(p.Callbacks) == f.Limit {
				p.Next = p.Callbacks[f.Limit-1].Cursor
				break
			}
			c, err := s.keys.callback(row)
			if err != nil { // it is listed without its address, so that it can be found
				c, c.URL = row, ""
			}
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
