package sandbox

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// The header of a data file identifies it and its schema. Other files, and files with another schema, are not written.
const (
	applicationID = 0x62626273 // "bbbs"
	schemaVersion = 1
)

// disk is the data file: an SQLite database with a table for each kind of row, in which each row has a key and the row as
// JSON. The service reads the file at the start, and writes every transaction before it answers.
type disk struct {
	db   *sql.DB
	file string
	log  *slog.Logger
}

// openDisk opens or creates a data file, locks it against other processes, and loads its rows.
func openDisk(file string, kinds []kind, log *slog.Logger) (*disk, error) {
	fail := func(err error) (*disk, error) { return nil, fmt.Errorf("data file %s: %w", file, err) }
	absolute, err := filepath.Abs(file)
	if err != nil {
		return fail(err)
	}
	if info, err := os.Stat(filepath.Dir(absolute)); err != nil || !info.IsDir() {
		return fail(fmt.Errorf("there is no folder %s", filepath.Dir(file)))
	}
	// FULL: a commit is on the disk when it returns. EXCLUSIVE: no other process can write, so the copy in memory is
	// current.
	source := url.URL{Scheme: "file", Path: absolute, RawQuery: url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"locking_mode(EXCLUSIVE)", "synchronous(FULL)"},
	}.Encode()}
	if err := createPrivate(absolute); err != nil {
		return fail(err)
	}
	db, err := sql.Open("sqlite", source.String())
	if err != nil {
		return fail(err)
	}
	db.SetMaxOpenConns(1) // the exclusive lock excludes a second connection too
	d := &disk{db: db, file: absolute, log: log}
	if err := d.prepare(kinds); err != nil {
		_ = db.Close()
		var cause *sqlite.Error
		if errors.As(err, &cause) {
			switch cause.Code() & 0xff { // without the extended part of the code
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

// prepare checks the header of an existing file, creates missing tables, and loads every row.
func (d *disk) prepare(kinds []kind) error {
	if err := d.checkHeader(); err != nil {
		return err
	}
	if err := d.makePrivate(); err != nil {
		return err
	}
	// The pragma writes the header, so it comes after checkHeader.
	if _, err := d.db.Exec("PRAGMA journal_mode = WAL"); err != nil {
		return err
	}
	tx, err := d.db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after the commit
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

// createPrivate creates the file if it is missing. Only its owner can read it: it has the keys and phones of a test.
func createPrivate(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
			err = failed.Err // the path is added by openDisk
		}
		return err
	}
	return f.Close()
}

// makePrivate takes the permissions of other users away from an existing file and its log files, and reports that.
func (d *disk) makePrivate() error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(d.file + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if was := info.Mode().Perm(); was&0o077 != 0 {
			mode := slog.String("mode_before", fmt.Sprintf("%#o", was))
			if err := os.Chmod(d.file+suffix, 0o600); err != nil {
				d.log.Warn("other users can read the data file, and its mode cannot be changed", "file", d.file+suffix, "error", err.Error(), mode)
				continue
			}
			d.log.Warn("other users could read the data file; its mode is 0600 now", "file", d.file+suffix, mode)
		}
	}
	return nil
}

// checkHeader returns an error unless the file is new or a data file of this schema. It changes nothing.
func (d *disk) checkHeader() error {
	tx, err := d.db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var application, version, objects int
	if err := errors.Join(
		tx.QueryRow("PRAGMA application_id").Scan(&application),
		tx.QueryRow("PRAGMA user_version").Scan(&version),
		tx.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&objects),
	); err != nil {
		return err
	}
	switch {
	case application == 0 && version == 0 && objects == 0: // new
	case application != applicationID:
		return errNotOurs
	case version != schemaVersion:
		return fmt.Errorf("its schema version is %d, but this billbridge supports %d", version, schemaVersion)
	}
	return nil
}

// load loads the rows of a table in the order in which they were first written.
func load(tx *sql.Tx, k kind) error {
	rows, err := tx.Query("SELECT value FROM " + k.label() + " ORDER BY rowid")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err has the same error
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

// write writes the staged rows in one transaction.
func (d *disk) write(kinds []kind) error {
	var tx *sql.Tx // begun with the first row: without rows nothing is written
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

// keyText returns the key of a row as a unique text.
func keyText(key any) string { return fmt.Sprintf("%q", key) }
