package store

import (
	"context"
	"database/sql"
)

// A stmtCache has prepared statements by their text: SQLite takes longer to parse most of ours than to run them. A nil statement is
// to be prepared.
type stmtCache map[string]*sql.Stmt

const stmtCacheAtMost = 64 // filters make many statements

// A cachedTx is a transaction that uses prepared statements.
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

// of returns the prepared statement, nil if there is none. A query without arguments is not prepared.
func (k stmtCache) of(query string, args []any) *sql.Stmt {
	s, asked := k[query]
	if !asked && len(args) > 0 && len(k) < stmtCacheAtMost {
		k[query] = nil
	}
	return s
}

// prepare prepares the statements that were asked for. It runs between transactions, as within one the connection is in use.
func (k stmtCache) prepare(db *sql.DB) {
	for query, s := range k {
		if s != nil {
			continue
		}
		s, err := db.Prepare(query)
		if err != nil {
			delete(k, query) // running it will return the error
			continue
		}
		k[query] = s
	}
}
