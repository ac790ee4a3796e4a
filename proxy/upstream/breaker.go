package upstream

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"billbridge/proxy/admission"

	"github.com/prometheus/client_golang/prometheus"
)

// The breaker opens when breakerFailures of the last breakerCalls calls failed, or when as many calls have waited for
// breakerSlow and no call has had an answer since. It is half-open after breakerPause. While as many other partners get
// answers, the calls of partners with failures count as partnerFailures at most. Before their first success all keys
// count as one partner: anybody can invent them.
const (
	breakerFailures = 20
	breakerCalls    = 50
	partnerFailures = breakerFailures / 2
	breakerSlow     = 10 * time.Second
	breakerPause    = 10 * time.Second
)

// A breaker stops the calls to an upstream that cannot be reached or does not answer in time: while it is open,
// calls are refused and nothing is sent. When it is half-open, one call is let through: the breaker closes unless
// this call timed out, could not connect, was not sent or ended too early; then it opens again. It is a read, since
// a write without an answer has an unknown outcome; only if no read comes for a second breakerPause can it be a
// write. It is safe for concurrent use.
type breaker struct {
	upstream string
	log      *slog.Logger
	reported prometheus.Gauge
	changes  [len(breakerStates)]prometheus.Counter

	mu      sync.Mutex // guards the fields below
	state   breakerState
	opened  time.Time // the last time
	recent  recentCalls
	silence silence
	outages outages
	hung    bool // a silence opened the breaker: it ends with the next answer to any call
	retired bool // a reload has removed or replaced the upstream
}

// A breakerState is a state of a breaker, as in billbridge_upstream_breaker_state.
type breakerState int

const (
	breakerClosed breakerState = iota
	breakerHalfOpen
	breakerOpen
)

// breakerStates are the names of the states, as in billbridge_upstream_breaker_changes_total.
var breakerStates = [...]string{"closed", "half-open", "open"}

func newBreaker(upstream string, m *Metrics, log *slog.Logger) *breaker {
	b := &breaker{upstream: upstream, log: log, reported: m.breakerState.WithLabelValues(upstream)}
	b.reported.Set(0)
	for state, name := range breakerStates {
		b.changes[state] = m.breakerChanges.WithLabelValues(upstream, name)
	}
	return b
}

// change changes the state and reports it. The caller holds mu.
func (b *breaker) change(to breakerState) {
	if to == b.state {
		return
	}
	b.state = to
	switch to {
	case breakerOpen:
		b.opened = time.Now()
	case breakerClosed:
		b.recent = recentCalls{} // failures of an outage that has ended do not count
	}
	if b.retired {
		return
	}
	b.changes[to].Inc()
	b.reported.Set(float64(to))
	switch to {
	case breakerOpen:
		b.log.Warn("the breaker of an upstream is open: many of its last calls failed or have no answer, "+
			"and it is not called",
			"upstream", b.upstream, "pause", breakerPause.String())
	case breakerHalfOpen:
		b.log.Info("the breaker of an upstream is half-open: one call is let through", "upstream", b.upstream)
	case breakerClosed:
		b.log.Info("the breaker of an upstream is closed: it answers again", "upstream", b.upstream)
	}
}

// retire ends the reports: the series may be those of another breaker now.
func (b *breaker) retire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retired = true
}

// A permit is the right to make one call. Its end must be called.
type permit struct {
	breaker *breaker
	partner uint64 // of the key; 0 for all keys that are not proven
	began   time.Time
	silence int // the number of the silence in which it began
	// The breaker was not closed, and the result of this call decides. It counts as failed after breakerSlow.
	trial *time.Timer
}

// A silence is the time since the last answer of the upstream. By it a call that hangs counts before it reaches the
// timeout, which can be long. A slow upstream that answers has no silence.
type silence struct {
	number int
	calls  int       // that began in it, except those that were not sent or given up
	since  time.Time // when there were breakerFailures of them
}

// begin counts a call. It reports whether the upstream hangs.
func (s *silence) begin(now time.Time) (hangs bool) {
	if s.calls++; s.calls == breakerFailures {
		s.since = now
	}
	return s.calls > breakerFailures && now.Sub(s.since) >= breakerSlow
}

// withdraw removes a call that did not fail and had no answer.
func (s *silence) withdraw(number int) {
	if number == s.number {
		s.calls--
	}
}

// end starts the next silence.
func (s *silence) end() { *s = silence{number: s.number + 1} }

// recentCalls are the last calls since the breaker closed. They distinguish an upstream that hangs from calls of a few
// partners that hang.
type recentCalls struct {
	calls [breakerCalls]recentCall
	next  int
}

type recentCall struct {
	partner  uint64
	failed   bool
	answered time.Time // if it did not fail
}

func (r *recentCalls) add(c recentCall) {
	r.calls[r.next] = c
	r.next = (r.next + 1) % len(r.calls)
}

func (r *recentCalls) failures() (n int) {
	for _, c := range r.calls {
		if c.failed {
			n++
		}
	}
	return n
}

// fail records a call that failed. It does not count if there are many failures, and not more partners have failures
// than others got answers meanwhile.
func (r *recentCalls) fail(p permit) {
	failing, others := map[uint64]bool{p.partner: true}, map[uint64]bool{}
	for _, c := range r.calls {
		switch {
		case c.failed:
			failing[c.partner] = true
		case c.answered.After(p.began):
			others[c.partner] = true
		}
	}
	for partner := range failing {
		delete(others, partner)
	}
	if r.failures() < partnerFailures || len(others) < len(failing) {
		r.add(recentCall{partner: p.partner, failed: true})
	}
}

// enter asks for a permit. Without one nothing must be sent.
func (b *breaker) enter(key admission.Proof, write bool) (p permit, ok bool) {
	p = permit{breaker: b, began: time.Now()}
	if key.Proven {
		p.partner = key.Partner
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if ok = b.admits(&p, write); ok {
		b.outages.begin(p.partner, p.began)
	} else {
		b.outages.refused(p.partner, p.began)
	}
	return p, ok
}

// admits reports whether a call may be made. The caller holds mu.
func (b *breaker) admits(p *permit, write bool) bool {
	if b.state == breakerClosed {
		p.silence = b.silence.number
		if !b.silence.begin(p.began) {
			return true
		}
		b.silence.end()
		b.hung = true
		b.change(breakerOpen)
	}
	pause := breakerPause
	if write {
		pause *= 2
	}
	if b.state == breakerHalfOpen || p.began.Sub(b.opened) < pause {
		return false
	}
	b.change(breakerHalfOpen)
	p.trial = time.AfterFunc(breakerSlow, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.failTrial()
	})
	return true
}

// failTrial opens the breaker again, unless the answer to another call has closed it. The caller holds mu.
func (b *breaker) failTrial() {
	if b.state == breakerHalfOpen {
		b.change(breakerOpen)
	}
}

// pause returns how long the breaker stays open, at least one second: it is the value of Retry-After.
func (b *breaker) pause() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(breakerPause-time.Since(b.opened), time.Second)
}

// context returns the context of the call. A trial is not cancelled when its caller goes away: callers that give up
// quickly could keep the breaker open. Its deadline holds.
func (p permit) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.trial == nil {
		return ctx, func() {}
	}
	trial := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(trial, deadline)
	}
	return trial, func() {}
}

// close closes the breaker after an answer. The caller holds mu.
func (b *breaker) close() {
	b.silence.end()
	b.hung = false
	b.change(breakerClosed)
}

// end reports how the call ended. err is nil if there was an answer.
func (p permit) end(err *Failure) {
	b := p.breaker
	failed := err != nil && (err.Kind == Timeout && err.Sent && !err.Early || err.Kind == Refused && !err.Gone)
	answered := err == nil || !failed && err.Sent && !err.Gone && !err.Early
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outages.end(err, p.began, now, b.state != breakerClosed)
	switch {
	case p.trial != nil && answered:
		p.trial.Stop()
		b.close()
	case p.trial != nil: // it failed, was not sent, or ended too early to know
		if p.trial.Stop() { // otherwise it has failed already
			b.failTrial()
		}
	case b.state != breakerClosed: // the call began before the breaker opened
		if answered && b.hung { // the upstream did not hang
			b.close()
		}
	case answered:
		b.recent.add(recentCall{partner: p.partner, answered: now})
		b.silence.end()
	case failed:
		b.recent.fail(p)
		if b.recent.failures() >= breakerFailures {
			b.change(breakerOpen)
		}
	default: // not sent, or given up
		b.silence.withdraw(p.silence)
	}
}
