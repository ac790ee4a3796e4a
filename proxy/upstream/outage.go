package upstream

import "time"

const (
	// outageAfter is how long a silence lasts before it is an outage.
	outageAfter = 10 * time.Second
	// A call that its caller gave up before soon says nothing about the upstream.
	soon = time.Second
	// A single call without an answer is the begin of an outage only if others follow within this time.
	forgotten = 5 * time.Minute
)

// An Outage is a time in which an upstream answered no call, whatever its breaker did.
type Outage struct {
	Since    time.Time // when the first of its calls began
	Until    time.Time // when an answer ended it; zero while it lasts
	Waiting  int       // calls that wait for an answer
	Failed   int       // calls that ended without an answer, or were refused by the breaker
	Partners int       // whose calls these are
}

// A Health is what the calls to an upstream say about it.
type Health struct {
	Breaker string  // closed, half-open or open
	Outage  *Outage // nil if there is none
	Last    *Outage // the last one that has ended; nil if there was none
}

// outages follow the calls to an upstream. The mutex of the breaker guards them.
type outages struct {
	since    Outage          // what there was since the last answer
	partners map[uint64]bool // of its calls
	last     *Outage
}

// begin counts a call that waits for an answer.
func (o *outages) begin(partner uint64, now time.Time) {
	o.of(partner, now)
	o.since.Waiting++
}

// refused counts a call that the breaker did not let through.
func (o *outages) refused(partner uint64, now time.Time) {
	o.of(partner, now)
	o.since.Failed++
}

func (o *outages) of(partner uint64, now time.Time) {
	if o.since.Waiting == 0 && o.since.Failed <= 1 && now.Sub(o.since.Since) >= forgotten {
		o.since = Outage{}
		clear(o.partners)
	}
	if o.since.Since.IsZero() {
		o.since.Since = now
	}
	if partner != 0 {
		if o.partners == nil {
			o.partners = map[uint64]bool{}
		}
		o.partners[partner] = true
	}
}

// end counts the end of a call that began.
func (o *outages) end(err *Failure, began, now time.Time, open bool) {
	o.since.Waiting--
	switch {
	case err == nil || err.Kind == BadStatus || err.Kind == TooLarge || err.Kind == Framing || err.Kind == Truncated:
		o.answer(now, open)
	case !err.Gone && !err.Early && err.Kind != GivenUp || now.Sub(began) >= soon:
		o.since.Failed++
	case o.since.Waiting == 0 && o.since.Failed == 0:
		o.since.Since = time.Time{}
	}
}

// answer starts again. Calls that still wait do so since now.
func (o *outages) answer(now time.Time, open bool) {
	if o.lasts(now, open) {
		ended := o.outage()
		ended.Until, ended.Waiting = now, 0
		o.last = ended
	}
	o.since = Outage{Waiting: o.since.Waiting}
	if o.since.Waiting > 0 {
		o.since.Since = now
	}
	if len(o.partners) > 100 { // to clear a large map takes long for ever
		o.partners = nil
	}
	clear(o.partners)
}

// lasts reports whether there is an outage: one call that fails alone, or takes long, is none.
func (o *outages) lasts(now time.Time, open bool) bool {
	long := now.Sub(o.since.Since) >= outageAfter && o.since.Waiting+o.since.Failed > 1
	return !o.since.Since.IsZero() && (open || long)
}

func (o *outages) outage() *Outage {
	is := o.since
	is.Partners = len(o.partners)
	return &is
}

// health returns what the calls say.
func (b *breaker) health() Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := Health{Breaker: breakerStates[b.state], Last: b.outages.last}
	if b.outages.lasts(time.Now(), b.state != breakerClosed) {
		h.Outage = b.outages.outage()
	}
	return h
}
