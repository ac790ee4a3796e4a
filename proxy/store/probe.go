package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
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
	source := sourceOf(path)
	if err := recogniseUntouched(ctx, source); err != nil {
		return explained(err)
	}
	db, err := connect(source, url.Values{
		"mode": {"rw"}, "_txlock": {"immediate"}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", o.busy.Milliseconds())},
	}, 1)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return explained(tryToWrite(ctx, db))
}

// roomFor tells whether the file with that path could be made.
func roomFor(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".billbridge-check-*")
	if err != nil {
		return fmt.Errorf("no file can be made in the folder %s: %w", filepath.Dir(path), err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// tryToWrite looks at a file as Open does, in a transaction that comes to nothing. The write in it is Open's first:
// the lock alone would be given for a file that can only be read. To open the file itself for that would be wrong, as
// closing it again would end the locks that this process has on it.
func tryToWrite(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // as it is meant to be
	if _, err := recognise(ctx, tx); err != nil {
		return err
	}
	if _, err := examine(ctx, tx, forSQLite); err != nil {
		return err
	}
	return mark(ctx, tx)
}

func probePostgres(ctx context.Context, url string) error {
	db, err := pool(url, 1)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if err := speaksUTF8(ctx, db); err != nil {
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
	return mayWrite(ctx, db)
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
		FROM unnest(ARRAY['billbridge_upstreams', 'billbridge_addresses', 'billbridge_callbacks']) AS name,
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
