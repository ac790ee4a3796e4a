package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
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

	examined, parts int // as in walk; and instead of partsOfPage
}

// Count returns the number of callbacks that a filter selects.
func (s callbacks) Count(ctx context.Context, f Filter) (n int, err error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	most := cmp.Or(f.Limit, math.MaxInt)
	for from := start(false); from != 0 && n < most; {
		p, err := read(ctx, s.db, "counting callbacks", func(q tx) part[int] {
			return partOf[int](q, f.walk(q, false), "1", from, most-n)
		})
		if n, from = n+len(p.found), p.next; err != nil {
			return n, err
		}
	}
	return n, nil
}

// Get returns the callback with an id, with its body, or ErrNotFound.
func (s callbacks) Get(ctx context.Context, id string) (Callback, error) {
	return read(ctx, s.db, "reading a callback", func(q tx) Callback {
		row := value[Callback](q, "SELECT "+columnsAndBody+" FROM billbridge_callbacks WHERE id = $1", id)
		return opened(q, row, s.keyring.callback)
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
func (s callbacks) Decide(
	ctx context.Context, d Decision, f Filter, by Author, now time.Time, progress func(done int),
) (n int, err error) {
	if f.State != "" && f.State != Dead {
		return 0, fmt.Errorf("%w: only failed callbacks can be replayed or dropped together, not %s ones",
			ErrFilter, f.State)
	}
	if err := cmp.Or(checkDecision(by, now), f.check()); err != nil {
		return 0, err
	}
	f.State = Dead
	// Each batch begins after the last callback of the one before: what fails again meanwhile is not changed twice.
	for from := start(true); ; {
		batch := s.batch
		if f.Limit > 0 {
			batch = min(batch, f.Limit-n)
		}
		type candidate struct {
			Seq   int64
			Order string
		}
		type result struct {
			changed int
			next    int64
		}
		got, err := write(ctx, s.db, "changing callbacks", func(q tx) (got result) {
			s.betweenClaims(q)
			w := f.walk(q, true)
			var meant []int64
			var orders []string
			got.next = from
			for n := 0; n < partsOfPage && got.next != 0 && len(meant) < batch; n++ {
				p := partOf[candidate](q, w, "seq, ordering", got.next, batch-len(meant))
				for _, c := range p.found {
					meant, orders = append(meant, c.Seq), append(orders, c.Order)
				}
				got.next = p.next
			}
			if len(meant) == 0 {
				return got
			}
			if len(meant) == batch {
				got.next = meant[batch-1]
			}
			slices.Sort(orders)
			orders = slices.Compact(orders)
			s.lockOrders(q, orders)
			c := conditions{args: []any{now}}
			c.add("seq "+s.seqs, texts(meant))
			// An attempt may have ended since. As an expression, which no other index has.
			c.add("state || '' = '" + string(Dead) + "'")
			f.inOrder(&c)
			got.changed = int(q.exec("UPDATE billbridge_callbacks SET "+d.set+" WHERE "+c.String(), c.args...))
			if got.changed == 0 {
				return got
			}
			if d.To == Waiting {
				markAll(q, now, "ordering "+fmt.Sprintf(s.each, "$2"), texts(orders))
			}
			audited(q, Change{
				Action: d.Action, By: by.Name, Reason: by.Reason, At: now,
				Partner: onePartner(q, f.PartnerPrefix, fitting("billbridge_callbacks")),
				Subject: callbacksIn(got.changed) + ", " + f.words(), From: string(Dead), To: string(d.To),
			})
			return got
		})
		if err != nil {
			return n, err
		}
		if n += got.changed; progress != nil && got.changed > 0 {
			progress(n)
		}
		if from = got.next; from == 0 || n == f.Limit && n > 0 {
			return n, nil
		}
	}
}

// DecideOne makes a decision about one callback. It returns ErrNotFound if there is none with that id, ErrState if it
// is not in a state of d.From, and ErrErased if it is to be replayed and its body was deleted.
func (s callbacks) DecideOne(ctx context.Context, d Decision, id string, by Author, now time.Time) error {
	if err := checkDecision(by, now); err != nil {
		return err
	}
	if columnValues([]any{id}) != nil {
		return ErrNotFound
	}
	return s.update(ctx, "changing a callback", func(q tx) {
		s.betweenClaims(q)
		c := Change{Action: d.Action, By: by.Name, Reason: by.Reason, At: now, Subject: id, To: string(d.To)}
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
func (d dialect) betweenClaims(q tx) { d.lock(q, exclusive, claims) }

// check refuses a wrong filter.
func (f Filter) check() error {
	switch f.State {
	case "", Waiting, Delivered, Dead, Dropped, Superseded:
	default:
		return fmt.Errorf("%w: there is no state %q", ErrFilter, f.State)
	}
	if f.Limit < 0 {
		return fmt.Errorf("%w: the limit is %d", ErrFilter, f.Limit)
	}
	if err := columnValues([]any{f.Bill, f.Upstream}); err != nil {
		return fmt.Errorf("%w: %w", ErrFilter, err)
	}
	if f.PartnerPrefix != "" {
		return checkPrefix(f.PartnerPrefix)
	}
	return nil
}

// meant adds the conditions of a filter with the whole ID of its partner.
func (f Filter) meant(c *conditions) {
	for _, term := range f.terms() {
		c.given(term.condition, term.value)
	}
	c.given("partner = %s", f.PartnerPrefix)
	c.given("state = %s", string(f.State))
	f.inOrder(c)
}

func (f Filter) inOrder(c *conditions) {
	if f.InOrder {
		c.add("NOT (" + followed + ")")
	}
}

// walk goes through the callbacks that a filter may mean.
func (f Filter) walk(q tx, oldestFirst bool) walk {
	f.PartnerPrefix = cmp.Or(onePartner(q, f.PartnerPrefix, fitting("billbridge_callbacks")), f.PartnerPrefix)
	w := walk{table: "billbridge_callbacks", by: "seq", oldestFirst: oldestFirst, meant: f.meant, examined: f.examined}
	switch {
	case f.Bill != "":
		w.of, w.is = "bill", f.Bill
	case f.State != "" && f.State != Delivered:
		w.of, w.is = "state", string(f.State)
		w.rows.add("state <> 'delivered' AND seq <> 0") // as the partial index has it
	case f.PartnerPrefix != "":
		w.of, w.is = "partner", string(f.PartnerPrefix)
	}
	return w
}

// A term of a filter is compared with one column.
type term struct {
	name, condition string
	value           any
}

func (f Filter) terms() []term {
	return []term{
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
	for _, term := range f.terms() {
		switch at, ok := term.value.(time.Time); {
		case reflect.ValueOf(term.value).IsZero():
			continue
		case ok:
			term.value = at.Format(time.RFC3339)
		}
		words = append(words, fmt.Sprintf("%s %v", term.name, term.value))
	}
	if f.Limit > 0 {
		words = append(words, fmt.Sprintf("at most %d", f.Limit))
	}
	return cmp.Or(strings.Join(words, ", "), "all")
}

// clockSlack is more than the clocks of gateways that share a store differ.
const clockSlack = time.Hour

// A Page is a part of a list.
type Page struct {
	Callbacks []Callback
	Next      int64 // for Filter.After of the next page; 0 if there are no more
}

const (
	pageOf      = 100 // the limit of Page if the filter has none
	partsOfPage = 20  // the most parts of a walk that a page reads
)

// Page returns callbacks without their bodies, the last accepted first. It reads a bounded number of rows. So a page
// can have fewer callbacks than Limit, or none, although there are more: then Next is not 0.
func (s callbacks) Page(ctx context.Context, f Filter) (Page, error) {
	if err := f.check(); err != nil {
		return Page{}, err
	}
	f.Limit = cmp.Or(f.Limit, pageOf)
	return read(ctx, s.db, "listing callbacks", func(q tx) (p Page) {
		w, from := f.walk(q, false), cmp.Or(f.After, start(false))
		for n := 0; n < cmp.Or(f.parts, partsOfPage) && from != 0 && len(p.Callbacks) < f.Limit; n++ {
			part := partOf[Callback](q, w, columns, from, f.Limit-len(p.Callbacks))
			from = part.next
			for _, row := range part.found {
				c, err := s.keyring.callback(row)
				if err != nil { // it is listed without its address, so that it can be found
					c, c.URL = row, ""
				}
				p.Callbacks = append(p.Callbacks, c)
			}
			if from != 0 && !f.Since.IsZero() && value[time.Time](q,
				"SELECT received FROM billbridge_callbacks WHERE seq = $1", from).Before(f.Since.Add(-clockSlack)) {
				from = 0 // all older ones were received before, too
			}
		}
		if p.Next = from; len(p.Callbacks) == f.Limit {
			last := p.Callbacks[f.Limit-1].Cursor
			p.Next = 0
			if more := partOf[int64](q, w, "seq", last, 1); len(more.found) > 0 || more.next != 0 {
				p.Next = last
			}
		}
		return p
	})
}
