package store

import (
	"context"
	"fmt"
	"time"

	"billbridge/proxy/ledger"
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
		c.StoreTime = value[time.Time](q, "UPDATE billbridge_clock SET vouched = vouched RETURNING vouched")
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
	for statement, end := range map[string]time.Time{
		`UPDATE billbridge_bills SET ends = $1, version = version + 1 WHERE (partner, bill) IN (
			SELECT partner, bill FROM billbridge_bills WHERE ends > 0 AND ends < $1 AND estimated = 1 LIMIT $2
		)`: now.Add(estimatedLife),
		`UPDATE billbridge_addresses SET ends = $1 WHERE id IN (
			SELECT id FROM billbridge_addresses WHERE ends < $1 AND until IS NULL LIMIT $2)`: now,
	} {
		if _, err := s.repeat(ctx, 0, statement, end); err != nil {
			return err
		}
	}
	if err := s.change(ctx, Change{Action: ClockConfirmed, By: by, At: at},
		func(q tx, _ *Change) { q.exec("UPDATE billbridge_clock SET vouched = $1", now) }); err != nil {
		return err
	}
	s.ticked.Store(&tick{asStored(now), now, at, time.Now()})
	return nil
}

// serverTime is the time of PostgreSQL's clock.
func serverTime(q tx) time.Time {
	return value[time.Time](q, "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT")
}

// Sweep removes rows that have been over for longer than retention, and returns their number:
//
//   - callbacks, from when they were delivered, dropped or superseded, or from the end of the bill of their address if
//     that is later: else the callback would look like a lost one. Failed ones stay until an operator decides;
//   - addresses of bills without a callback, from the end of the bill, or from when the address was made if that is
//     later or the end is not known. Addresses of registrations stay: the upstream may use them for years.
//
// It works in batches with pauses, so that other writes do not wait long: after an error, n rows have been removed.
// Replicas may sweep at the same time.
func (s *Store) Sweep(ctx context.Context, now time.Time, retention time.Duration) (n int, err error) {
	before := now.Add(-retention)
	n, err = s.sweep(ctx, `
		DELETE FROM billbridge_callbacks WHERE seq IN (
			SELECT seq FROM billbridge_callbacks c WHERE done < $1 AND NOT EXISTS (
				SELECT 1 FROM billbridge_addresses a WHERE a.id = c.address AND a.ends >= $1)
			ORDER BY done`, before)
	if err != nil {
		return n, err
	}
	// Callbacks that are left are waiting or failed, or have been over for less than retention.
	addresses, err := s.sweep(ctx, `
		DELETE FROM billbridge_addresses WHERE id IN (
			SELECT a.id FROM billbridge_addresses a WHERE a.ends < $1
			AND NOT EXISTS (SELECT 1 FROM billbridge_callbacks c WHERE c.address = a.id)
			ORDER BY a.ends`, before)
	return n + addresses, err
}

// SweepBodies deletes the bodies of callbacks that were delivered, dropped or superseded more than keep ago, and
// returns their number. The rows stay until Sweep removes them. Failed callbacks keep their bodies until an operator
// decides.
func (s *Store) SweepBodies(ctx context.Context, now time.Time, keep time.Duration) (n int, err error) {
	return s.sweep(ctx, `
		UPDATE billbridge_callbacks SET body = $1, erased = $2 WHERE seq IN (
			SELECT seq FROM billbridge_callbacks WHERE done < $3 AND erased IS NULL ORDER BY done`,
		[]byte{}, now, now.Add(-keep))
}

// SweepBills removes released rows and the rows of bills that have been over for longer than retention, by the
// store's clock, in batches as Sweep does, and returns their number. The owner of a removed bill is not known any
// more, so retention must be longer than calls about a bill can come. A bill that both upstreams have stays. Rows with a denial stay for ledger.DeniedFor, by the
// machine's clock.
func (s *Store) SweepBills(ctx context.Context, storeTime, now time.Time, retention time.Duration) (n int, err error) {
	return s.sweep(ctx, `
		DELETE FROM billbridge_bills WHERE (partner, bill) IN (
			SELECT partner, bill FROM billbridge_bills WHERE ends < $1 AND doubled IS NULL AND (denied IS NULL OR denied < $2
				OR denied > $3)
			ORDER BY ends`,
		storeTime.Add(-retention), s.stamp(now).Add(-ledger.DeniedFor), s.stamp(now).Add(ledger.DeniedFor))
}

// pause is how long a removal of old rows leaves the disk to other writes, and to standbys, after each batch.
const pause = 100 * time.Millisecond

// sweep runs a statement in batches. The statement ends in the query for the rows to change, to which sweep adds the
// limit.
func (s *Store) sweep(ctx context.Context, statement string, args ...any) (n int, err error) {
	return s.repeat(ctx, pause, fmt.Sprintf("%s LIMIT $%d %s)", statement, len(args)+1, s.passOver), args...)
}

// repeat runs a statement, whose last argument is the most rows to change at once, until it finds fewer. It pauses
// after each batch.
func (s *Store) repeat(ctx context.Context, pause time.Duration, statement string, args ...any) (n int, err error) {
	args = append(args, s.batch)
	for {
		removed, err := write(ctx, s, "sweeping", func(q tx) int64 {
			removed := q.exec(statement, args...)
			if removed > 0 && !s.postgres {
				q.exec("PRAGMA incremental_vacuum(2000)") // gives free pages back; PostgreSQL does so itself
			}
			return removed
		})
		n += int(removed)
		if err != nil || removed < int64(s.batch) {
			return n, err
		}
		select {
		case <-ctx.Done():
			return n, ctx.Err()
		case <-time.After(pause):
		}
	}
}
