package store

import (
	"context"
	"database/sql"
	"sync"
)

// A stmtCache has prepared statements by their text: SQLite takes longer to parse most of ours than to run them. A
// nil statement is to be prepared.
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

// prepare prepares the statements that were asked for. It runs between transactions, as within one the connection is
// in use.
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

// A cachedDB is a database that is only read, with prepared statements for queries of one row. It is safe for
// concurrent use.
type cachedDB struct {
	*sql.DB
	mu         sync.RWMutex
	statements map[string]*sql.Stmt
}

func (d *cachedDB) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	d.mu.RLock()
	s := d.statements[query]
	d.mu.RUnlock()
	if s == nil {
		s = d.prepare(ctx, query)
	}
	if s == nil {
		return d.DB.QueryRowContext(ctx, query, args...)
	}
	return s.QueryRowContext(ctx, args...)
}

// prepare returns a new prepared statement, nil if there are too many or if it cannot be prepared: running the query
// returns the error.
func (d *cachedDB) prepare(ctx context.Context, query string) *sql.Stmt {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.statements[query]; s != nil || len(d.statements) >= stmtCacheAtMost {
		return s
	}
	s, err := d.PrepareContext(ctx, query)
	if err != nil {
		return nil
	}
	d.statements[query] = s
	return s
}
