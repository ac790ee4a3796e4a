package upstream

import (
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy/admission"
)

func proofOf(partner int) admission.Proof {
	return admission.Proof{Partner: uint64(partner), Proven: true}
}

// An upstream that freezes at one call every 5 seconds is known to be out after 10 seconds, whether its calls wait, have
// callers that give up, or cannot connect; the breaker is closed then.
func TestOutageIsKnownInTenSeconds(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		after           time.Duration // of which each call ends; 0 for never
		end             *Failure
		waiting, failed int
	}{
		"the calls wait":     {0, nil, 3, 0},
		"callers give up":    {3 * time.Second, &Failure{Kind: Reset, Sent: true, Gone: true}, 1, 2},
		"no connection":      {time.Millisecond, refused, 1, 2},
		"the calls time out": {4 * time.Second, timedOut, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, _ := newTestBreaker(t)
				b.calls(t, 3, false, answered)
				time.Sleep(time.Minute)
				began := time.Now()
				for i := range 3 {
					p, _ := b.enter(proofOf(1+i), false)
					if row.after > 0 {
						time.AfterFunc(row.after, func() { p.end(row.end) })
					}
					if i < 2 {
						time.Sleep(5*time.Second - time.Nanosecond)
						if got := b.health(); got.Outage != nil {
							t.Errorf("after %s: %+v", time.Since(began), got.Outage)
						}
						time.Sleep(time.Nanosecond)
					}
				}
				want := Outage{Since: began, Waiting: row.waiting, Failed: row.failed, Partners: 3}
				if got := b.health(); got.Outage == nil || *got.Outage != want || got.Breaker != "closed" {
					t.Errorf("after 10 s: %+v %+v, want %+v", got, got.Outage, want)
				}
				time.Sleep(time.Minute) // for the calls to end
			})
		})
	}
}

// The begin of an outage stays the same through the trials of the breaker, and the calls that the breaker refuses count.
// With the first answer it is over.
func TestTrialsOfTheBreakerDoNotRestartAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _ := newTestBreaker(t)
		b.calls(t, 1, false, answered)
		began := time.Now()
		b.calls(t, breakerFailures, true, timedOut)
		for range 2 { // trials
			time.Sleep(breakerPause)
			b.calls(t, 1, false, timedOut)
			b.refuses(t, false)
		}
		want := Outage{Since: began, Failed: breakerFailures + 4, Partners: 1}
		if got := b.health(); got.Outage == nil || *got.Outage != want {
			t.Errorf("%+v, want %+v", got.Outage, want)
		}
		time.Sleep(breakerPause)
		b.calls(t, 1, false, answered)
		want.Until = time.Now()
		if got := b.health(); got.Outage != nil || got.Last == nil || *got.Last != want {
			t.Errorf("after an answer: %+v, the last %+v, want %+v", got.Outage, got.Last, want)
		}
	})
}

// What says nothing about the upstream is no outage: a call that fails alone or takes long alone, callers that leave at once, one call that
// hangs while others are answered, and replies that are not passed on.
func TestNoOutage(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string]func(*testing.T, *breaker){
		"one failure": func(t *testing.T, b *breaker) {
			b.calls(t, 1, false, timedOut)
			time.Sleep(time.Hour)
		},
		"one failure, and a call hours later": func(t *testing.T, b *breaker) {
			b.calls(t, 1, false, timedOut)
			time.Sleep(6 * time.Hour)
			waits, _ := b.enter(one, false)
			t.Cleanup(func() { waits.end(answered) })
		},
		"one call takes long": func(t *testing.T, b *breaker) {
			b.calls(t, 1, false, answered)
			long, _ := b.enter(one, false)
			t.Cleanup(func() { long.end(answered) })
			time.Sleep(30 * time.Second)
		},
		"callers leave": func(t *testing.T, b *breaker) {
			b.calls(t, 30, false, &Failure{Kind: Reset, Sent: true, Gone: true})
			time.Sleep(time.Hour)
		},
		"an answer with a status that is not passed on": func(t *testing.T, b *breaker) {
			b.calls(t, 3, false, &Failure{Kind: BadStatus, Sent: true})
			time.Sleep(time.Hour)
		},
		"one call hangs": func(t *testing.T, b *breaker) {
			hangs, _ := b.enter(one, false)
			t.Cleanup(func() { hangs.end(timedOut) })
			for range 10 {
				time.Sleep(outageAfter - time.Second)
				b.calls(t, 1, false, answered)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, _ := newTestBreaker(t)
				calls(t, b)
				time.Sleep(outageAfter - time.Second)
				if got := b.health(); got.Outage != nil {
					t.Errorf("%+v", got.Outage)
				}
			})
		})
	}
}
