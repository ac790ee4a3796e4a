package store

import "context"

// groupOf is the most writes that one transaction carries.
const groupOf = 256

// A job is a write that waits for the writer.
type job struct {
	ctx  context.Context
	run  func(context.Context, queries) error
	done chan error // has room for the one answer, so that the writer never waits
}

// write passes f to the writer and waits for the commit of its transaction.
func (e *sqliteEngine) write(ctx context.Context, f func(context.Context, queries) error) error {
	if e.isClosing() {
		return errClosed
	}
	j := job{ctx, f, make(chan error, 1)}
	select {
	case e.jobs <- j:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.closing:
		return errClosed
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-e.gone:
	}
	select { // the job may have been the writer's last one
	case err := <-j.done:
		return err
	default:
		return errClosed // the job came after the writer had ended
	}
}

// commitAll is the writer: it takes all waiting writes, commits them in one transaction and answers each. So all of them wait for
// the disk once; meanwhile the next ones queue up.
func (e *sqliteEngine) commitAll() {
	defer close(e.gone)
	for {
		var waiting []job
		select {
		case j := <-e.jobs:
			if err := j.ctx.Err(); err != nil { // as in gather: nobody would use the claim of a caller that has gone
				j.done <- err
				continue
			}
			waiting = append(waiting, j)
		case <-e.closing:
		}
		waiting = e.gather(waiting)
		if len(waiting) == 0 {
			return
		}
		e.commit(waiting)
		e.statements.prepare(e.writer)
	}
}

// gather adds the writes that are waiting, except those whose caller has gone.
func (e *sqliteEngine) gather(waiting []job) []job {
	for len(waiting) < groupOf {
		select {
		case j := <-e.jobs:
			if err := j.ctx.Err(); err != nil {
				j.done <- err
				continue
			}
			waiting = append(waiting, j)
		default:
			return waiting
		}
	}
	return waiting
}

// commit runs jobs in one transaction. If one fails, the transaction is rolled back and each job runs in a transaction of its own,
// so that only that one fails. If the transaction cannot begin or be committed, all fail: each alone would wait as long again.
func (e *sqliteEngine) commit(jobs []job) {
	// Not the context of one caller: the transaction has the writes of others, too.
	ctx := context.Background()
	faulty := false
	err := e.transaction(ctx, func(ctx context.Context, q queries) error {
		for _, j := range jobs {
			if err := j.run(ctx, q); err != nil {
				faulty = true
				return err
			}
		}
		return nil
	})
	if faulty && len(jobs) > 1 {
		for i := range jobs {
			e.commit(jobs[i : i+1])
		}
		return
	}
	if err == nil {
		err = e.inPlace()
	}
	for _, j := range jobs {
		j.done <- err
	}
}
