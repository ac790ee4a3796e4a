package store

import (
	"context"
	"errors"
)

// An entry is a write that nearly always needs no more than its own statement: a new row, or a change of a row that is
// as expected. If it is not like that, the entry changes nothing, and the write needs a transaction of its own.
type entry struct {
	doing string // for errors
	// Batches apply their entries in the order of their keys, so that those of two replicas cannot deadlock. A key
	// begins with "bill", "order" or "url": its table comes in the order in which AddKey locks them.
	key  string
	lock []string // of the lock that PostgreSQL takes first; nil: none
	statement
	then    statement // follows; may be empty
	applied bool      // the statement has changed its row
}

// A statement has its arguments.
type statement struct {
	text string
	args []any
}

// record applies an entry, and reports whether all was as expected.
func (s *Store) record(ctx context.Context, n *entry) (applied bool, err error) {
	// Before it is in a batch, which would fail with it.
	if err = errors.Join(columnValues(n.args), columnValues(n.then.args)); err == nil {
		err = s.engine.record(ctx, n)
		if err != nil || n.applied { // else a transaction of its own follows
			s.recent.observe(err)
		}
	}
	if err != nil {
		return false, failed(n.doing, err)
	}
	return n.applied, nil
}

// apply applies an entry in a transaction of SQLite.
func (n *entry) apply(q tx) {
	if n.applied = q.exec(n.text, n.args...) == 1; n.then.text != "" {
		q.exec(n.then.text, n.then.args...)
	}
}
