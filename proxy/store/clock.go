package store

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
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

// A clock is the store's clock.
type clock struct {
	ofServer bool                 // of PostgreSQL, not of this machine
	ticking  sync.Mutex           // held during a tick: one at a time
	ticked   atomic.Pointer[tick] // the last one; nil before the first
}

// The upkeep of a store: its clock, and the removal of old rows by it.
type upkeep struct{ *db }

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
func (s upkeep) Tick(ctx context.Context, now time.Time) (Clock, error) {
	s.ticking.Lock()
	defer s.ticking.Unlock()
	began, ran := time.Now(), time.Duration(0)
	if last := s.ticked.Load(); last != nil {
		ran = began.Sub(last.at)
	}
	c, err := write(ctx, s.db, "reading the clock", func(q tx) (c Clock) {
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
func (c *clock) Clock(now time.Time) Clock {
	last := c.ticked.Load()
	if last == nil {
		return Clock{StoreTime: now}
	}
	ran := time.Since(last.at)
	if c.ofServer {
		now = last.machine.Add(ran)
	}
	storeTime := advance(last.storeTime, now, ran)
	return Clock{StoreTime: storeTime, Offset: now.Sub(storeTime)}
}

// stamp converts a time of this machine's clock for rows that several gateways compare: with PostgreSQL, to the
// server's clock as of the last tick. What is before 1970 means no time, or [AskedFor], and stays.
func (c *clock) stamp(now time.Time) time.Time {
	last := c.ticked.Load()
	if !c.ofServer || last == nil || now.Unix() < 0 {
		return now
	}
	return now.Add(last.machine.Round(0).Sub(last.local.Round(0))) // Round(0): without the monotonic clocks
}

// ConfirmClock declares that the machine's clock, or PostgreSQL's, is right: the store's clock is set to it.
// Estimated ends of bills, which may come from a wrong clock, become a year from now or later. For callback addresses
// of bills without an end, retention counts from now.
func (s upkeep) ConfirmClock(ctx context.Context, by Author, at time.Time) error {
	s.ticking.Lock()
	defer s.ticking.Unlock()
	now := at
	if s.postgres {
		var err error
		if now, err = read(ctx, s.db, "reading the clock", serverTime); err != nil {
			return err
		}
	}
	// Before the clock is set: afterwards a sweep may remove these rows. Without pauses: an operator waits.
	for _, w := range []sweep{
		{
			table: "bills", rows: "estimated = 1", by: "ends", from: time.UnixMilli(1),
			before: now.Add(estimatedLife), change: "UPDATE billbridge_bills SET ends = $2, version = version + 1",
		},
		{
			table: "addresses", rows: "until IS NULL", by: "ends", before: now,
			change: "UPDATE billbridge_addresses SET ends = $2",
		},
	} {
		// Again as long as there is one: a sweep passes over rows that are being changed.
		for left := true; left; {
			_, err := s.sweep(ctx, w)
			first, failed := readAll[time.Time](ctx, s.db, "looking for estimated ends", fmt.Sprintf(
				"SELECT %s FROM billbridge_%s WHERE %s AND %[1]s >= $1 ORDER BY %[1]s LIMIT 1",
				w.by, w.table, w.rows), w.since())
			if err = cmp.Or(err, failed); err != nil {
				return err
			}
			left = len(first) > 0 && first[0].Before(asStored(w.before))
		}
	}
	if err := s.change(ctx, Change{Action: ClockConfirmed, By: by.Name, Reason: by.Reason, At: at},
		func(q tx, _ *Change) { q.exec("UPDATE billbridge_clock SET vouched = $1", now) }); err != nil {
		return err
	}
	s.ticked.Store(&tick{asStored(now), now, at, time.Now()})
	return nil
}

// endOfTime is after every time.
var endOfTime = time.Unix(1<<40, 0)

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
func (s upkeep) Sweep(ctx context.Context, now time.Time, retention time.Duration) (n int, err error) {
	before := now.Add(-retention)
	n, err = s.sweep(ctx, sweep{
		table: "callbacks", rows: "true", by: "done", before: before, pause: pause,
		only:   "coalesce((SELECT a.ends FROM billbridge_addresses a WHERE a.id = part.address), 0) < $2",
		change: "DELETE FROM billbridge_callbacks",
	})
	if err != nil {
		return n, err
	}
	// Callbacks that are left are waiting or failed, or have been over for less than retention.
	addresses, err := s.sweep(ctx, sweep{
		table: "addresses", rows: "true", by: "ends", before: before, pause: pause,
		only:   "(SELECT c.seq FROM billbridge_callbacks c WHERE c.address = part.id LIMIT 1) IS NULL",
		change: "DELETE FROM billbridge_addresses",
	})
	return n + addresses, err
}

// SweepBodies deletes the bodies of callbacks that were delivered, dropped or superseded more than keep ago, and
// returns their number. The rows stay until Sweep removes them. Failed callbacks keep their bodies until an operator
// decides.
func (s upkeep) SweepBodies(ctx context.Context, now time.Time, keep time.Duration) (n int, err error) {
	return s.sweep(ctx, sweep{
		table: "callbacks", rows: "erased IS NULL", by: "done", before: now.Add(-keep), pause: pause,
		change: "UPDATE billbridge_callbacks SET body = substr(body, 1, 0), erased = $3", args: []any{now},
	})
}

// SweepBills removes released rows and the rows of bills that have been over for longer than retention, by the
// store's clock, in batches as Sweep does, and returns their number. The owner of a removed bill is not known any
// more, so retention must be longer than calls about a bill can come. A bill that both upstreams have stays. Rows with
// a denial stay for ledger.DeniedFor, by the machine's clock.
func (s upkeep) SweepBills(ctx context.Context, storeTime, now time.Time, retention time.Duration) (n int, err error) {
	for _, estimated := range []string{"0", "1"} {
		removed, err := s.sweep(ctx, sweep{
			table: "bills", rows: "estimated = " + estimated, by: "ends",
			only:   "doubled IS NULL AND (denied IS NULL OR denied < $3 OR denied > $4)",
			change: "DELETE FROM billbridge_bills", before: storeTime.Add(-retention), pause: pause,
			args: []any{s.stamp(now).Add(-ledger.DeniedFor), s.stamp(now).Add(ledger.DeniedFor)},
		})
		if n += removed; err != nil {
			return n, err
		}
	}
	return n, nil
}

// pause is how long a removal of old rows leaves the disk to other writes, and to standbys, after each batch.
const pause = 20 * time.Millisecond

// keyOf are the columns of the primary key of a table that sweeps change.
var keyOf = map[string]string{"callbacks": "seq", "addresses": "id", "bills": "partner, bill"}

// A sweep changes rows of a table whose time in a column is from one on and before another, in batches.
type sweep struct {
	table        string // without its prefix
	rows, by     string // the condition of an index in the order of the column by
	of           []any  // the arguments of rows, from $2 on; then comes before
	from, before time.Time
	only         string // which of the rows, "part", are changed; "" for all
	change       string // the statement
	args         []any  // of only and change, the last ones
	pause        time.Duration
}

// since is from as a statement has it: rows without a time are before all.
func (w sweep) since() int64 { return max(0, w.from.UnixMilli()) }

// sweep makes a sweep, and returns the number of rows changed. A statement reads a batch of rows, also if none of them
// is to be changed: the next one goes on after them.
func (s *db) sweep(ctx context.Context, w sweep) (n int, err error) {
	batch := min(s.batch, examined)
	rows := fmt.Sprintf("FROM billbridge_%s WHERE %s AND %s >= $1 AND %[3]s < $%d ORDER BY %[3]s LIMIT ",
		w.table, w.rows, w.by, len(w.of)+2)
	among := fmt.Sprintf(s.among, keyOf[w.table], rows+strconv.Itoa(batch), cmp.Or(w.only, "true"), w.table)
	type result struct {
		changed int
		next    int64
		more    bool
	}
	for from := w.since(); ; {
		at := from // a write that ctx has ended may go on
		got, err := write(ctx, s, "sweeping", func(q tx) (got result) {
			args := append(append([]any{at}, w.of...), w.before)
			got.next, got.more = find[int64](q, fmt.Sprintf("SELECT %s %s1 OFFSET %d", w.by, rows, batch-1), args...)
			if got.changed = int(q.exec(w.change+" WHERE "+among, append(args, w.args...)...)); got.changed == 0 {
				got.next++ // else there may be more with the same time
			}
			if got.changed > 0 && !s.postgres {
				q.exec("PRAGMA incremental_vacuum(2000)") // gives free pages back; PostgreSQL does so itself
			}
			return got
		})
		n += got.changed
		if from = got.next; err != nil || !got.more {
			return n, err
		}
		select {
		case <-ctx.Done():
			return n, ctx.Err()
		case <-time.After(w.pause):
		}
	}
}
