package ledger

import (
	"errors"
	"slices"
	"time"
)

var (
	// ErrOtherOwner: the bill is or may be at another upstream.
	ErrOtherOwner = errors.New("the bill belongs to another upstream")
	// ErrNotOpen: the create ended before, or the store was restored from a backup without it.
	ErrNotOpen = errors.New("the create is not open")
	// ErrInProgress: a create of the bill is in progress, or ended recently with an unknown outcome.
	ErrInProgress = errors.New("a create of the bill is in progress")
	// ErrDenied: after the create arrived, another call got the answer that there is no such bill.
	ErrDenied = errors.New("a caller got the answer that there is no such bill")
	// ErrMerchants: writes of several merchants have an unknown outcome, and one must be named.
	ErrMerchants = errors.New("writes of several merchants have an unknown outcome")
)

// An Env is what an event depends on beside the bill.
type Env struct {
	Stamp        func(time.Time) time.Time // a time of this machine by the clock of the store
	Name         func(string) string       // a member or merchant, or "" if it cannot be kept unchanged
	Text         func(string) string       // any other text, as it can be kept
	EstimatedEnd func(time.Time) time.Time // of a bill that nobody said the end of
	Restored     time.Time                 // the last declared restore of the store; zero if there was none
}

// Next is the bill after an event, with what the event contradicts. After an error it is the bill as the event says;
// mostly as it was.
func Next(env Env, b Bill, e Event) (Bill, []Contradiction, error) {
	b = b.clone()
	found, err := e.What.apply(env, env.call(e.Call), &b)
	if len(b.Creates) == 0 { // as it comes from the store
		b.Creates = nil
	}
	return b, found, err
}

// call is a call as a bill keeps it.
func (env Env) call(c Call) Call {
	return Call{
		At: env.Stamp(c.At), Operation: env.Text(c.Operation), Request: env.Text(c.Request), Upstream: c.Upstream,
		Member: env.Name(c.Member), Merchant: env.Name(c.Merchant),
	}
}

// DeniedFor is how long after its arrival a create may be recorded. A denial that seems to be later than that was
// recorded by a wrong clock.
const DeniedFor = 10 * time.Minute

// released is the end of a bill that is nowhere: the next sweep removes it.
var released = time.UnixMilli(0).UTC()

// end is the end of a bill. One that is not after now is estimated: 0001-01-01 may mean a bill without an end.
func (env Env) end(now, until time.Time) (end time.Time, estimated bool) {
	if until.After(now) {
		return until.UTC().Truncate(time.Millisecond), false
	}
	return env.EstimatedEnd(now), true
}

// extend moves the end of the bill, if that is later.
func (b *Bill) extend(end time.Time, estimated bool) {
	if b.Ends.Before(end) {
		b.Ends, b.Estimated = end, estimated
	}
}

func (e CreateBegun) apply(env Env, c Call, b *Bill) ([]Contradiction, error) {
	until, estimated := env.end(c.At, e.Until)
	create := Create{e.Token, c.Member, c.Merchant, e.Amount}
	if len(e.Amount) > amountAtMost {
		create.Amount = ""
	}
	if !b.recorded() {
		b.Upstream, b.State, b.Merchant, b.Creates = c.Upstream, Pending, c.Merchant, []Create{create}
		b.Changed, b.Tried = c.At, c.At
		b.extend(until, estimated)
		return nil, nil
	}
	one := !b.OfOther(c.Merchant)
	denied := !b.Denied.IsZero() && !b.Denied.Before(c.At) && !b.Denied.After(c.At.Add(DeniedFor))
	if denied && !(b.State == Owned && one) {
		return nil, ErrDenied
	}
	switch {
	case b.State == Released:
		b.Upstream, b.State, b.Merchant, b.AlsoAt, b.Changed = c.Upstream, Pending, c.Merchant, "", c.At
	case !one && b.AlsoAt == "":
		b.AlsoAt = b.Upstream
	}
	if !one { // the bill of the other merchant may have ended, but not that of this one
		b.Ended = time.Time{}
	}
	b.Creates = append(b.Creates, create)
	if !b.Tried.After(c.At) || !b.Tried.Before(c.At.Add(DeniedFor)) {
		b.Tried = c.At
	}
	b.extend(until, estimated)
	return nil, nil
}

func (e CreateEnded) apply(env Env, c Call, b *Bill) ([]Contradiction, error) {
	i := slices.IndexFunc(b.Creates, func(c Create) bool { return c.Token == e.Token })
	switch {
	case i >= 0 && (e.Outcome != Succeeded || b.Upstream == c.Upstream):
	case e.Outcome == Succeeded:
		_, err := Found{}.apply(env, c, b)
		if err != nil {
			b.atBoth(c)
		}
		return nil, err
	default:
		return nil, ErrNotOpen
	}
	amount := b.Creates[i].Amount
	b.Creates = slices.Delete(b.Creates, i, i+1)
	notCreated := e.Outcome == Refused || e.Outcome == NotSent
	switch {
	case e.Outcome == Succeeded:
		if b.State == Pending && c.Merchant != "" {
			b.Merchant = c.Merchant
		}
		b.own(c.At)
		if b.Uncertain || len(b.Creates) > 0 { // which of them made the bill is not certain
			amount = ""
		}
		b.another(amount)
	case !notCreated:
		b.Uncertain = true
		b.another("")
	// No other create can have taken effect, and this one did not.
	case b.State == Pending && !b.Uncertain && len(b.Creates) == 0:
		b.State, b.Changed, b.Ends = Released, c.At, released
		for _, w := range b.Writes {
			b.Ends = latest(b.Ends, w.At)
		}
	}
	// If the bill ended before this create, the create may have made another bill with the same id.
	if !notCreated && b.Ended.Before(b.Tried) {
		b.Ended = time.Time{}
	}
	return nil, nil
}

func (e Created) apply(env Env, c Call, b *Bill) ([]Contradiction, error) {
	if !b.recorded() && len(e.Amount) <= amountAtMost {
		b.Amount = e.Amount
	}
	b.Created = &c
	b.plan(env.Stamp(e.Next))
	return nil, nil
}

// amountAtMost is the most bytes of an amount that is kept.
const amountAtMost = 32

// own makes the bill that of its upstream for good.
func (b *Bill) own(at time.Time) {
	if b.State != Owned {
		b.State, b.Changed = Owned, at
	}
}

func (e Found) apply(env Env, c Call, b *Bill) ([]Contradiction, error) {
	end := env.EstimatedEnd(c.At)
	switch one := !b.OfOther(c.Merchant); {
	case !b.recorded() || b.State == Released:
		b.Upstream, b.Merchant, b.Ends, b.Estimated = c.Upstream, c.Merchant, end, true
		if !b.recorded() {
			b.Tried = c.At
		}
		b.own(c.At)
	case one && (b.Upstream == c.Upstream || b.State == Pending && !b.Changed.After(env.Restored)):
		b.Upstream = c.Upstream
		b.own(c.At)
	case one && b.State == Owned:
		b.atBoth(c)
		return nil, ErrOtherOwner
	case one: // a create of it is under way at the other upstream
		return nil, ErrOtherOwner
	case b.AlsoAt != c.Upstream && (b.AlsoAt == "" || b.AlsoAt == b.Upstream):
		b.AlsoAt = c.Upstream
		b.extend(end, true)
		if b.Upstream == c.Upstream {
			b.Ended = time.Time{}
		}
	}
	return nil, nil
}

func (Proved) apply(env Env, c Call, b *Bill) ([]Contradiction, error) {
	return Found{}.apply(env, c, b)
}

func (e Denied) apply(env Env, c Call, b *Bill) ([]Contradiction, error) {
	if !b.recorded() {
		b.State, b.Merchant, b.Ends = Released, c.Merchant, latest(b.Ends, released)
		b.Changed, b.Tried, b.Denied = c.At, c.At, c.At
		return nil, nil
	}
	other := b.OfOther(c.Merchant)
	if b.State == Owned && !other {
		return nil, nil
	}
	settled := len(b.Creates) == 0 && !b.Uncertain && b.State != Pending
	if !settled && b.Tried.After(c.At.Add(-e.UnderWay)) && !b.Tried.After(c.At.Add(DeniedFor)) {
		return nil, ErrInProgress
	}
	b.Denied = c.At
	return nil, nil
}

func (e EndMoved) apply(env Env, c Call, b *Bill) ([]Contradiction, error) {
	until, estimated := env.end(c.At, e.Until)
	if !b.recorded() || b.State == Released {
		return nil, nil
	}
	if b.AlsoAt == "" && !b.OfOther(c.Merchant) || b.AlsoAt != "" && b.Ends.Before(until) {
		b.Ends, b.Estimated = until, estimated
	}
	return nil, nil
}

func (env Env) reading(r Reading) Reading {
	return Reading{env.Text(r.Finding), env.Text(r.State), env.Text(r.Amount), env.Stamp(r.At), r.By}
}

// writesAtMost is how many writes without an answer are kept of a bill: merchants can be invented.
const writesAtMost = 64

func (e WriteUnknown) apply(env Env, c Call, b *Bill) ([]Contradiction, error) {
	b.addWrite(Write{Call: c, Read: env.reading(e.Read)})
	b.plan(env.Stamp(e.Next))
	return nil, nil
}

// addWrite adds a write without an answer; a later one of an operation and merchant takes the place of the former.
func (b *Bill) addWrite(w Write) {
	b.Writes = slices.DeleteFunc(b.Writes, func(was Write) bool {
		return was.Operation == w.Operation && was.Merchant == w.Merchant
	})
	b.Writes = append(b.Writes, w)
	if n := len(b.Writes); n > writesAtMost {
		drop := max(0, slices.IndexFunc(b.Writes, func(w Write) bool { return !w.Resolved.IsZero() }))
		b.Writes = slices.Delete(b.Writes, drop, drop+1)
	}
	b.Reads = 0
	b.Ends = latest(b.Ends, w.At) // it is kept as long as a bill that ended then
}

// plan makes the gateway read the bill at a time, or earlier.
func (b *Bill) plan(next time.Time) {
	if b.Due.IsZero() || next.Before(b.Due) {
		b.Due = next
	}
}

func (e Looked) apply(env Env, c Call, b *Bill) ([]Contradiction, error) {
	shown := e.Read.State != ""
	same := b.Upstream == c.Upstream && !b.OfOther(c.Merchant)
	resolves := c.At.Add(-e.Settles)
	var found []Contradiction
	switch {
	case same && e.Said:
		b.said(c, e.Shows)
	case same && shown:
		found = b.look(c, e.Shows)
	}
	if shown && e.Final {
		resolves = c.At
		if !e.Said && same && b.State == Owned && b.Ended.IsZero() && !b.Tried.After(c.At) && b.AlsoAt == "" {
			b.Ended = c.At
		}
	}
	read := env.reading(e.Read)
	read.At = c.At
	owned := b.State == Owned && !b.OfOther(c.Merchant)
	for i := range b.Writes {
		w := &b.Writes[i]
		if w.Upstream != c.Upstream || !w.Resolved.IsZero() || !sameMerchant(w.Merchant, c.Merchant) {
			continue
		}
		w.Read = read
		// A create without a request can be another one, see Interrupted.
		notMade := e.Absent && w.Operation == CreateOperation && w.Merchant == c.Merchant && w.Request != "" && !owned
		if !w.At.After(resolves) && (shown || notMade) {
			w.Resolved = c.At
		}
	}
	b.rest()
	return found, nil
}

func (e Told) apply(_ Env, c Call, b *Bill) ([]Contradiction, error) {
	// It may be sent again, or late: it says nothing if it is from before what is known.
	before := func(of Sight) bool { return of.Means != e.Means && e.Moves.reaches(e.Means, of.Means) }
	if b.Upstream != c.Upstream || before(b.Seen) || before(b.Said) {
		return nil, nil
	}
	return b.look(c, e.Shows), nil
}

// CreateOperation is the name of the operation that creates bills.
const CreateOperation = "bill.create"

// rest ends the reads of the gateway when they have nothing to find out any more.
func (b *Bill) rest() {
	if len(b.Awaited()) == 0 {
		b.Due = time.Time{}
	}
}

func (e ReadEnded) apply(env Env, c Call, b *Bill) ([]Contradiction, error) {
	if b.Created != nil && b.Created.Request == e.Created {
		b.Created = nil
	}
	if !b.Due.Equal(e.Claimed) {
		return nil, nil
	}
	b.Due = time.Time{}
	for _, waits := range b.Awaited() {
		if next := e.Next(waits.At, c.At); !next.IsZero() {
			b.plan(next)
		}
	}
	return nil, nil
}

func (e Claimed) apply(_ Env, c Call, b *Bill) ([]Contradiction, error) {
	if !b.Due.IsZero() {
		b.Reads++
		b.Due = c.At.Add(e.For)
	}
	return nil, nil
}

func (e Dismissed) apply(env Env, c Call, b *Bill) ([]Contradiction, error) {
	of := map[string]bool{}
	for _, w := range b.Writes {
		if w.Resolved.IsZero() {
			of[w.Merchant] = true
		}
	}
	if c.Merchant == "" && len(of) > 1 {
		return nil, ErrMerchants
	}
	for i := range b.Writes {
		if w := &b.Writes[i]; w.Resolved.IsZero() && (c.Merchant == "" || w.Merchant == c.Merchant) {
			w.Resolved, w.Read = c.At, Reading{Finding: e.Finding, At: c.At, By: e.By}
		}
	}
	b.rest()
	return nil, nil
}

func (e Interrupted) apply(env Env, c Call, b *Bill) ([]Contradiction, error) {
	if !b.Tried.Before(c.At) {
		return nil, nil
	}
	for _, of := range b.Creates {
		if b.OfOther(of.Merchant) || b.State == Pending && !b.Uncertain {
			w := Write{Read: Reading{Finding: e.Finding}}
			w.Call = Call{b.Tried, CreateOperation, "", b.Upstream, of.Member, of.Merchant}
			if !slices.ContainsFunc(b.Writes, func(is Write) bool {
				return is.Operation == w.Operation && !is.At.Before(w.At) && sameMerchant(is.Merchant, w.Merchant)
			}) {
				b.addWrite(w)
				b.plan(env.Stamp(e.Next))
			}
		}
	}
	return nil, nil
}

func (AtBoth) apply(_ Env, c Call, b *Bill) ([]Contradiction, error) {
	b.atBoth(c)
	return nil, nil
}

// atBoth marks the bill by the first call that showed it at both upstreams.
func (b *Bill) atBoth(c Call) {
	if b.Doubled == nil {
		b.Doubled = &c
	}
}

func (e Assigned) apply(env Env, c Call, b *Bill) ([]Contradiction, error) {
	same := b.Upstream == c.Upstream
	if !same {
		b.Ended = time.Time{}
	}
	if !b.recorded() {
		b.Tried = c.At
	}
	b.Upstream, b.State, b.Merchant, b.Changed, b.Doubled = c.Upstream, Owned, "", c.At, nil
	b.another("")
	b.extend(env.EstimatedEnd(c.At), true)
	return nil, nil
}
