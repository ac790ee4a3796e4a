package store

import (
	"context"
	"database/sql"
	"sync"
)

// A stmtCache is a connection to SQLite, or a pool of them, with prepared statements: SQLite takes longer to parse
// most of ours than to run them. It is safe for concurrent use.
type stmtCache struct {
	preparer
	mu         sync.RWMutex
	statements map[string]*sql.Stmt
}

type preparer interface {
	queries
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

func newStmtCache(on preparer) *stmtCache {
	return &stmtCache{preparer: on, statements: map[string]*sql.Stmt{}}
}

// close closes the statements: those of one connection keep it open.
func (c *stmtCache) close() {
	for _, s := range c.statements {
		_ = s.Close()
	}
}

const stmtCacheAtMost = 80 // filters make many statements

func (c *stmtCache) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if s := c.of(ctx, query, args); s != nil {
		return s.ExecContext(ctx, args...)
	}
	return c.preparer.ExecContext(ctx, query, args...)
}

func (c *stmtCache) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := c.of(ctx, query, args); s != nil {
		return s.QueryContext(ctx, args...)
	}
	return c.preparer.QueryContext(ctx, query, args...)
}

// of returns the prepared statement, nil if there is none: of a query without arguments, or one that cannot be
// prepared, which running it will say.
func (c *stmtCache) of(ctx context.Context, query string, args []any) *sql.Stmt {
	c.mu.RLock()
	s, known := c.statements[query]
	full := len(c.statements) >= stmtCacheAtMost
	c.mu.RUnlock()
	if known || full || len(args) == 0 {
		return s
	}
	s, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.statements[query]; other != nil {
		_ = s.Close()
		return other
	}
	c.statements[query] = s
	return s
}
