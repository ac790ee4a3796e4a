package store_test

import (
	"context"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

const years = 4 * 365 * 24 * time.Hour

// tick returns the store's clock when the machine's shows now.
func tick(t testing.TB, s *store.Store, now time.Time) store.Clock {
	t.Helper()
	c, err := s.Tick(t.Context(), now)
	must(t, err)
	return c
}

// reopen is another process on the same store: it does not know how long the first one ran.
func reopen(t testing.TB, s *store.Store, url string) *store.Store {
	t.Helper()
	must(t, s.Close())
	return open(t, url)
}

// A step of the machine's clock, ahead or back, at a start or while the process runs, does not move the store's clock. When the
// machine's clock is right again both agree; when it is confirmed, the store's clock is set to it.
func TestWrongClockDoesNotMoveTheStoreClock(t *testing.T) {
	t.Parallel()
	url := proxytest.SQLite(t) // PostgreSQL has a clock of its own
	s := open(t, url)
	if c := tick(t, s, noon); !c.StoreTime.Equal(noon) || c.Offset != 0 || c.Stepped() {
		t.Errorf("the first: %+v", c)
	}
	near := func(step string, c store.Clock, offset time.Duration, stepped bool) {
		t.Helper()
		if ran := c.StoreTime.Sub(noon); ran < 0 || ran > time.Minute || c.Offset < offset-time.Minute || c.Offset > offset || c.Stepped() != stepped {
			t.Errorf("%s: %+v, want %s ahead", step, c, offset)
		}
	}
	near("ahead while it runs", tick(t, s, noon.Add(years)), years, true)
	near("asked without the database", s.Clock(noon.Add(years)), years, true)
	s = reopen(t, s, url)
	near("ahead at a start", tick(t, s, noon.Add(years)), years, true)
	s = reopen(t, s, url)
	near("behind at a start", tick(t, s, noon.Add(-years)), -years, true)
	near("behind, asked without the database", s.Clock(noon.Add(-years)), -years, true)
	near("right again", tick(t, s, noon.Add(20*time.Hour)), 20*time.Hour, false)

	must(t, s.ConfirmClock(t.Context(), store.Author{Name: "anna"}, noon.Add(years)))
	for _, c := range []store.Clock{s.Clock(noon.Add(years)), tick(t, s, noon.Add(years))} {
		if c.Stepped() || !c.StoreTime.Equal(noon.Add(years)) {
			t.Errorf("confirmed: %+v", c)
		}
	}
	log, err := s.Audit(t.Context(), store.AuditFilter{Limit: 1})
	if err != nil || len(log) != 1 || log[0].Action != store.ClockConfirmed || log[0].By != "anna" {
		t.Errorf("%+v, %v", log, err)
	}
}

// While the process runs, the store's clock follows the machine's, but no faster than real time.
func TestStoreClockFollowsTheMachine(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		storeTime, now time.Time
		ran            time.Duration
		want           time.Time
	}{
		{time.Time{}, noon, 0, noon},
		{noon, noon.Add(time.Minute), time.Hour, noon.Add(time.Minute)},
		{noon, noon.Add(years), time.Hour, noon.Add(time.Hour)},
		{noon, noon.Add(time.Hour), 0, noon},
		{noon, noon.Add(-years), time.Hour, noon},
	} {
		if got := store.Advance(row.storeTime, row.now, row.ran); !got.Equal(row.want) {
			t.Errorf("%+v: %s", row, got)
		}
	}
}

// With PostgreSQL the clock of the gateway's machine does not matter.
func TestPostgresClockReplacesTheMachineClock(t *testing.T) {
	t.Parallel()
	s := open(t, proxytest.Postgres(t))
	for _, wrong := range []time.Duration{years, -years, 0} {
		now := time.Now().Add(wrong)
		for name, c := range map[string]store.Clock{"Tick": tick(t, s, now), "Clock": s.Clock(now)} {
			if off := time.Since(c.StoreTime); c.Stepped() || off > time.Minute || off < -time.Minute {
				t.Errorf("%s by a clock that is off by %s: %+v", name, wrong, c)
			}
		}
	}
}

// A bill without an end was created while the machine's clock was years behind. Its row stays for a year, whether the store's clock
// was right then or the right time is confirmed later.
func TestWrongClockDoesNotShortenAnEstimatedEnd(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		right := time.Now()
		wrong := right.Add(-years)
		said := ownUntil(t, s, "said", "old", wrong, wrong.Add(time.Hour))
		settle(t, s, own(t, s, "released", "old"), ledger.Refused)
		for _, bill := range []string{"made", "made too"} {
			ownUntil(t, s, bill, "old", wrong, time.Time{})
		}
		works(t)(proxytest.On(s).Found(ctx, partnerOne, "found", "old", wrong, ""))
		must(t, s.ConfirmClock(ctx, store.Author{Name: "anna"}, right))
		ownUntil(t, s, "made since", "old", wrong, time.Time{}) // the clock is wrong again
		gives(t, 2, "removed")(s.SweepBills(ctx, right.Add(364*24*time.Hour), right.Add(364*24*time.Hour), time.Hour))
		for _, bill := range []string{"made", "made too", "found", "made since"} {
			ownerOf(t, s, bill)
		}
		for _, bill := range []string{said.Bill, "released"} {
			fails(t, store.ErrNotFound, bill)(proxytest.On(s).Owner(ctx, partnerOne, bill))
		}
	})
}

// An address of a bill without an end, bound while the machine's clock was years behind, is not removed too early.
func TestWrongClockDoesNotShortenAnAddress(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} { // whether the store knew a better time
		proxytest.Each(t, func(t *testing.T, url string) {
			s := open(t, url)
			right := time.Now()
			if known {
				tick(t, s, right)
			}
			a := address("a1", "b")
			a.Created, a.Until = right.Add(-years), time.Time{}
			bind(t, s, a)
			if !known {
				must(t, s.ConfirmClock(t.Context(), store.Author{Name: "anna"}, right))
			}
			gives(t, 0, known)(s.Sweep(t.Context(), right.Add(time.Minute), time.Hour))
		})
	}
}

// Ping fails if a table that a call needs is missing, or the disk is full.
func TestPingWrites(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"billbridge_bills", "billbridge_addresses", "billbridge_callbacks", "billbridge_clock"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			proxytest.Each(t, func(t *testing.T, url string) {
				s := open(t, url)
				must(t, s.Ping(t.Context()))
				run(t, raw(t, url), "DROP TABLE billbridge_attempts", "DROP TABLE "+table) // it refers to that of the callbacks
				fails(t, "", "it is ready")(s.Ping(t.Context()))
			})
		})
	}
	t.Run("full", func(t *testing.T) {
		t.Parallel()
		s := openSmall(t, proxytest.SQLite(t), 60)
		var err error
		for i := 0; err == nil && i < 10_000; i++ {
			_, err = s.Bind(context.Background(), address(string(rune('a'+i%26))+time.Duration(i).String(), "b"))
		}
		if err == nil {
			t.Fatal("it took everything")
		}
		fails(t, "", "it is ready")(s.Ping(t.Context()))
	})
}
