package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"
)

// After any error no part of the rows is returned, and the connection is free again: SQLite has one for all writes.
func TestListReturnsAllRowsOrAnError(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	q := tx{ctx, db}
	three := func(scan func(*int64, row) error) ([]int64, error) {
		return list(q, scan, "SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3")
	}
	unreadable := errors.New("unreadable")
	all, err := three(func(n *int64, row row) error {
		if err := row.Scan(n); err != nil || *n < 2 {
			return err
		}
		return unreadable
	})
	if !errors.Is(err, unreadable) || all != nil {
		t.Errorf("%v, %v", all, err)
	}
	if all, err := three(column[int64]); err != nil || !slices.Equal(all, []int64{1, 2, 3}) {
		t.Errorf("%v, %v", all, err)
	}
	for what, query := range map[string]string{
		"at once":        "SELECT no_such_column",
		"after two rows": "SELECT abs(n) FROM (SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT -9223372036854775808)", // an overflow
	} {
		if all, err := list(q, column[int64], query); err == nil || all != nil {
			t.Errorf("a query that fails %s: %v, %v", what, all, err)
		}
	}
}
