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

// The breaker opens when breakerFailures of the last breakerCalls calls failed, and is half-open after breakerPause.
const (
	breakerFailures = 20
	breakerCalls    = 50
	breakerPause    = 10 * time.Second
)

// A breaker stops the calls to an upstream that cannot be reached or does not answer in time: while it is open, calls are refused and
// nothing is sent. When it is half-open, one call is let through: if it has an answer, the breaker closes, else it opens again. This call is
// a read, since a write without an answer has an unknown outcome; only if no read comes for a second breakerPause can it be a write. It is safe
// for concurrent use.
type breaker struct {
	circuit circuitbreaker.CircuitBreaker[any]
	opened  atomic.Pointer[time.Time]

	upstream string
	log      *slog.Logger

	mu      sync.Mutex // guards the fields below
	retired bool       // a reload has removed or replaced the upstream
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
	b := &breaker{upstream: upstream, log: log, state: m.breakerState.WithLabelValues(upstream), changes: map[circuitbreaker.State]prometheus.Counter{}}
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
		b.log.Warn("the breaker of an upstream is open: most of its last calls failed, and it is not called", "upstream", b.upstream, "pause", breakerPause.String())
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
	trial   bool // the breaker was not closed, and the result of this call decides
}

// enter asks for a permit. Without one nothing must be sent.
func (b *breaker) enter(write bool) (p permit, ok bool) {
	if b.circuit.IsClosed() {
		return permit{breaker: b}, true
	}
	if opened := b.opened.Load(); write && opened != nil && time.Since(*opened) < 2*breakerPause {
		return permit{}, false
	}
	return permit{b, true}, b.circuit.TryAcquirePermit()
}

// pause returns how long the breaker stays open, at least.
func (b *breaker) pause() time.Duration { return max(b.circuit.RemainingDelay(), time.Second) }

// context returns the context of the call. A trial is not cancelled when its caller goes away: callers that give up quickly could keep
// the breaker open. Its deadline holds.
func (p permit) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if !p.trial {
		return ctx, func() {}
	}
	trial := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(trial, deadline)
	}
	return trial, func() {}
}

// end reports how the call ended. err is nil if there was an answer.
func (p permit) end(err *callError) {
	circuit := p.breaker.circuit
	switch failed := err != nil && (err.reason == "timeout" && err.sent && !err.early || err.reason == "refused" && !err.gone); {
	case !p.trial && !circuit.IsClosed(): // the call began before the breaker opened
	case failed:
		circuit.RecordFailure()
	case err == nil || err.sent && !err.gone && !err.early:
		circuit.RecordSuccess()
	case p.trial: // it was not sent, or ended too early to know
		circuit.RecordFailure()
	}
}
