package store

import (
	"context"
	"database/sql"
)

// known are statements that were run before, prepared: SQLite takes longer to read most of ours than to run them. A
// statement that waits to be prepared is nil.
type stmtCache map[string]*sql.Stmt

const knownAtMost = 64 // filters come in many kinds

// quick is a transaction that uses what is prepared.
type cachedTx struct {
	*sql.Tx
	statements stmtCache
}

func (q cachedTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if s := q.statements.of(query, args); s != nil {
		return q.StmtContext(ctx, s).ExecContext(ctx, args...)
	}
	return q.Tx.ExecContext(ctx, query, args...)
}

func (q cachedTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := q.statements.of(query, args); s != nil {
		return q.StmtContext(ctx, s).QueryContext(ctx, args...)
	}
	return q.Tx.QueryContext(ctx, query, args...)
}

func (q cachedTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s := q.statements.of(query, args); s != nil {
		return q.StmtContext(ctx, s).QueryRowContext(ctx, args...)
	}
	return q.Tx.QueryRowContext(ctx, query, args...)
}

// of returns the prepared statement, if there is one yet. A query without arguments is not worth one.
func (k stmtCache) of(query string, args []any) *sql.Stmt {
	s, asked := k[query]
	if !asked && len(args) > 0 && len(k) < knownAtMost {
		k[query] = nil
	}
	return s
}

// prepare prepares what was asked for, between transactions: within one, its connection is taken.
func (k stmtCache) prepare(db *sql.DB) {
	for query, s := range k {
		if s != nil {
			continue
		}
		s, err := db.Prepare(query)
		if err != nil {
			delete(k, query) // it will say so itself when it runs
			continue
		}
		k[query] = s
	}
}
