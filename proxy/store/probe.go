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
	_, source, _, err := approach(ctx, path)
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

// patiently repeats f while another process has the lock, for as long as o.busy. SQLite itself would ask for the lock
// less and less often, and might never get it from a running process, which has it nearly all the time; for some
// steps it does not wait at all.
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

// tryToWrite checks a file as Open does, in a transaction that is rolled back. It makes the first write of Open,
// because SQLite grants the lock on a read-only file, too, and not every system reports that earlier.
func tryToWrite(ctx context.Context, db *sql.DB, o options) error {
	t, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = t.Rollback() }() // always
	q := tx{ctx, t}
	if _, err := recognise(q); err != nil {
		return err
	}
	s, err := examine(q, forSQLite)
	if err == nil {
		err = o.checkKeys(q, s)
	}
	if err != nil {
		return err
	}
	return mark(q)
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
	q := tx{ctx, db}
	if err := writes(q); err != nil {
		return err
	}
	s, err := examine(q, forPostgres)
	if err != nil {
		return err
	}
	if s.version < len(s.files) {
		return mayCreate(q)
	}
	if err := mayWrite(q); err != nil {
		return err
	}
	return o.checkKeys(q, s)
}

// checkKeys is the check of keys that Open makes, if the tables are up to date. Older tables have no encrypted rows.
func (o options) checkKeys(q tx, s schema) error {
	keys, err := newKeyring(o.keys)
	if err != nil || s.version < len(s.files) {
		return err
	}
	return keys.check(q)
}

func mayCreate(q tx) error {
	var schema string // "" if none of the search path exists
	var may bool
	if err := q.row(`
		SELECT coalesce(current_schema(), ''), coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)`).
		Scan(&schema, &may); err != nil {
		return err
	}
	if !may {
		return fmt.Errorf("the tables are to be made or changed, and the user may not do so in the schema %q", schema)
	}
	return nil
}

func mayWrite(q tx) error {
	missing, err := value[string](q, `
		SELECT privilege || ' on ' || name
		FROM unnest(ARRAY['billbridge_upstreams', 'billbridge_addresses', 'billbridge_callbacks', 'billbridge_owners',
				'billbridge_rollout', 'billbridge_stages', 'billbridge_audit', 'billbridge_seen', 'billbridge_counts',
				'billbridge_clock', 'billbridge_unknown', 'billbridge_proven', 'billbridge_doubled',
				'billbridge_gateways', 'billbridge_secret']) AS name,
			unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
		WHERE NOT has_table_privilege(name, privilege) LIMIT 1`)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("the user lacks the right to %s", missing)
}
