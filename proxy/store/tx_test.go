package store

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"
)

// After a statement that failed no part of its rows is returned, nothing else is done, and the connection is free
// again: SQLite has one for all writes.
func TestFailedStatementEndsItsCall(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	const three = "SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3"
	if err := run(ctx, db, func(q tx) {
		q.exec("CREATE TABLE done (n INTEGER)")
		if all := list[int64](q, three); !slices.Equal(all, []int64{1, 2, 3}) {
			t.Error(all)
		}
	}); err != nil {
		t.Fatal(err)
	}
	for what, query := range map[string]string{
		"at once":        "SELECT no_such_column",
		"when scanned":   "SELECT 1 UNION ALL SELECT 'two'",
		"after two rows": "SELECT abs(n) FROM (SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT -9223372036854775808)", // an overflow
	} {
		if err := run(ctx, db, func(q tx) {
			if all := list[int64](q, query); all != nil {
				t.Errorf("a query that fails %s: %v", what, all)
			}
			q.refuse(nil)
			if n := q.exec("INSERT INTO done VALUES (1)"); n != 0 {
				t.Errorf("after a query that fails %s: %d rows", what, n)
			}
			if all := list[int64](q, "INSERT INTO done VALUES (2) RETURNING n"); all != nil {
				t.Errorf("after a query that fails %s: %v", what, all)
			}
		}); err == nil {
			t.Errorf("a query that fails %s: no error", what)
		}
	}
	if err := run(ctx, db, func(q tx) {
		q.refuse(ErrState)
		if n := q.exec("INSERT INTO done VALUES (1)"); n != 0 {
			t.Errorf("after a refusal: %d rows", n)
		}
		list[int64](q, "INSERT INTO done VALUES (2) RETURNING n")
		q.fail(ErrNotFound)
	}); err != nil {
		t.Error("a refusal is not to be rolled back:", err)
	}
	if err := run(ctx, db, func(q tx) {
		if n := value[int](q, "SELECT count(*) FROM done"); n != 0 {
			t.Errorf("%d rows were written after the end", n)
		}
	}); err != nil {
		t.Error(err)
	}
}
