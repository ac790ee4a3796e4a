package store

import (
	"context"
	"sync"
	"time"
)

// ClockStep is by how much a clock may differ from the one that the store vouches for. A larger difference is a step: the
// machine's clock is wrong, or no gateway ran for so long.
const ClockStep = 24 * time.Hour

// A Clock is the time as the store knows it.
type Clock struct {
	Vouched time.Time     // it runs only while a gateway does, and never faster than real time
	Offset  time.Duration // how far the machine's clock, or PostgreSQL's, is ahead of it; below zero if it is behind
}

// Stepped reports whether the two differ by so much that nothing may be removed by the time.
func (c Clock) Stepped() bool { return c.Offset > ClockStep || c.Offset < -ClockStep }

// clock is what this process remembers between two ticks.
type clock struct {
	ticking sync.Mutex // one tick at a time
	mu      sync.Mutex // of what follows
	vouched time.Time  // zero before the first tick
	machine time.Time  // what the machine's clock, or PostgreSQL's, said then
	local   time.Time  // what this machine's said
	ticked  time.Time  // by the clock of this process, which no step changes
}

func (c *clock) is(vouched, machine, local, ticked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vouched, c.machine, c.local, c.ticked = vouched, machine, local, ticked
}

// advance is what is vouched for after so much running, when the machine's clock shows now.
func advance(vouched, now time.Time, ran time.Duration) time.Time {
	most := vouched.Add(ran)
	switch {
	case vouched.IsZero(), now.After(vouched) && now.Before(most):
		return now
	case now.After(vouched):
		return most
	}
	return vouched
}

// Tick records that the process still runs, and returns the store's clock. It is called once before anything is removed,
// and then every minute or so. With PostgreSQL the server's clock takes the place of now.
//
// A machine's clock can be years off at a start. Rows that are removed by it are lost for good, and with a row of the
// ledger the knowledge of where a bill is. So the store's clock is the highest time that it has seen, and between two
// ticks it advances by no more than the process has run. What the difference is, Offset says.
func (s *Store) Tick(ctx context.Context, now time.Time) (Clock, error) {
	s.clock.ticking.Lock()
	defer s.clock.ticking.Unlock()
	began, ran := time.Now(), time.Duration(0)
	s.clock.mu.Lock()
	if !s.clock.ticked.IsZero() {
		ran = began.Sub(s.clock.ticked)
	}
	s.clock.mu.Unlock()
	type times struct{ vouched, machine time.Time }
	t, err := write(ctx, s, "reading the clock", func(ctx context.Context, q queries) (t times, err error) {
		t.machine = now
		if s.postgres {
			if t.machine, err = serverTime(ctx, q); err != nil {
				return t, err
			}
		}
		// An update first: until it commits, other replicas wait here.
		if err := q.QueryRowContext(ctx, "UPDATE billbridge_clock SET pinged = pinged RETURNING vouched").Scan(moment{&t.vouched}); err != nil {
			return t, err
		}
		t.vouched = advance(t.vouched, asStored(t.machine), ran)
		_, err = q.ExecContext(ctx, "UPDATE billbridge_clock SET vouched = $1", t.vouched.UnixMilli())
		return t, err
	})
	if err != nil {
		return Clock{}, err
	}
	s.clock.is(t.vouched, t.machine, now, began)
	return Clock{Vouched: t.vouched, Offset: t.machine.Sub(t.vouched)}, nil
}

// Clock is what Tick would return, without asking the database. Before the first tick it is now.
func (s *Store) Clock(now time.Time) Clock {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	if s.clock.ticked.IsZero() {
		return Clock{Vouched: now}
	}
	ran := time.Since(s.clock.ticked)
	if s.postgres {
		now = s.clock.machine.Add(ran)
	}
	vouched := advance(s.clock.vouched, now, ran)
	return Clock{Vouched: vouched, Offset: now.Sub(vouched)}
}

// stamp is a time of this machine's clock as it is recorded where gateways compare what they recorded: with PostgreSQL, by the
// server's clock, as of the last tick.
func (s *Store) stamp(now time.Time) time.Time {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	if !s.postgres || s.clock.ticked.IsZero() {
		return now
	}
	return now.Add(s.clock.machine.Round(0).Sub(s.clock.local.Round(0))) // without what no step changes
}

// ConfirmClock declares that the machine's clock, or PostgreSQL's, is right: from now on the store vouches for it. Bills
// whose end was only estimated, perhaps by a clock that was wrong, end a year from now or later; callback addresses of bills
// whose end nobody said count from now.
func (s *Store) ConfirmClock(ctx context.Context, by string, at time.Time) error {
	s.clock.ticking.Lock()
	defer s.clock.ticking.Unlock()
	now := at
	if s.postgres {
		var err error
		if now, err = read(ctx, s, "reading the clock", serverTime); err != nil {
			return err
		}
	}
	// First: what the new time would remove must be safe before it is vouched for.
	if _, err := s.sweep(ctx, `
		UPDATE billbridge_owners SET ends = $1 WHERE (partner, bill) IN (
			SELECT partner, bill FROM billbridge_owners WHERE ends > 0 AND ends < $1 AND estimated = 1 LIMIT $2)`,
		now.Add(estimatedLife).UnixMilli()); err != nil {
		return err
	}
	if _, err := s.sweep(ctx, `
		UPDATE billbridge_addresses SET ends = $1 WHERE id IN (
			SELECT id FROM billbridge_addresses WHERE ends < $1 AND until IS NULL LIMIT $2)`, now.UnixMilli()); err != nil {
		return err
	}
	if err := s.change(ctx, Change{Action: ClockConfirmed, By: by, At: at}, func(ctx context.Context, q queries, _ *Change) error {
		_, err := q.ExecContext(ctx, "UPDATE billbridge_clock SET vouched = $1", now.UnixMilli())
		return err
	}); err != nil {
		return err
	}
	s.clock.is(asStored(now), now, at, time.Now())
	return nil
}

// serverTime is the time of PostgreSQL's clock.
func serverTime(ctx context.Context, q queries) (now time.Time, err error) {
	err = q.QueryRowContext(ctx, "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT").Scan(moment{&now})
	return now, err
}
