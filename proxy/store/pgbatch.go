package store

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// Entries of many callers are applied together, in one transaction and one round trip. Beside a transaction that
// takes longer than nextBatchAfter, others begin, up to batchesAtOnce. Most take less: then all that waits goes into
// the next one, which costs the gateway and the server less than several.
const (
	batchesAtOnce  = 4
	nextBatchAfter = 4 * time.Millisecond
)

// forBatches prepares a connection for batches.
func forBatches(ctx context.Context, c *pgx.Conn) error {
	// The lock of one row must not delay the callers of other rows for long.
	_, err := c.Exec(ctx, "SET default_transaction_isolation = 'read committed'; SET lock_timeout = '1s'")
	return err
}

// recordAll applies the entries that wait, until the queue is closed.
func (e *postgresEngine) recordAll() {
	defer close(e.gone)
	var running sync.WaitGroup
	defer running.Wait()
	places := make(chan struct{}, batchesAtOnce)
	for jobs := e.next(); len(jobs) > 0; jobs = e.next() {
		places <- struct{}{}
		jobs = e.gather(jobs)
		ended := make(chan struct{})
		running.Go(func() {
			e.recordBatch(jobs)
			<-places
			close(ended)
		})
		select {
		case <-ended:
		case <-time.After(nextBatchAfter):
		}
	}
}

// recordBatch applies entries and answers their callers. If the server refuses one of them, no entry is applied: each
// needs a transaction of its own, in which only that one fails.
func (e *postgresEngine) recordBatch(jobs []job) {
	ctx, cancel := latest(jobs)
	defer cancel()
	err := e.apply(ctx, jobs)
	if pgError(err).SeverityUnlocalized == "ERROR" { // after any other error the entries may be in the ledger
		err = nil
		for _, j := range jobs {
			j.entry.changed = [3]bool{}
		}
	}
	for _, j := range jobs {
		j.done <- err
	}
}

// latest is the context of a batch: it ends when the last of the callers stops waiting by its deadline.
func latest(jobs []job) (context.Context, context.CancelFunc) {
	var last time.Time
	for _, j := range jobs {
		deadline, ok := j.ctx.Deadline()
		if !ok {
			return context.WithCancel(context.Background())
		}
		if deadline.After(last) {
			last = deadline
		}
	}
	return context.WithDeadline(context.Background(), last)
}

// apply applies entries in one transaction, which is committed when it returns nil.
func (e *postgresEngine) apply(ctx context.Context, jobs []job) error {
	slices.SortStableFunc(jobs, func(a, b job) int { return slices.Compare(a.entry.key, b.entry.key) })
	since := e.guard.changes.Load()
	s := <-e.guard.slots
	defer func() { e.guard.slots <- s }()
	var batch pgx.Batch
	batch.Queue(raising, e.guard.next(s)...) // first: if the database is an older one, the server applies nothing
	for _, j := range jobs {                 // before all rows, so that nobody who has a row waits for a lock
		if j.entry.lock != nil {
			batch.Queue(exclusive, number(j.entry.lock))
		}
	}
	for _, j := range jobs {
		for i, s := range j.entry.statements {
			if s.text != "" {
				batch.Queue(s.text, s.args...).Exec(func(tag pgconn.CommandTag) error {
					j.entry.changed[i] = tag.RowsAffected() == 1
					return nil
				})
			}
		}
	}
	conn, err := e.batches.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // it goes back to its pool
	return conn.Raw(func(driver any) error {
		// Without BEGIN and COMMIT all statements of a batch are one transaction. It has ended when the batch is
		// closed.
		if err := driver.(*stdlib.Conn).Conn().SendBatch(ctx, &batch).Close(); err != nil {
			return err
		}
		return e.guard.acknowledge(s, since)
	})
}
