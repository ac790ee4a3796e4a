package sandbox

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// The marks of a data file in its header, so that a file of something else is
// told from one of ours, and a schemaVersion that is not understood is never written.
const (
	applicationID = 0x62626273 // "bbbs"
	schemaVersion        = 1
)

// disk is the data file: an SQLite database with one table for each kind of
// row, its columns a key and the row as JSON. The service reads it once, when
// it starts, and writes every transaction to it before it answers.
type disk struct{ db *sql.DB }

// openDisk opens or makes a data file with a table for each kind, loads what it
// holds, and keeps other processes from opening it.
func openDisk(file string, kinds []kind) (*disk, error) {
	fail := func(err error) (*disk, error) { return nil, fmt.Errorf("data file %s: %w", file, err) }
	absolute, err := filepath.Abs(file)
	if err != nil {
		return fail(err)
	}
	if info, err := os.Stat(filepath.Dir(absolute)); err != nil || !info.IsDir() {
		return fail(fmt.Errorf("there is no folder %s", filepath.Dir(file)))
	}
	// FULL: a commit has reached the disk when it returns. EXCLUSIVE: what is in
	// memory would be wrong if another process wrote too.
	source := url.URL{Scheme: "file", Path: absolute, RawQuery: url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"locking_mode(EXCLUSIVE)", "synchronous(FULL)"},
	}.Encode()}
	db, err := sql.Open("sqlite", source.String())
	if err != nil {
		return fail(err)
	}
	db.SetMaxOpenConns(1) // a second connection would be locked out by the first
	d := &disk{db}
	if err := d.prepare(kinds); err != nil {
		_ = db.Close()
		var cause *sqlite.Error
		if errors.As(err, &cause) {
			switch cause.Code() & 0xff { // the rest of the number is detail
			case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
				err = errors.New("another process has it open")
			case sqlite3.SQLITE_NOTADB:
				err = errNotOurs
			}
		}
		return fail(err)
	}
	return d, nil
}

var errNotOurs = errors.New("it is not a data file of the sandbox")

// prepare holds an old file to its marks, makes the tables of a new one, and
// loads every row.
func (d *disk) prepare(kinds []kind) error {
	if err := d.checkHeader(); err != nil {
		return err
	}
	// Kept in the file's header, so not before it is known to be ours.
	if _, err := d.db.Exec("PRAGMA journal_mode = WAL"); err != nil {
		return err
	}
	tx, err := d.db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing is left to roll back after the commit
	statements := []string{
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		fmt.Sprintf("PRAGMA user_version = %d", schemaVersion),
	}
	for _, k := range kinds {
		statements = append(statements, "CREATE TABLE IF NOT EXISTS "+k.label()+" (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT")
	}
	for _, statement := range statements {
		if _, err := tx.Exec(statement); err != nil {
			return err
		}
	}
	for _, k := range kinds {
		if err := load(tx, k); err != nil {
			return fmt.Errorf("table %s: %w", k.label(), err)
		}
	}
	return tx.Commit()
}

// checkHeader tells whether the file is new or ours. It changes nothing.
func (d *disk) checkHeader() error {
	tx, err := d.db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var application, version, things int
	if err := errors.Join(
		tx.QueryRow("PRAGMA application_id").Scan(&application),
		tx.QueryRow("PRAGMA user_version").Scan(&version),
		tx.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&things),
	); err != nil {
		return err
	}
	switch {
	case application == 0 && version == 0 && things == 0: // new
	case application != applicationID:
		return errNotOurs
	case version != schemaVersion:
		return fmt.Errorf("its layout is %d, and this billbridge knows %d", version, schemaVersion)
	}
	return nil
}

// load reads a table in the order its rows were first written.
func load(tx *sql.Tx, k kind) error {
	rows, err := tx.Query("SELECT value FROM " + k.label() + " ORDER BY rowid")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	for rows.Next() {
		var value []byte
		if err := rows.Scan(&value); err != nil {
			return err
		}
		if err := k.load(value); err != nil {
			return err
		}
	}
	return rows.Err()
}

// write puts the staged rows on the disk, all or none.
func (d *disk) write(kinds []kind) error {
	var tx *sql.Tx // a transaction that changes nothing costs nothing
	defer func() {
		if tx != nil {
			_ = tx.Rollback()
		}
	}()
	for _, k := range kinds {
		statement := "INSERT INTO " + k.label() + " (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
		err := k.each(func(key string, value []byte) (err error) {
			if tx == nil {
				if tx, err = d.db.Begin(); err != nil {
					return err
				}
			}
			_, err = tx.Exec(statement, key, string(value))
			return err
		})
		if err != nil {
			return fmt.Errorf("writing the data file: %w", err)
		}
	}
	if tx == nil {
		return nil
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("writing the data file: %w", err)
	}
	return nil
}

func (d *disk) close() error { return d.db.Close() }

// keyText writes the key of a row down, no two alike.
func keyText(key any) string { return fmt.Sprintf("%q", key) }
