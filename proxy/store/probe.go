package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

func probeSQLite(ctx context.Context, file string, o options) error {
	path, err := inFolder(file)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return roomFor(path)
	}
	path, _, err = resolve(path)
	if err != nil {
		return err
	}
	source, err := approach(ctx, path)
	if err != nil {
		return explained(err)
	}
	db, err := connect(source, url.Values{"mode": {"rw"}, "_txlock": {"immediate"}}, 1)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return explained(o.patiently(ctx, func() error { return tryToWrite(ctx, db, o) }))
}

// patiently repeats f while another process has the lock, for as long as o.busy. SQLite itself would ask for the lock less and less often,
// and might never get it from a running process, which has it nearly all the time; for some steps it does not wait at all.
func (o options) patiently(ctx context.Context, f func() error) error {
	patience, cancel := context.WithTimeout(ctx, o.busy)
	defer cancel()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		err := f()
		if code(err) != sqlite3.SQLITE_BUSY {
			return err
		}
		select {
		case <-again.C:
		case <-patience.Done():
			return err
		}
	}
}

// roomFor returns nil if the file with that path could be made.
func roomFor(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".billbridge-check-*")
	if err != nil {
		return fmt.Errorf("no file can be made in the folder %s: %w", filepath.Dir(path), err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// tryToWrite checks a file as Open does, in a transaction that is rolled back. It makes the first write of Open, because SQLite
// grants the lock on a read-only file, too, and not every system reports that earlier.
func tryToWrite(ctx context.Context, db *sql.DB, o options) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // always
	if _, err := recognise(ctx, tx); err != nil {
		return err
	}
	s, err := examine(ctx, tx, forSQLite)
	if err != nil {
		return err
	}
	if err := o.checkKeys(ctx, tx, s); err != nil {
		return err
	}
	return mark(ctx, tx)
}

func probePostgres(ctx context.Context, url string, o options) error {
	db, err := pool(url, 2, nil)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if err := suits(ctx, db); err != nil {
		return err
	}
	if err := writes(ctx, db); err != nil {
		return err
	}
	s, err := examine(ctx, db, forPostgres)
	if err != nil {
		return err
	}
	if s.version < len(s.files) {
		return mayCreate(ctx, db)
	}
	if err := mayWrite(ctx, db); err != nil {
		return err
	}
	return o.checkKeys(ctx, db, s)
}

// checkKeys is the check of keys that Open makes, if the tables are up to date. Older tables have no encrypted rows.
func (o options) checkKeys(ctx context.Context, q queries, s schema) error {
	keys, err := newKeyring(o.keys)
	if err != nil || s.version < len(s.files) {
		return err
	}
	return keys.check(ctx, q)
}

func mayCreate(ctx context.Context, q queries) error {
	var schema sql.NullString // NULL if none of the search path exists
	var may sql.NullBool
	if err := q.QueryRowContext(ctx, `
		SELECT current_schema(), has_schema_privilege(current_schema(), 'CREATE')`).Scan(&schema, &may); err != nil {
		return err
	}
	if !may.Bool {
		return fmt.Errorf("the tables are to be made or changed, and the user may not do so in the schema %q", schema.String)
	}
	return nil
}

func mayWrite(ctx context.Context, q queries) error {
	var missing string
	err := q.QueryRowContext(ctx, `
		SELECT privilege || ' on ' || name
		FROM unnest(ARRAY['billbridge_upstreams', 'billbridge_addresses', 'billbridge_callbacks', 'billbridge_owners',
				'billbridge_rollout', 'billbridge_stages', 'billbridge_audit', 'billbridge_seen', 'billbridge_counts',
				'billbridge_clock', 'billbridge_unknown', 'billbridge_proven', 'billbridge_doubled', 'billbridge_gateways',
				'billbridge_secret']) AS name,
			unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
		WHERE NOT has_table_privilege(name, privilege) LIMIT 1`).Scan(&missing)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("the user lacks the right to %s", missing)
}
