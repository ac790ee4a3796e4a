package store

import "context"

// groupOf is how many writes one transaction carries at most.
const groupOf = 256

// A job is a write that waits for the writer.
type job struct {
	ctx  context.Context
	run  func(context.Context, queries) error
	done chan error // takes one answer, read or not
}

// write hands f to the writer and waits for the commit that carries it.
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
	select { // it may have been the last that the writer did
	case err := <-j.done:
		return err
	default:
		return errClosed // it came when the writer had ended
	}
}

// commitAll is the writer: it takes all writes that wait, commits them together and tells each. So the disk is waited
// for once, and while it is, the next ones gather.
func (e *sqliteEngine) commitAll() {
	defer close(e.gone)
	for {
		var waiting []job
		select {
		case j := <-e.jobs:
			if err := j.ctx.Err(); err != nil { // as in gather: a claim that nobody waits for would be held until it ends
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

// gather adds the writes that wait by now, but for those whose caller has gone.
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

// commit runs jobs in one transaction. If one of them fails, what the others did is undone with it: then each runs in
// a transaction of its own, so that only that one fails. If the transaction itself cannot begin or be committed, all
// fail: each alone would wait as long again.
func (e *sqliteEngine) commit(jobs []job) {
	// Not the context of a caller: the writes of the others hang on this transaction, too.
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
