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
	key    []string
	locked bool // PostgreSQL takes the lock of the key first
	statement
	then    statement // follows; may be empty
	applied bool      // the statement has changed its row
}

// A statement has its arguments.
type statement struct {
	text string
	args []any
}

// record applies an entry and returns done, or else what a transaction of its own returns.
func record[T any](ctx context.Context, s *Store, n *entry, done T, otherwise func(tx) T) (none T, err error) {
	// Before it is in a batch, which would fail with it.
	if err = errors.Join(columnValues(n.args), columnValues(n.then.args)); err == nil {
		if err = s.record(ctx, n); err == nil && !n.applied {
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
	if n.applied = q.exec(n.text, n.args...) == 1; n.then.text != "" {
		q.exec(n.then.text, n.then.args...)
	}
}
