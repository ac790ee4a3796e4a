package proxy

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/prometheus/client_golang/prometheus"
)

// The breaker opens when breakerFailures of the last breakerCalls calls failed, or when as many calls have waited for
// breakerSlow and no call has had an answer since. It is half-open after breakerPause. One partner's calls count as
// partnerFailures at most while other partners get answers.
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
	circuit circuitbreaker.CircuitBreaker[any]
	opened  atomic.Pointer[time.Time]

	upstream string
	log      *slog.Logger

	mu      sync.Mutex // guards the fields below
	recent  recentCalls
	silence silence
	hung    bool // a silence opened the breaker: it ends with the next answer to any call
	retired bool // a reload has removed or replaced the upstream
	state   prometheus.Gauge
	changes map[circuitbreaker.State]prometheus.Counter
}

// breakerStates are the states, with their values of billbridge_upstream_breaker_changes_total.
var breakerStates = map[circuitbreaker.State]string{
	circuitbreaker.ClosedState: "closed", circuitbreaker.HalfOpenState: "half-open", circuitbreaker.OpenState: "open",
}

// stateValues are the values of billbridge_upstream_breaker_state.
var stateValues = map[circuitbreaker.State]float64{
	circuitbreaker.ClosedState: 0, circuitbreaker.HalfOpenState: 1, circuitbreaker.OpenState: 2,
}

func newBreaker(upstream string, m *metrics, log *slog.Logger) *breaker {
	b := &breaker{
		upstream: upstream, log: log,
		state:   m.breakerState.WithLabelValues(upstream),
		changes: map[circuitbreaker.State]prometheus.Counter{},
	}
	b.state.Set(0)
	for state, label := range breakerStates {
		b.changes[state] = m.breakerChanges.WithLabelValues(upstream, label)
	}
	b.circuit = circuitbreaker.NewBuilder[any]().
		WithFailureThresholdRatio(breakerFailures, breakerCalls).
		WithSuccessThreshold(1).
		WithDelay(breakerPause).
		OnStateChanged(b.changed).
		Build()
	return b
}

// changed reports a change of the state.
func (b *breaker) changed(e circuitbreaker.StateChangedEvent) {
	if e.NewState == circuitbreaker.OpenState {
		now := time.Now()
		b.opened.Store(&now)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.retired {
		return
	}
	b.changes[e.NewState].Inc()
	b.state.Set(stateValues[b.circuit.State()]) // not that of e: calls can report their changes in another order
	switch e.NewState {
	case circuitbreaker.OpenState:
		b.log.Warn("the breaker of an upstream is open: many of its last calls failed or have no answer, "+
			"and it is not called",
			"upstream", b.upstream, "pause", breakerPause.String())
	case circuitbreaker.HalfOpenState:
		b.log.Info("the breaker of an upstream is half-open: one call is let through", "upstream", b.upstream)
	case circuitbreaker.ClosedState:
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
	partner uint64 // hash of the partner's key
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

// recentCalls are the last calls while the breaker was closed. They distinguish an upstream that hangs from calls of
// one partner that hang.
type recentCalls struct {
	failed   [breakerCalls]uint64 // the partner of a call that failed, 0 for a call with an answer
	next     int
	answered [2]struct { // the last answer, and the last one to another partner
		partner uint64
		at      time.Time
	}
}

func (r *recentCalls) add(failed uint64) {
	r.failed[r.next] = failed
	r.next = (r.next + 1) % len(r.failed)
}

// answer records a call with an answer.
func (r *recentCalls) answer(partner uint64, now time.Time) {
	r.add(0)
	if r.answered[0].partner != partner {
		r.answered[1] = r.answered[0]
	}
	r.answered[0].partner, r.answered[0].at = partner, now
}

// fail records a call that failed. It reports false if the call must not count: the partner has many of the
// failures, and another partner got an answer meanwhile.
func (r *recentCalls) fail(p permit) (counts bool) {
	n := 0
	for _, partner := range r.failed {
		if partner == p.partner {
			n++
		}
	}
	if n >= partnerFailures {
		for _, other := range r.answered {
			if other.partner != p.partner && other.at.After(p.began) {
				return false
			}
		}
	}
	r.add(p.partner)
	return true
}

// enter asks for a permit. Without one nothing must be sent.
func (b *breaker) enter(partner uint64, write bool) (p permit, ok bool) {
	p = permit{breaker: b, partner: max(partner, 1), began: time.Now()}
	if b.circuit.IsClosed() {
		b.mu.Lock()
		p.silence = b.silence.number
		hangs := b.silence.begin(p.began)
		if hangs {
			b.silence.end()
			b.hung = true
		}
		b.mu.Unlock()
		if !hangs {
			return p, true
		}
		b.circuit.Open()
	}
	if opened := b.opened.Load(); write && opened != nil && time.Since(*opened) < 2*breakerPause {
		return p, false
	}
	if !b.circuit.TryAcquirePermit() {
		return p, false
	}
	p.trial = time.AfterFunc(breakerSlow, b.circuit.RecordFailure)
	return p, true
}

// pause returns how long the breaker stays open, at least one second: it is the value of Retry-After.
func (b *breaker) pause() time.Duration { return max(b.circuit.RemainingDelay(), time.Second) }

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

// close closes the breaker after an answer.
func (b *breaker) close() {
	b.mu.Lock()
	b.silence.end()
	b.hung = false
	b.mu.Unlock()
	b.circuit.Close()
}

// end reports how the call ended. err is nil if there was an answer.
func (p permit) end(err *callError) {
	b := p.breaker
	failed := err != nil && (err.reason == "timeout" && err.sent && !err.early || err.reason == "refused" && !err.gone)
	answered := err == nil || !failed && err.sent && !err.gone && !err.early
	switch closed := b.circuit.IsClosed(); {
	case p.trial != nil && answered:
		p.trial.Stop()
		b.close()
	case p.trial != nil: // it failed, was not sent, or ended too early to know
		if p.trial.Stop() {
			b.circuit.RecordFailure()
		}
	case !closed: // the call began before the breaker opened
		b.mu.Lock()
		slow := answered && b.hung
		b.mu.Unlock()
		if slow { // the upstream did not hang
			b.close()
		}
	case answered:
		b.mu.Lock()
		b.recent.answer(p.partner, time.Now())
		b.silence.end()
		b.mu.Unlock()
		b.circuit.RecordSuccess()
	case failed:
		b.mu.Lock()
		counts := b.recent.fail(p)
		b.mu.Unlock()
		if counts { // not under the lock: it may call changed
			b.circuit.RecordFailure()
		}
	default: // not sent, or given up
		b.mu.Lock()
		b.silence.withdraw(p.silence)
		b.mu.Unlock()
	}
}
