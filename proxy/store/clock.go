package store

import (
	"context"
	"time"
)

// clockStep is the largest normal difference between a clock and the store's. After a larger one, a step, either the
// machine's clock is wrong or no gateway ran for that long.
const clockStep = 24 * time.Hour

// A Clock compares the store's clock with the machine's.
type Clock struct {
	StoreTime time.Time     // the store's clock: it advances only while a gateway runs, and never faster than real time
	Offset    time.Duration // by which the machine's clock, or PostgreSQL's, is ahead of it; negative if it is behind
}

// Stepped reports whether the two differ by more than clockStep. Then nothing may be removed by its age.
func (c Clock) Stepped() bool { return c.Offset > clockStep || c.Offset < -clockStep }

// A tick is the time of the last one, by each clock.
type tick struct {
	storeTime time.Time // in the column vouched
	machine   time.Time // by the machine's clock, or PostgreSQL's
	local     time.Time // by this machine's clock
	at        time.Time // by the monotonic clock of this process
}

// advance is the store's clock after a process has run for a time and the machine's clock shows now.
func advance(storeTime, now time.Time, ran time.Duration) time.Time {
	most := storeTime.Add(ran)
	switch {
	case storeTime.IsZero(), now.After(storeTime) && now.Before(most):
		return now
	case now.After(storeTime):
		return most
	}
	return storeTime
}

// Tick records that the process still runs, and returns the store's clock. It is called once before anything is
// removed, and then every minute or so. With PostgreSQL the server's clock takes the place of now.
//
// A machine's clock can be years off at a start. Rows that were removed by it are lost, and with a row of the ledger
// the owner of a bill. So the store's clock is the highest time that it has seen, and between two ticks it advances
// by no more than the process has run.
func (s *Store) Tick(ctx context.Context, now time.Time) (Clock, error) {
	s.ticking.Lock()
	defer s.ticking.Unlock()
	began, ran := time.Now(), time.Duration(0)
	if last := s.ticked.Load(); last != nil {
		ran = began.Sub(last.at)
	}
	c, err := write(ctx, s, "reading the clock", func(q tx) (c Clock) {
		machine := now
		if s.postgres {
			machine = serverTime(q)
		}
		// An update, to lock the row: other replicas wait until it commits.
		c.StoreTime = value[time.Time](q, "UPDATE billbridge_clock SET pinged = pinged RETURNING vouched")
		c.StoreTime = advance(c.StoreTime, asStored(machine), ran)
		c.Offset = machine.Sub(c.StoreTime)
		q.exec("UPDATE billbridge_clock SET vouched = $1", c.StoreTime)
		return c
	})
	if err == nil {
		s.ticked.Store(&tick{c.StoreTime, c.StoreTime.Add(c.Offset), now, began})
	}
	return c, err
}

// Clock is what Tick would return now, without a query. Before the first tick it is now.
func (s *Store) Clock(now time.Time) Clock {
	last := s.ticked.Load()
	if last == nil {
		return Clock{StoreTime: now}
	}
	ran := time.Since(last.at)
	if s.postgres {
		now = last.machine.Add(ran)
	}
	storeTime := advance(last.storeTime, now, ran)
	return Clock{StoreTime: storeTime, Offset: now.Sub(storeTime)}
}

// stamp converts a time of this machine's clock for rows that several gateways compare: with PostgreSQL, to the
// server's clock as of the last tick. What is before 1970 means no time, or [AskedFor], and stays.
func (s *Store) stamp(now time.Time) time.Time {
	last := s.ticked.Load()
	if !s.postgres || last == nil || now.Unix() < 0 {
		return now
	}
	return now.Add(last.machine.Round(0).Sub(last.local.Round(0))) // Round(0): without the monotonic clocks
}

// ConfirmClock declares that the machine's clock, or PostgreSQL's, is right: the store's clock is set to it.
// Estimated ends of bills, which may come from a wrong clock, become a year from now or later. For callback addresses
// of bills without an end, retention counts from now.
func (s *Store) ConfirmClock(ctx context.Context, by string, at time.Time) error {
	s.ticking.Lock()
	defer s.ticking.Unlock()
	now := at
	if s.postgres {
		var err error
		if now, err = read(ctx, s, "reading the clock", serverTime); err != nil {
			return err
		}
	}
	// Before the clock is set: afterwards a sweep may remove these rows. Without pauses: an operator waits.
	if _, err := s.repeat(ctx, 0, `
		UPDATE billbridge_owners SET ends = $1 WHERE (partner, bill) IN (
			SELECT partner, bill FROM billbridge_owners WHERE ends > 0 AND ends < $1 AND estimated = 1 LIMIT $2)`,
		now.Add(estimatedLife)); err != nil {
		return err
	}
	if _, err := s.repeat(ctx, 0, `
		UPDATE billbridge_addresses SET ends = $1 WHERE id IN (
			SELECT id FROM billbridge_addresses WHERE ends < $1 AND until IS NULL LIMIT $2)`, now); err != nil {
		return err
	}
	if err := s.change(ctx, Change{Action: ClockConfirmed, By: by, At: at},
		oneRow(nil, "UPDATE billbridge_clock SET vouched = $1", now)); err != nil {
		return err
	}
	s.ticked.Store(&tick{asStored(now), now, at, time.Now()})
	return nil
}

// serverTime is the time of PostgreSQL's clock.
func serverTime(q tx) time.Time {
	return value[time.Time](q, "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT")
}
