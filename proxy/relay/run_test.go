package relay_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// A store that does not answer delays the deliverer only for a time limit. The failed claim is counted and logged, and how long the
// callback has been due.
func TestClaimsHaveATimeLimit(t *testing.T) {
	t.Parallel()
	url, clock := proxytest.Postgres(t), newClock()
	s := newTestRelay(t, setup{store: url, now: clock.now})
	s.Carry(success)
	s.ClaimWithin(50 * time.Millisecond)
	db, err := sql.Open("pgx", url)
	must(t, err)
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = tx.Rollback() }()
	s.deliverable("https://partner.example.com/", "1")
	works(t)(tx.ExecContext(t.Context(), "LOCK TABLE billbridge_callbacks IN ACCESS EXCLUSIVE MODE"))
	var attempts sync.WaitGroup
	if n, err := s.Round(t.Context(), &attempts); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d claimed, %v", n, err)
	}
	must(t, tx.Rollback())
	clock.add(time.Minute)
	has(t, s.everything(), "\nbillbridge_callbacks_claims_failed_total 1\n", "a failed claim")
	has(t, s.everything(), "\nbillbridge_callbacks_overdue_seconds 60\n", "the time since it is due")
	has(t, s.logs.String(), `"msg":"callbacks cannot be claimed"`, "the log")
	s.ClaimWithin(patience)
	equal(t, s.round(), 1, "claimed afterwards")
	has(t, s.everything(), "\nbillbridge_callbacks_overdue_seconds 0\n", "afterwards")
}

// When its context ends, Run finishes and records the attempts in progress, and begins no other.
func TestRunEndsWithItsAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestRelay(t, setup{callbacks: tuned(func(c *config.Callbacks) { c.PerHost = 1 })})
		g := newGate("partner.example.com")
		s.carry(g.carry)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Run(ctx)
		}()
		s.deliverable("https://partner.example.com/", "A")
		s.deliverable("https://partner.example.com/", "B")
		synctest.Wait()
		cancel()
		s.deliverable("https://other.example.com/", "C")
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("Run ended before its attempt")
		default:
		}
		g.shut["partner.example.com"] <- struct{}{}
		<-done
		all := s.stored()
		if _, delivered, order := g.now(); delivered != 1 || order != 1 || all[0].State != store.Delivered || all[1].State != store.Waiting || all[2].State != store.Waiting {
			t.Errorf("%d delivered of %d: %+v", delivered, order, all)
		}
	})
}

// A callback that failed while the clock was a year ahead is delivered when the clock is right again, and not a year later. One that
// waits for its next attempt as usual is not delivered earlier.
func TestCallbackDoesNotWaitForAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ahead := time.Duration(0)
		s := newTestRelay(t, setup{callbacks: ", schedule: [0s, 24h, 24h]", now: func() time.Time { return time.Now().Add(ahead) }})
		s.Carry(always(500, ""))
		s.deliverable("https://partner.example.com/", "usual")
		equal(t, s.round(), 1)
		ahead = 365 * 24 * time.Hour
		s.deliverable("https://partner.example.com/", "ahead")
		equal(t, s.round(), 2)
		ahead = -time.Minute
		s.deliverable("https://partner.example.com/", "right")
		equal(t, s.round(), 1)
		s.Carry(success)
		stop := s.start()
		time.Sleep(time.Minute)
		stop()
		for _, c := range s.stored() {
			equal(t, c.State == store.Delivered, c.Bill != "right", c.Bill)
		}
	})
}

// Run continues when the store fails. Its log shows neither the key nor the address of an attempt whose result cannot be stored.
func TestRunSurvivesItsStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestRelay(t, setup{})
		s.deliverable("https://partner.example.com/", "A")
		s.carry(func(r *http.Request) (*http.Response, error) {
			_ = s.store.Close()
			return nil, errors.New(r.URL.String())
		})
		stop := s.start()
		time.Sleep(time.Minute)
		stop()
		got := s.logs.String()
		if has(t, got, "the result of an attempt could not be stored"); len(got) > 10_000 || strings.Contains(got, key) || strings.Contains(got, "example.com") {
			t.Error(got)
		}
	})
}
