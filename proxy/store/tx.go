package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// A tx runs the statements of one call: of a write in its transaction, of a read on what is committed.
type tx struct {
	ctx context.Context // of the call, which a tx does not outlive
	queries
}

// queries are what sql.DB and sql.Tx have in common.
type queries interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// exec runs a statement and returns the number of rows that it has changed.
func (q tx) exec(statement string, args ...any) (changed int64, err error) {
	result, err := q.ExecContext(q.ctx, statement, columnValues(args)...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// row returns the first row of a query.
func (q tx) row(query string, args ...any) row {
	return row{q.QueryRowContext(q.ctx, query, columnValues(args)...)}
}

// value returns the one value of a query of one row.
func value[T any](q tx, query string, args ...any) (result T, err error) {
	err = q.row(query, args...).Scan(&result)
	return result, err
}

// each calls scan for every row of a query.
func (q tx) each(scan func(row) error, query string, args ...any) error {
	rows, err := q.QueryContext(q.ctx, query, columnValues(args)...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	for rows.Next() {
		if err := scan(row{rows}); err != nil {
			return err
		}
	}
	return rows.Err()
}

// list returns all rows of a query, as scan reads them.
func list[T any](q tx, scan func(*T, row) error, query string, args ...any) (all []T, err error) {
	if err := q.each(func(r row) error {
		var one T
		err := scan(&one, r)
		all = append(all, one)
		return err
	}, query, args...); err != nil {
		return nil, err
	}
	return all, nil
}

// column scans a row of one column.
func column[T any](to *T, row row) error { return row.Scan(to) }

// A row is a row of a query.
type row struct{ scanner }

type scanner interface{ Scan(to ...any) error }

// Scan reads the columns of the row, a time as columnValues stores it. It returns ErrNotFound if the query has no row.
func (r row) Scan(to ...any) error {
	for i := range to {
		if at, ok := to[i].(*time.Time); ok {
			to[i] = moment{at}
		}
	}
	err := r.scanner.Scan(to...)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return err
}

// columnValues makes arguments what columns hold: times are milliseconds since 1970, and NULL if they are zero; bools
// are 0 or 1.
func columnValues(args []any) []any {
	for i, arg := range args {
		switch v := arg.(type) {
		case time.Time:
			args[i] = nil
			if !v.IsZero() {
				args[i] = v.UnixMilli()
			}
		case bool:
			args[i] = 0
			if v {
				args[i] = 1
			}
		}
	}
	return args
}

// moment scans the column of a time.
type moment struct{ to *time.Time }

// Scan implements sql.Scanner.
func (m moment) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*m.to = time.Time{}
	case int64:
		*m.to = time.UnixMilli(v).UTC()
	default:
		return fmt.Errorf("expected milliseconds but got: %T", value)
	}
	return nil
}

// asStored is a time as it is read back from its column.
func asStored(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

// within runs f in a transaction, which is committed when within returns nil.
func within(ctx context.Context, db interface {
	BeginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error)
}, isolation sql.IsolationLevel, f func(*sql.Tx) error,
) error {
	t, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: isolation})
	if err != nil {
		return err
	}
	defer func() { _ = t.Rollback() }() // nothing is left to roll back after the commit
	if err := f(t); err != nil {
		return err
	}
	return t.Commit()
}
