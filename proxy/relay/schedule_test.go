package relay_test

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/config"
	"billbridge/proxy/store"
)

var gaps = []time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// Every attempt is made at its time, with one id, and none after the last.
func TestR31_DefaultSchedule(t *testing.T) {
	t.Parallel()
	const many = 20
	clock := newClock()
	s := newTestRelay(t, setup{now: clock.now, jitter: true})
	ids := map[string]int{}
	s.carry(func(r *http.Request) (*http.Response, error) {
		ids[r.Header.Get("Webhook-Id")]++
		return reply(500, ""), nil
	})
	var least, most float64 = 2, 0
	for range many {
		clear(ids)
		a := asked("v2", "https://partner.example.com/")
		s.accept(s.bind(a), notice("v2", key, bill))
		all := s.stored()
		id := all[len(all)-1].ID
		for attempt, gap := range gaps {
			c := s.callback(id)
			wait := c.Next.Sub(clock.now())
			if wait < gap-gap/10 || wait > gap+gap/10 || c.Attempts != attempt || c.State != store.Waiting {
				t.Fatalf("attempt %d: in %s, %s after %d attempts", attempt, wait, c.State, c.Attempts)
			}
			if gap > 0 {
				least, most = min(least, wait.Seconds()/gap.Seconds()), max(most, wait.Seconds()/gap.Seconds())
			}
			clock.set(c.Next.Add(-time.Millisecond))
			if s.round() != 0 {
				t.Fatalf("attempt %d came early", attempt)
			}
			clock.set(c.Next)
			if s.round() != 1 {
				t.Fatalf("attempt %d did not come", attempt)
			}
		}
		if c := s.callback(id); c.State != store.Dead || c.Attempts != 10 || ids[id] != 10 || len(ids) != 1 {
			t.Fatalf("%+v %v", c, ids)
		}
		for range 100 {
			clock.add(24 * time.Hour)
			if s.round() != 0 {
				t.Fatal("it is tried again")
			}
		}
	}
	// 180 gaps spread over a fifth of themselves.
	if least > 0.95 || most < 1.05 {
		t.Errorf("gaps are %.3f to %.3f of the schedule's", least, most)
	}
	s.counts("billbridge_callbacks_dead", `{upstream="up"} 20`)
	s.counts("billbridge_callbacks_attempts_total", `{outcome="status",upstream="up"} 200`)
}

func (s *testRelay) callback(id string) store.Callback {
	s.t.Helper()
	c, err := s.store.Get(context.Background(), id)
	must(s.t, err)
	return c
}

// A gap begins at the end of the attempt before, which is the recorded time.
func TestGapBeginsAtTheEndOfAnAttempt(t *testing.T) {
	t.Parallel()
	s, clock := waiting(t, "v2", ", schedule: [0s, 1m]")
	s.carry(func(*http.Request) (*http.Response, error) {
		clock.add(10 * time.Second)
		return reply(500, ""), nil
	})
	s.round()
	if c := s.only(); !c.Next.Equal(clock.now().Add(time.Minute)) || !c.LastAt.Equal(clock.now()) {
		t.Errorf("last %s and next %s at %s", c.LastAt, c.Next, clock.now())
	}
}

// Run follows the schedule exactly, and begins at once with a callback that is accepted while it sleeps.
func TestRunKeepsTheSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestRelay(t, setup{callbacks: ", schedule: [0s, 5s, 7s, 5m, 30m]"})
		begun := time.Now()
		var at []time.Duration
		s.carry(func(*http.Request) (*http.Response, error) {
			at = append(at, time.Since(begun))
			return reply(500, ""), nil
		})
		stop := s.start()
		time.Sleep(time.Hour + 1234*time.Millisecond) // the bubble's clock
		begun = time.Now()
		s.accept(s.path("v2"), inV2)
		time.Sleep(2 * time.Hour)
		stop()
		want := []time.Duration{0, 5 * time.Second, 12 * time.Second, 312 * time.Second, 2112 * time.Second}
		if !slices.Equal(at, want) || s.only().State != store.Dead {
			t.Errorf("%v, want %v", at, want)
		}
	})
}

// A callback that becomes due between the query for due callbacks and the query for the next time does not wait for the next
// interval.
func TestCallbackDueBetweenTwoQueriesIsDelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		s := newTestRelay(t, setup{callbacks: ", schedule: [1500ms]", now: func() time.Time {
			return time.Now().Add(time.Duration(looks.Add(1)) * time.Second) // time passes between any two
		}})
		begun, at := time.Now(), time.Hour
		s.carry(func(*http.Request) (*http.Response, error) {
			at = time.Since(begun)
			return reply(200, documented["v2"]), nil
		})
		path := s.path("v2")
		stop := s.start()
		synctest.Wait()
		begun = time.Now()
		s.accept(path, inV2)
		time.Sleep(time.Minute)
		if stop(); at > time.Second {
			t.Errorf("after %s", at)
		}
	})
}

// start runs Run until the function that it returns is called.
func (s *testRelay) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// Run removes old rows at its start and while it runs.
func TestRunRemovesOldRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestRelay(t, setup{callbacks: tuned(func(c *config.Callbacks) { c.Window, c.Retention = time.Hour, 90*time.Minute })})
		s.Carry(success)
		path := s.path("v2")
		s.accept(path, inV2)
		stop := s.start()
		time.Sleep(time.Hour + time.Minute)
		equal(t, s.only().State, store.Delivered)
		time.Sleep(time.Hour)
		equal(t, len(s.stored()), 0)
		answers(t, s.post(path, inV2), 404)
		stop()
	})
}

// Run deletes the bodies of delivered callbacks, unless the clock may be wrong. The rows stay.
func TestR34_RunDeletesBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestRelay(t, setup{callbacks: tuned(func(c *config.Callbacks) { c.KeepBodies = 30 * time.Minute })})
		s.Carry(success)
		s.accept(s.path("v2"), inV2)
		works(t)(s.store.Tick(t.Context(), time.Now().Add(4*365*24*time.Hour)))
		stop := s.start()
		time.Sleep(2 * time.Hour)
		if c := s.only(); c.State != store.Delivered || !c.Erased.IsZero() {
			t.Errorf("with a wrong clock: %+v", c)
		}
		must(t, s.store.ConfirmClock(t.Context(), store.Author{Name: "anna"}, time.Now()))
		time.Sleep(70 * time.Minute)
		if c := s.only(); c.State != store.Delivered || c.Erased.IsZero() {
			t.Errorf("after it was confirmed: %+v", c)
		}
		stop()
	})
}
