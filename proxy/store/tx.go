package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// A tx runs the statements of one call: of a write in its transaction, of a read on what is committed. After a
// statement that failed all others do nothing, as in a transaction of PostgreSQL. So only the end of the call looks
// at the error.
type tx struct {
	ctx context.Context // of the call, which a tx does not outlive
	queries
	*ending
}

// An ending is why the statements of a call ended early.
type ending struct {
	err     error
	refused bool // the call has changed nothing; see refuse
}

// queries are what connections, pools and transactions have in common.
type queries interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// run runs the statements of f and returns the error of the one that failed.
func run(ctx context.Context, on queries, f func(tx)) error {
	q := tx{ctx, on, new(ending)}
	if f(q); q.refused {
		return nil
	}
	return q.err
}

// fail ends the statements with an error, unless they have ended: the transaction is rolled back.
func (q tx) fail(err error) {
	if q.err == nil {
		q.err = err
	}
}

// refuse ends the statements of a call that has changed nothing, with an error for its caller. The transaction is
// committed: a rollback would undo the writes of others in it.
func (q tx) refuse(err error) {
	if q.err == nil {
		q.err, q.refused = err, true
	}
}

// exec runs a statement and returns the number of rows that it has changed.
func (q tx) exec(statement string, args ...any) (changed int64) {
	if q.fail(columnValues(args)); q.err != nil {
		return 0
	}
	result, err := q.ExecContext(q.ctx, statement, args...)
	if err == nil {
		changed, err = result.RowsAffected()
	}
	q.fail(err)
	return changed
}

// list returns the rows of a query, whose columns are those of fields.
func list[T any](q tx, query string, args ...any) (all []T) {
	if q.fail(columnValues(args)); q.err != nil {
		return nil
	}
	rows, err := q.QueryContext(q.ctx, query, args...)
	if err != nil {
		q.fail(err)
		return nil
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	var one T
	columns := fields(reflect.ValueOf(&one).Elem()) // once: there may be thousands of rows
	for err == nil && rows.Next() {
		err = rows.Scan(columns...)
		all = append(all, one)
	}
	if q.fail(cmp.Or(err, rows.Err())); q.err != nil {
		return nil
	}
	return all
}

// opened returns what open makes of a row. Without a row there is nothing to open.
func opened[Row, T any](q tx, row Row, open func(Row) (T, error)) (none T) {
	if q.err != nil {
		return none
	}
	of, err := open(row)
	q.fail(err)
	return of
}

// find returns the row of a query that has at most one.
func find[T any](q tx, query string, args ...any) (one T, found bool) {
	if all := list[T](q, query, args...); q.err == nil && len(all) > 0 {
		return all[0], true
	}
	return one, false
}

// value returns the row of a query that has one. Without it the call fails with ErrNotFound.
func value[T any](q tx, query string, args ...any) T {
	one, found := find[T](q, query, args...)
	if !found {
		q.fail(ErrNotFound)
	}
	return one
}

// pairs returns the rows of a query by their first column.
func pairs[K comparable, V any](q tx, query string, args ...any) map[K]V {
	all := map[K]V{}
	for _, row := range list[struct {
		Key   K
		Value V
	}](q, query, args...) {
		all[row.Key] = row.Value
	}
	return all
}

// A scan reads a column.
type scan func(value any) error

// Scan implements sql.Scanner.
func (f scan) Scan(value any) error { return f(value) }

// fields are where the columns of a row go: the one value, or the exported fields of a struct and of the structs in
// it, in their order. A slice has no column, except bytes; an array has one for each element. A time is as
// columnValues stores it.
func fields(of reflect.Value) (all []any) {
	to := of.Addr().Interface()
	switch to := to.(type) {
	case *time.Time:
		return []any{scan(func(value any) error {
			at, ok := value.(int64)
			if *to = time.UnixMilli(at).UTC(); value == nil {
				*to = time.Time{}
			} else if !ok {
				return fmt.Errorf("expected milliseconds but got: %T", value)
			}
			return nil
		})}
	case *[32]byte:
		// Of any length: only statements compare digests, and a wrong one must not hold up the other rows.
		return []any{scan(func(value any) error {
			digest, _ := value.([]byte)
			*to = [32]byte{}
			copy(to[:], digest)
			return nil
		})}
	case sql.Scanner:
		return []any{to}
	}
	switch of.Kind() {
	case reflect.Struct:
	case reflect.Array:
		for i := range of.Len() {
			all = append(all, fields(of.Index(i))...)
		}
		return all
	default:
		return []any{to}
	}
	for field, value := range of.Fields() {
		bytes := field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() == reflect.Uint8
		if field.IsExported() && (bytes || field.Type.Kind() != reflect.Slice) {
			all = append(all, fields(value)...)
		}
	}
	return all
}

// errUnstorable: PostgreSQL cannot store the text.
var errUnstorable error = sentinel("this is not a text that can be stored")

// columnValues makes arguments what columns hold: times are milliseconds since 1970, and NULL if they are zero; bools
// are 0 or 1. Texts that PostgreSQL cannot store are refused in both engines: it takes UTF-8 without a zero byte. Names
// and ids must be read back unchanged, so they are not cleaned. What it has made it leaves as it is: two statements can
// have the same arguments.
func columnValues(args []any) error {
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
		case string:
			if !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
				return fmt.Errorf("%w: %q", errUnstorable, v)
			}
		}
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
