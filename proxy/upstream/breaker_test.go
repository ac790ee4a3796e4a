package upstream

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy/admission"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// How a call ended, for a breaker.
var (
	answered  *Failure
	timedOut  = &Failure{Kind: Timeout, Sent: true}
	refused   = &Failure{Kind: Refused}
	broke     = &Failure{Kind: Reset, Sent: true}
	notFree   = &Failure{Kind: Busy}
	lateProbe = &Failure{Kind: Timeout}
	sentProbe = &Failure{Kind: Timeout, Sent: true, Early: true}
	callerOut = &Failure{Kind: Refused, Gone: true}
)

// one is the key of a partner.
var one = admission.Proof{Partner: 1, Proven: true}

func newTestBreaker(t *testing.T) (*breaker, *bytes.Buffer) {
	t.Helper()
	m := NewMetrics(nil)
	log := new(bytes.Buffer)
	return newBreaker("up", m, slog.New(slog.NewTextHandler(log, nil))), log
}

// calls makes calls that end so, and fails the test if the breaker refuses one.
func (b *breaker) calls(t *testing.T, n int, write bool, end *Failure) {
	t.Helper()
	for i := range n {
		p, ok := b.enter(one, write)
		if !ok {
			t.Fatalf("call %d of %d is refused", i+1, n)
		}
		p.end(end)
	}
}

// refuses fails the test unless the breaker refuses a read or a write.
func (b *breaker) refuses(t *testing.T, write bool) {
	t.Helper()
	if _, ok := b.enter(one, write); ok {
		t.Fatalf("a call is let through; it is a write: %t", write)
	}
}

func TestBreakerOpensAfterFailuresOnly(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		ends []*Failure
		open bool
	}{
		{"timeouts", []*Failure{timedOut}, true},
		{"not reachable", []*Failure{refused}, true},
		{"both", []*Failure{timedOut, refused}, true},
		{"two of five fail", []*Failure{timedOut, answered, refused, answered, answered}, true},
		{"one of three fails", []*Failure{timedOut, answered, answered}, false},
		{"answers", []*Failure{answered}, false},
		{"replies that break off", []*Failure{broke}, false},
		{"no connection is free", []*Failure{notFree}, false},
		{"not sent in the time of a probe", []*Failure{lateProbe}, false},
		{"no answer in the time of a probe", []*Failure{sentProbe}, false},
		{"no answer in the time of a probe, between failures", []*Failure{sentProbe, timedOut}, true},
		{"callers disconnect", []*Failure{callerOut}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b, _ := newTestBreaker(t)
			for i := range 200 {
				p, ok := b.enter(one, i%2 == 0)
				if !ok {
					break
				}
				p.end(row.ends[i%len(row.ends)])
			}
			if _, ok := b.enter(one, true); ok == row.open {
				t.Errorf("open: %t, want %t", !ok, row.open)
			}
		})
	}
	b, _ := newTestBreaker(t)
	b.calls(t, breakerFailures-1, true, timedOut)
	b.calls(t, breakerCalls-breakerFailures+1, true, answered) // the first failure is the 50th call back
	b.calls(t, 1, true, answered)
	b.calls(t, 1, true, timedOut)
	b.calls(t, 1, true, answered)
}

func TestBreakerLetsOneReadThroughAndThenAWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, log := newTestBreaker(t)
		early, _ := b.enter(one, false)
		b.calls(t, breakerFailures, true, timedOut)
		b.refuses(t, false)
		b.refuses(t, true)
		if got := b.pause(); got != breakerPause {
			t.Errorf("the pause is %s", got)
		}
		time.Sleep(breakerPause - time.Second)
		b.refuses(t, false)
		if got := b.pause(); got != time.Second {
			t.Errorf("Retry-After is %s", got)
		}
		time.Sleep(time.Second)
		b.refuses(t, true)
		trial, ok := b.enter(one, false)
		if !ok {
			t.Fatal("no read is let through")
		}
		b.refuses(t, false) // a second one
		early.end(answered) // it began before the breaker opened, and does not decide
		early.end(timedOut)
		if state := b.health().Breaker; state != "half-open" {
			t.Fatalf("a call that began before has changed the breaker to %s", state)
		}
		trial.end(timedOut)
		b.refuses(t, false) // open again
		time.Sleep(2*breakerPause - time.Second)
		b.refuses(t, true)
		time.Sleep(time.Second)
		b.calls(t, 1, true, notFree) // the write was not sent, which decides nothing: open again
		b.refuses(t, false)
		time.Sleep(breakerPause)
		b.calls(t, 1, false, answered)
		b.calls(t, breakerCalls, true, answered)

		var states []string
		for line := range strings.Lines(log.String()) {
			for _, state := range []string{"half-open", "closed", "open"} {
				if strings.Contains(line, "is "+state+":") {
					states = append(states, state)
					break
				}
			}
		}
		if got := strings.Join(states, " "); got != "open half-open open half-open open half-open closed" {
			t.Errorf("the log has %s", got)
		}
		for state, label := range breakerStates {
			want := map[string]float64{"open": 3, "half-open": 3, "closed": 1}[label]
			if got := testutil.ToFloat64(b.changes[state]); got != want {
				t.Errorf("%v changes to %s, want %v", got, label, want)
			}
		}
	})
}

// A caller that disconnects does not end the call that decides, and a deadline does.
func TestBreakerTrialOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	b, _ := newTestBreaker(t)
	ctx, disconnect := context.WithTimeout(t.Context(), time.Hour)
	deadline, _ := ctx.Deadline()
	closed, release := permit{breaker: b}.context(ctx)
	defer release()
	trial, release := permit{breaker: b, trial: time.NewTimer(time.Hour)}.context(ctx)
	defer release()
	disconnect()
	if closed.Err() == nil || trial.Err() != nil {
		t.Errorf("a call: %v, a trial: %v", closed.Err(), trial.Err())
	}
	if got, ok := trial.Deadline(); !ok || !got.Equal(deadline) {
		t.Errorf("the deadline of the trial is %s, want %s", got, deadline)
	}
}

// A breaker of an upstream that a reload has removed does not report: its series may be those of the next one.
func TestRetiredBreakerDoesNotReport(t *testing.T) {
	t.Parallel()
	b, log := newTestBreaker(t)
	b.retire()
	b.calls(t, breakerFailures, true, refused)
	if log.Len() != 0 || testutil.ToFloat64(b.reported) != 0 {
		t.Errorf("state %v, log %s", testutil.ToFloat64(b.reported), log)
	}
}

// Calls of a partner that hang do not stop the others: they count as half of the failures that open the breaker.
// If fewer other partners get an answer, they all count. All keys without a success are one partner.
func TestCallsOfOnePartnerDoNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		partners uint64   // whose calls fail
		answered []uint64 // whose calls are answered meanwhile
		open     bool
		invented bool // their keys had no success before
	}{
		{"one partner, another gets answers", 1, []uint64{9}, false, false},
		{"one partner, another gets answers, and then it too", 1, []uint64{9, 1}, false, false},
		{"one partner, it gets answers", 1, []uint64{1}, true, false},
		{"one partner, nobody gets answers", 1, nil, true, false},
		{"two partners", 2, []uint64{9}, true, false},
		{"two partners, two others get answers", 2, []uint64{8, 9}, false, false},
		{"many partners", 20, []uint64{99}, true, false},
		{"many invented keys", 20, []uint64{99}, false, true},
		{"many invented keys, nobody gets answers", 20, nil, true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, _ := newTestBreaker(t)
				for range 3 { // bursts, as when calls begin together and reach their timeout together
					var failing []permit
					for i := range uint64(40) {
						p, ok := b.enter(admission.Proof{Partner: 1 + i%row.partners, Proven: !row.invented}, true)
						if !ok {
							break
						}
						failing = append(failing, p)
					}
					time.Sleep(time.Second)
					for _, partner := range row.answered {
						if p, ok := b.enter(admission.Proof{Partner: partner, Proven: true}, false); ok {
							p.end(answered)
						}
					}
					for _, p := range failing {
						p.end(timedOut)
					}
				}
				if open := b.state == breakerOpen; open != row.open {
					t.Errorf("open: %t, want %t", open, row.open)
				}
			})
		})
	}
}

// An upstream that hangs is noticed after breakerSlow, however long its timeout is. A slow upstream that answers, and callers that give up, do
// not open the breaker.
func TestBreakerOpensWhileCallsHang(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		after  time.Duration
		end    *Failure
		opened time.Duration // 0 for never
	}{
		{"no call ends", time.Hour, answered, 20 * time.Second},
		{"no call is answered, and each ends after 30 s", 30 * time.Second, timedOut, 20 * time.Second},
		{"answers after 12 s", 12 * time.Second, answered, 0},
		{"callers disconnect after 2 s", 2 * time.Second, callerOut, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, _ := newTestBreaker(t)
				began, opened := time.Now(), time.Duration(0)
				for range 100 { // two each second: the 20th after 9.5 s
					if p, ok := b.enter(one, false); ok {
						time.AfterFunc(row.after, func() { p.end(row.end) })
					} else if opened == 0 {
						opened = time.Since(began)
					}
					time.Sleep(time.Second / 2)
				}
				if opened.Round(time.Second) != row.opened {
					t.Errorf("the breaker opened after %s, want %s", opened, row.opened)
				}
			})
		})
	}
}

// A trial counts as failed after breakerSlow, so that the next one need not wait for its timeout. Its answer closes the breaker at any time.
func TestBreakerClosesWithALateTrial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _ := newTestBreaker(t)
		b.calls(t, breakerFailures, true, timedOut)
		time.Sleep(breakerPause)
		trial, ok := b.enter(one, false)
		time.Sleep(breakerSlow + time.Second)
		if state := b.health().Breaker; !ok || state != "open" {
			t.Fatalf("a trial was let through: %t; after %s the breaker is %s", ok, breakerSlow, state)
		}
		trial.end(answered)
		b.calls(t, 1, true, answered)
	})
}

// A burst of slow calls opens the breaker. The first of them that has an answer closes it: the upstream did not hang.
func TestBreakerClosesWithTheAnswerToASlowCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _ := newTestBreaker(t)
		for range 64 {
			p, _ := b.enter(one, true)
			time.AfterFunc(12*time.Second, func() { p.end(answered) })
		}
		time.Sleep(breakerSlow + time.Second)
		b.refuses(t, true)
		time.Sleep(2 * time.Second)
		b.calls(t, 1, true, answered)
	})
}

// After an outage that all partners noticed, the calls of one partner that hang do not open the breaker again.
func TestFailuresOfAnOutageThatHasEndedDoNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _ := newTestBreaker(t)
		for partner := range uint64(breakerFailures) {
			p, _ := b.enter(admission.Proof{Partner: partner, Proven: true}, true)
			p.end(timedOut)
		}
		b.refuses(t, true)
		time.Sleep(breakerPause)
		b.calls(t, 1, false, answered)
		var hanging []permit
		for range 2 * breakerFailures {
			p, _ := b.enter(one, true)
			hanging = append(hanging, p)
		}
		time.Sleep(time.Second)
		p, _ := b.enter(admission.Proof{Partner: 2, Proven: true}, true)
		p.end(answered)
		for _, p := range hanging {
			p.end(timedOut)
		}
		b.calls(t, 1, true, answered)
	})
}

// A trial that fails after another call has closed the breaker decides nothing.
func TestTrialThatFailsLateDoesNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{breakerSlow / 2, 2 * breakerSlow} {
		synctest.Test(t, func(t *testing.T) {
			b, _ := newTestBreaker(t)
			slow, _ := b.enter(one, true)
			for range breakerFailures {
				b.enter(one, true)
			}
			time.Sleep(breakerSlow)
			b.refuses(t, false)
			time.Sleep(breakerPause)
			trial, ok := b.enter(one, false)
			if !ok {
				t.Fatal("no read is let through")
			}
			slow.end(answered) // the upstream did not hang
			b.calls(t, 1, true, answered)
			time.Sleep(after)
			trial.end(timedOut)
			b.calls(t, 1, true, answered)
		})
	}
}
