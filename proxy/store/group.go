package store

import (
	"context"
	"errors"
	"runtime"
)

// groupOf is the most writes that one transaction carries.
const groupOf = 256

// A job is a write that waits for a transaction with those of other callers: run with SQLite, an entry with PostgreSQL.
type job struct {
	ctx   context.Context
	run   func(tx)
	entry *entry
	done  chan error // has room for the one answer, so that the writer never waits
}

// A queue holds the jobs that wait.
type queue struct {
	jobs    chan job
	closing chan struct{} // closed by close: the writer commits what waits, and ends
	gone    chan struct{} // closed after the writer has ended
}

func newQueue() queue {
	return queue{jobs: make(chan job, groupOf), closing: make(chan struct{}), gone: make(chan struct{})}
}

func (q *queue) isClosing() bool {
	select {
	case <-q.closing:
		return true
	default:
		return false
	}
}

// do passes a job to the writer and waits for the commit of its transaction.
func (q *queue) do(j job) error {
	if q.isClosing() {
		return errClosed
	}
	j.done = make(chan error, 1)
	select {
	case q.jobs <- j:
	case <-j.ctx.Done():
		return j.ctx.Err()
	case <-q.closing:
		return errClosed
	}
	return j.wait(q.gone)
}

// wait waits for the answer to a job, until its caller leaves or the writer has ended.
func (j job) wait(gone <-chan struct{}) error {
	select {
	case err := <-j.done:
		return err
	case <-j.ctx.Done():
		return j.ctx.Err()
	case <-gone:
	}
	select { // the job may have been the writer's last one
	case err := <-j.done:
		return err
	default:
		return errClosed // the job came after the writer had ended
	}
}

// next waits for a job and returns all that are waiting. It returns none after the queue was closed.
func (q *queue) next() (waiting []job) {
	for len(waiting) == 0 {
		select {
		case j := <-q.jobs:
			waiting = j.join(waiting)
		case <-q.closing:
			if waiting = q.gather(nil); len(waiting) == 0 {
				return nil
			}
		}
	}
	// Callers that can run now may add theirs: fewer transactions need less of the processor and the disk.
	for n := 0; n < len(waiting) && len(waiting) < groupOf; {
		n = len(waiting)
		runtime.Gosched()
		waiting = q.gather(waiting)
	}
	return waiting
}

// gather adds the jobs that are waiting.
func (q *queue) gather(waiting []job) []job {
	for len(waiting) < groupOf {
		select {
		case j := <-q.jobs:
			waiting = j.join(waiting)
		default:
			return waiting
		}
	}
	return waiting
}

// join adds a job, except one whose caller has gone: nobody would use its claim.
func (j job) join(waiting []job) []job {
	if err := j.ctx.Err(); err != nil {
		j.done <- err
		return waiting
	}
	return append(waiting, j)
}

// write passes f to the writer and waits for the commit of its transaction.
func (e *sqliteEngine) write(ctx context.Context, f func(tx)) error {
	return e.do(job{ctx: ctx, run: f})
}

func (e *sqliteEngine) record(ctx context.Context, n *entry) error { return e.write(ctx, n.apply) }

// commitAll is the writer: it takes all waiting writes, commits them in one transaction and answers each. So all of
// them wait for the disk once; meanwhile the next ones queue up.
func (e *sqliteEngine) commitAll() {
	defer close(e.gone)
	for jobs := e.next(); len(jobs) > 0; jobs = e.next() {
		e.commit(jobs)
	}
}

// commit runs jobs in one transaction. If one fails, the transaction is rolled back and each job runs in a
// transaction of its own, so that only that one fails. If the transaction cannot begin or be committed, all fail:
// each alone would wait as long again.
func (e *sqliteEngine) commit(jobs []job) {
	// Not the context of one caller: the transaction has the writes of others, too.
	ctx := context.Background()
	faulty := false
	err := e.transaction(ctx, func(q tx) {
		for _, j := range jobs {
			if err := run(ctx, q.queries, j.run); err != nil {
				faulty = true
				q.fail(err)
				return
			}
		}
	})
	if faulty && len(jobs) > 1 {
		for i := range jobs {
			e.commit(jobs[i : i+1])
		}
		return
	}
	if err == nil { // again: the file may have been moved during the commit
		err = e.inPlace()
	}
	for _, j := range jobs {
		j.done <- err
	}
}

// An entry is a write that nearly always needs no more than its own statement: a new row, or a change of a row that is
// as expected. If it is not like that, the entry changes nothing, and the write needs a transaction of its own.
type entry struct {
	doing string // for errors
	// Batches apply their entries in the order of their keys, so that those of two replicas cannot deadlock. A key
	// begins with "bill", "order" or "url": its table comes in the order in which AddKey locks them.
	key        []string
	lock       []string     // PostgreSQL takes the lock of this key first; nil for none
	statements [3]statement // the one of the entry is the second; the others may be empty
	changed    [3]bool      // which have changed a row
}

// A statement has its arguments.
type statement struct {
	text string
	args []any
}

// record applies an entry and returns done, or else what a transaction of its own returns.
func record[T any](ctx context.Context, s *db, n *entry, done T, otherwise func(tx) T) (none T, err error) {
	for i := range n.statements { // before it is in a batch, which would fail with it
		err = errors.Join(err, columnValues(n.statements[i].args))
	}
	if err == nil {
		if err = s.record(ctx, n); err == nil && !n.changed[1] {
			return write(ctx, s, n.doing, otherwise)
		}
		s.recent.observe(err)
	}
	if err != nil {
		return none, failed(n.doing, err)
	}
	return done, nil
}

// apply applies an entry in a transaction of SQLite.
func (n *entry) apply(q tx) {
	for i, s := range n.statements {
		if s.text != "" {
			n.changed[i] = q.exec(s.text, s.args...) == 1
		}
	}
}
