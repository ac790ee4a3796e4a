package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// Entries of many callers are applied together, in one transaction and one round trip. Beside a transaction that takes longer than
// nextBatchAfter, others begin, up to batchesAtOnce.
const (
	batchesAtOnce  = 4
	nextBatchAfter = 10 * time.Millisecond
)

// forBatches prepares a connection for batches.
func forBatches(ctx context.Context, c *pgx.Conn) error {
	// The plan is made once, maybe while the table is still empty, and must be good for a large one. The lock of one row must not
	// delay the callers of other rows for long.
	_, err := c.Exec(ctx, `
		SET default_transaction_isolation = 'read committed';
		SET lock_timeout = '1s';
		SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
		SELECT set_config('plan_cache_mode', 'force_generic_plan', false) WHERE current_setting('plan_cache_mode', true) <> ''`)
	return err
}

func (e *postgresEngine) record(ctx context.Context, n *entry) error {
	e.using.RLock()
	defer e.using.RUnlock()
	if e.closed {
		return errClosed
	}
	return e.do(job{ctx: ctx, entry: n})
}

// recordAll applies the entries that wait, until the queue is closed.
func (e *postgresEngine) recordAll() {
	defer close(e.gone)
	free := make(chan struct{}, batchesAtOnce)
	for range batchesAtOnce {
		free <- struct{}{}
	}
	for {
		<-free
		jobs := e.next()
		if len(jobs) == 0 {
			break
		}
		ended := make(chan struct{})
		go func() {
			e.recordBatch(jobs)
			close(ended)
			free <- struct{}{}
		}()
		select {
		case <-ended:
		case <-time.After(nextBatchAfter):
		}
	}
	for range batchesAtOnce - 1 {
		<-free
	}
}

// recordBatch applies entries and answers their callers. If the server refuses one of them, no entry is applied: each needs a
// transaction of its own, in which only that one fails.
func (e *postgresEngine) recordBatch(jobs []job) {
	ctx, cancel := latest(jobs)
	defer cancel()
	err := e.apply(ctx, jobs)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.SeverityUnlocalized == "ERROR" { // after any other error the entries may be in the ledger
		err = nil
		for _, j := range jobs {
			j.entry.applied = false
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

const (
	insertEntries = `
		INSERT INTO billbridge_owners (partner, bill, upstream, state, creates, uncertain, changed, tried, ends, estimated)
		SELECT partner, bill, upstream, 'pending', token, 0, tried, tried, ends, estimated
		FROM unnest($1::TEXT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::BIGINT[], $6::BIGINT[], $7::BIGINT[])
			AS new (token, partner, bill, upstream, tried, ends, estimated)
		ON CONFLICT (partner, bill) DO NOTHING RETURNING creates`
	completeEntries = `
		UPDATE billbridge_owners AS o SET creates = '', state = 'owned', changed = ended.changed
		FROM unnest($1::TEXT[], $2::TEXT[], $3::TEXT[], $4::BIGINT[], $5::BIGINT[], $6::BIGINT[])
			AS ended (token, partner, bill, tried, ends, changed)
		WHERE o.partner = ended.partner AND o.bill = ended.bill AND o.creates = ended.token AND o.state = 'pending' AND o.uncertain = 0
			AND o.ends = ended.ends AND o.tried = ended.tried RETURNING ended.token`
)

// rowsOf are the columns of entries.
type rowsOf struct {
	tokens, partners, bills, upstreams []string
	tried, ends, changed, estimated    []int64
}

func (r *rowsOf) add(n *entry) {
	r.tokens, r.partners = append(r.tokens, n.token), append(r.partners, string(n.Partner))
	r.bills, r.upstreams = append(r.bills, n.Bill), append(r.upstreams, n.Upstream)
	r.tried, r.ends = append(r.tried, n.Tried.UnixMilli()), append(r.ends, n.Ends.UnixMilli())
	r.changed, r.estimated = append(r.changed, n.Changed.UnixMilli()), append(r.estimated, int64(bit(n.estimated)))
}

// apply applies entries in one transaction, which is committed when it returns nil.
func (e *postgresEngine) apply(ctx context.Context, jobs []job) error {
	entries := make(map[string]*entry, len(jobs)) // by token: a create is not completed before it was recorded
	// Always in the same order, so that the batches of two replicas cannot deadlock.
	slices.SortStableFunc(jobs, func(a, b job) int {
		return cmp.Or(cmp.Compare(a.entry.Partner, b.entry.Partner), strings.Compare(a.entry.Bill, b.entry.Bill))
	})
	var created, completed rowsOf
	for _, j := range jobs {
		entries[j.entry.token] = j.entry
		if j.entry.completes {
			completed.add(j.entry)
		} else {
			created.add(j.entry)
		}
	}
	// Without BEGIN and COMMIT all statements of a batch are one transaction. It has ended when the batch is closed.
	var batch pgx.Batch
	if r := created; len(r.tokens) > 0 {
		batch.Queue(insertEntries, r.tokens, r.partners, r.bills, r.upstreams, r.tried, r.ends, r.estimated)
	}
	if r := completed; len(r.tokens) > 0 {
		batch.Queue(completeEntries, r.tokens, r.partners, r.bills, r.tried, r.ends, r.changed)
	}
	conn, err := e.batches.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // it goes back to its pool
	return conn.Raw(func(driver any) error {
		results := driver.(*stdlib.Conn).Conn().SendBatch(ctx, &batch)
		for range batch.Len() {
			rows, err := results.Query()
			if err != nil {
				break // Close returns it
			}
			var token string
			for rows.Next() {
				if err := rows.Scan(&token); err == nil {
					entries[token].applied = true
				}
			}
		}
		return results.Close()
	})
}
