package operate

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// A Callback is one callback as the operator sees it: without the body, which has data of the partner's customer, and
// without the query of the partner's address, which may be a secret.
type Callback struct {
	ID       string    `json:"id"`
	Received time.Time `json:"received"`
	Who
	Bill     string `json:"bill"`
	Upstream string `json:"upstream"`
	State    string `json:"state"`
	Delivery
	Form    string `json:"form"`
	Address string `json:"address"`
	Body
	// how often the upstream sent it again; these were acknowledged, and not delivered
	Repeats  int        `json:"repeats,omitempty"`
	Repeated *time.Time `json:"repeated,omitempty"` // when it did so last
	// the upstream's was missing: the gateway has made it from a read of the bill
	Made   bool  `json:"made_from_read,omitempty"`
	Cursor int64 `json:"cursor"` // for after

	// History are the last attempts, in their order; only of a single callback. Attempts that were cut off are missing.
	History []Attempt `json:"history,omitempty"`
}

// A Delivery is how far the delivery of a callback is.
type Delivery struct {
	Attempts int        `json:"attempts"`
	Next     *time.Time `json:"next,omitempty"` // of a waiting one
	LastAt   *time.Time `json:"last_at,omitempty"`
	Status   int        `json:"last_status,omitempty"`
	Outcome  string     `json:"last_outcome,omitempty"`
}

// A Body is what may be known of the body of a callback without its fields. Only a single callback has all of it.
type Body struct {
	Type    string     `json:"content_type"`
	Size    int        `json:"size,omitempty"`         // in bytes
	Deleted *time.Time `json:"body_deleted,omitempty"` // since then the callback cannot be delivered again
	Says    string     `json:"bill_state,omitempty"`   // the state of the bill, if the table knows it
	Digest  string     `json:"digest,omitempty"`       // SHA-256 of the upstream's body in canonical form
}

// An Attempt is one attempt to deliver a callback.
type Attempt struct {
	Number  int       `json:"number"` // from 1 on, over all replays
	At      time.Time `json:"at"`     // when it ended
	Took    float64   `json:"took_seconds"`
	Status  int       `json:"status,omitempty"` // HTTP
	Code    string    `json:"code,omitempty"`   // the partner's
	Outcome string    `json:"outcome"`
	Reason  string    `json:"reason,omitempty"` // why it failed
}

// A CallbackFilter selects callbacks.
type CallbackFilter struct {
	PartnerRef
	Bill     string    `json:"bill,omitzero"`
	Upstream string    `json:"upstream,omitzero"`
	State    string    `json:"state,omitzero"`
	Since    time.Time `json:"since,omitzero"`        // received then or later
	Until    time.Time `json:"until,omitzero"`        // received before
	After    int64     `json:"after,omitzero,string"` // a cursor
	Limit
}

func (f CallbackFilter) inStore(ctx context.Context, o *core) (filter store.Filter, err error) {
	id, isHash := partner.Parse(f.Partner)
	if hash := o.hashFor(f.Partner); !isHash && hash != "" {
		id = partner.ID(hash)
	} else if isHash {
		id = o.identity(id)
	} else if id, err = f.one(ctx, o); err != nil {
		return filter, err
	}
	filter = store.Filter{
		PartnerPrefix: id, Bill: f.Bill, Upstream: f.Upstream, State: store.State(f.State),
		Since: f.Since, Until: f.Until, After: f.After,
	}
	if f.Most != nil {
		filter.Limit = *f.Most
	}
	return filter, nil
}

// refused returns an error of the store as one for the operator.
func refused(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrFilter), errors.Is(err, store.ErrAmbiguous):
		return badRequest("%v", err)
	case errors.Is(err, store.ErrNotFound):
		return notFound("there is no callback with this id, or it was removed, 400 days after its bill was over")
	case errors.Is(err, store.ErrState):
		return conflict("%v", err)
	case errors.Is(err, store.ErrErased):
		return conflict("the body of the callback was deleted, 7 days after its delivery: " +
			"it cannot be delivered again")
	}
	return err
}

// A CallbackPage is a part of the list of callbacks.
type CallbackPage struct {
	Callbacks []Callback `json:"callbacks"`
	// for After; 0 if there are no more. A page can be empty although there are more.
	Next int64 `json:"next,omitempty"`
}

// Callbacks lists callbacks, the newest first, in bounded time: a part of the list, and where the next one begins.
func (o callbackVerbs) Callbacks(ctx context.Context, f CallbackFilter) (p CallbackPage, err error) {
	const most = 1000
	filter, err := f.inStore(ctx, o.core)
	if err != nil {
		return p, err
	}
	if filter.Limit > most {
		return p, badRequest("limit must be at most %d", most)
	}
	found, err := o.Store.Page(ctx, filter)
	p = CallbackPage{[]Callback{}, found.Next}
	for _, c := range found.Callbacks {
		p.Callbacks = append(p.Callbacks, o.callback(c))
	}
	return p, refused(err)
}

// Counts are the numbers of callbacks by state: waiting, failed and superseded.
type Counts map[string]Number

// A Number is counted up to a bound.
type Number struct {
	Number int  `json:"number"`
	More   bool `json:"more,omitempty"` // than Number
}

// A CountLimit bounds numbers.
type CountLimit struct {
	AtMost int `json:"at_most,omitzero,string"`
}

// Counts counts the callbacks that are waiting, failed and superseded.
func (o callbackVerbs) Counts(ctx context.Context, l CountLimit) (Counts, error) {
	if l.AtMost < 1 || l.AtMost > 1_000_000 {
		return nil, badRequest("at_most must be given once, from 1 to 1000000")
	}
	counts := Counts{}
	for _, state := range []store.State{store.Waiting, store.Dead, store.Superseded} {
		n, err := o.Store.Count(ctx, store.Filter{State: state, Limit: l.AtMost + 1})
		if err != nil {
			return nil, err
		}
		counts[string(state)] = Number{min(n, l.AtMost), n > l.AtMost}
	}
	return counts, nil
}

// A MissingFilter selects bills whose callback is missing.
type MissingFilter struct {
	PartnerRef
	Limit
}

// A MissingList are bills whose callback is missing, the last found first.
type MissingList struct {
	Bills   []MissingCallback `json:"bills"`
	LeftOut int               `json:"left_out"` // how many more the filter selects, of at most 10,000
}

// A MissingCallback is a bill whose state has moved, as two reads have shown, and no callback has reported it.
type MissingCallback struct {
	Found    time.Time `json:"found"` // by the second read
	Since    time.Time `json:"since"` // the first read
	Upstream string    `json:"upstream"`
	Who
	Bill  string `json:"bill"`
	State string `json:"bill_state"` // what it means, such as paid
	// why no callback was made from the read, in a word; none with deliver: false
	Why string `json:"not_made,omitempty"`
}

// Missing lists bills whose callback is missing.
func (o callbackVerbs) Missing(ctx context.Context, f MissingFilter) (l MissingList, err error) {
	id, err := f.one(ctx, o.core)
	if err != nil {
		return l, err
	}
	most, err := f.get()
	if err != nil {
		return l, err
	}
	found, all, err := o.Store.Missing(ctx, id, most)
	for _, m := range found {
		l.Bills = append(l.Bills, MissingCallback{
			m.Missing, m.Since, m.Upstream, o.who(m.Partner), routing.ShownBill(m.Bill),
			m.Shown, m.Why,
		})
	}
	l.LeftOut = all - len(found)
	return l, err
}

// A CallbackRef names one callback.
type CallbackRef struct {
	ID string `json:"id,omitzero"` // a part of the path
}

// Callback returns one callback with its attempts.
func (o callbackVerbs) Callback(ctx context.Context, ref CallbackRef) (Callback, error) {
	c, err := o.Store.Get(ctx, ref.ID)
	if err != nil {
		return Callback{}, refused(err)
	}
	attempts, err := o.Store.Attempts(ctx, c.ID)
	if err != nil {
		return Callback{}, err
	}
	one := o.callback(c)
	one.Size, one.Digest = len(c.Body), fmt.Sprintf("%x", c.Digest)
	one.Says = o.Relay.StateIn(c).Word
	for _, a := range attempts {
		one.History = append(
			one.History, Attempt{a.Number, a.Ended, a.Took.Seconds(), a.Status, a.Code, a.Outcome, a.Reason},
		)
	}
	return one, nil
}

func (o callbackVerbs) callback(c store.Callback) Callback {
	one := Callback{
		ID: c.ID, Received: c.Received, Who: o.who(c.Partner), Bill: routing.ShownBill(c.Bill), Upstream: c.Upstream,
		State: string(c.State), Form: c.Form, Cursor: c.Cursor,
		Delivery: Delivery{Attempts: c.Attempts, LastAt: known(c.LastAt), Status: c.LastStatus, Outcome: c.LastOutcome},
		Body:     Body{Type: c.ContentType, Deleted: known(c.Erased)},
		Repeats:  c.Repeats, Repeated: known(c.Repeated), Made: c.Made(),
	}
	if c.State == store.Waiting {
		one.Next = known(c.Next)
	}
	if u, err := url.Parse(c.URL); err == nil {
		one.Address = u.Scheme + "://" + u.Host + u.EscapedPath()
	}
	return one
}
