package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// applicationID marks a store in the header of its file ("bbst"), so that a file of something else is told from one.
const applicationID = 0x62627374

var errNotOurs = errors.New("it is not a store of billbridge")

// lite is SQLite: one connection that writes, whose transactions each carry what many callers wait for, and a few that
// read beside it. In memory there is only the one.
type sqliteEngine struct {
	writer, readers *sql.DB
	keeper          *sql.Conn // open as long as the store, so that SQLite does not remove its log in between
	files           []pinned  // none in memory
	statements      stmtCache // the writer's alone

	jobs    chan job
	closing chan struct{} // closed by close: the writer ends what waits, and ends
	gone    chan struct{} // closed when the writer has ended
	once    sync.Once
	closed  error
}

// A pinned file is one that must stay the same while the store is open.
type pinned struct {
	path string
	info os.FileInfo
}

func openSQLite(ctx context.Context, file string, o options) (*sqliteEngine, error) {
	e := &sqliteEngine{statements: stmtCache{}, jobs: make(chan job, groupOf), closing: make(chan struct{}), gone: make(chan struct{})}
	err := e.open(ctx, file, o)
	if err != nil {
		_ = e.disconnect() // the error is why
		return nil, explained(err)
	}
	go e.commitAll()
	return e, nil
}

// explained says in the operator's words why a file cannot be opened.
func explained(err error) error {
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return errors.New("another process has it locked")
	case sqlite3.SQLITE_NOTADB:
		return errNotOurs
	}
	return err
}

// code is SQLite's number of an error, without its details; 0 if it is not one of SQLite.
func code(err error) int {
	var cause *sqlite.Error
	if !errors.As(err, &cause) {
		return 0
	}
	return cause.Code() & 0xff
}

func (e *sqliteEngine) open(ctx context.Context, file string, o options) (err error) {
	pragmas := []string{
		fmt.Sprintf("busy_timeout(%d)", o.busy.Milliseconds()),
		"synchronous(FULL)",            // a commit has reached the disk when it returns
		"journal_size_limit(67108864)", // of what is left of a log that once grew larger
	}
	if o.pages > 0 {
		pragmas = append(pragmas, "max_page_count("+strconv.Itoa(o.pages)+")")
	}
	if file == "" {
		if e.writer, err = connect("file::memory:", url.Values{"_txlock": {"immediate"}, "_pragma": pragmas}, 1); err != nil {
			return err
		}
		e.readers = e.writer
		return e.prepare(ctx, true)
	}

	path, err := inFolder(file)
	if err != nil {
		return err
	}
	if err := create(path); err != nil {
		return err
	}
	path, before, err := resolve(path)
	if err != nil {
		return err
	}
	source, err := approach(ctx, path)
	if err != nil {
		return err
	}
	// rw: a file that is gone is not made again behind our back.
	if e.writer, err = connect(source, url.Values{"mode": {"rw"}, "_txlock": {"immediate"}, "_pragma": pragmas}, 1); err != nil {
		return err
	}
	if err := e.prepare(ctx, false); err != nil {
		return err
	}
	const reading = 4
	if e.readers, err = connect(source, url.Values{"mode": {"rw"}, "_pragma": append(pragmas, "query_only(1)")}, reading+1); err != nil {
		return err
	}
	if e.keeper, err = e.readers.Conn(ctx); err != nil {
		return err
	}
	if err := e.keeper.QueryRowContext(ctx, "SELECT max(version) FROM billbridge_schema").Scan(new(int)); err != nil {
		return err
	}
	log, err := os.Stat(path + "-wal")
	if err != nil {
		return err
	}
	e.files = []pinned{{file, before}, {path, before}, {path + "-wal", log}}
	return e.inPlace()
}

// inFolder returns the absolute path of a file that may be missing, in a folder that is not.
func inFolder(file string) (path string, err error) {
	if path, err = filepath.Abs(file); err != nil {
		return "", err
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return "", fmt.Errorf("there is no folder %s", filepath.Dir(path))
	}
	return path, nil
}

// resolve follows links to the file itself: SQLite keeps its log beside that.
func resolve(path string) (file string, info os.FileInfo, err error) {
	if file, err = filepath.EvalSymlinks(path); err != nil {
		return "", nil, err
	}
	if info, err = os.Stat(file); err != nil {
		return "", nil, err
	}
	if !info.Mode().IsRegular() {
		return "", nil, errors.New("it is not a file")
	}
	return file, info, nil
}

// approach looks at a file before it is opened to be written to, and returns its path as SQLite takes it, whatever
// characters it has.
func approach(ctx context.Context, path string) (source string, err error) {
	source = (&url.URL{Scheme: "file", Path: path}).String()
	if err := recogniseUntouched(ctx, source); err != nil {
		return "", err
	}
	return source, writable(path)
}

// create makes the file if it is missing, readable for nobody else: it will hold payments.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// connect prepares connections that stay open.
func connect(source string, values url.Values, most int) (*sql.DB, error) {
	db, err := sql.Open("sqlite", source+"?"+values.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db, nil
}

// recogniseUntouched refuses a file of another program without taking a lock on it. It does not see what is still in the file's
// log; prepare looks again. Opened immutable: a concurrent checkpoint would look like corruption. writable_schema(1) keeps SQLite
// from reporting that.
func recogniseUntouched(ctx context.Context, source string) error {
	db, err := connect(source, url.Values{"mode": {"ro"}, "immutable": {"1"}, "_pragma": {"writable_schema(1)"}}, 1)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	_, err = recognise(ctx, db)
	return err
}

// recognise reports whether a file is new, and refuses one that is neither new nor ours. It changes nothing, and of a
// file of ours it reads no more than the header.
func recognise(ctx context.Context, q queries) (fresh bool, err error) {
	var application, version, things int
	if err := q.QueryRowContext(ctx, "PRAGMA application_id").Scan(&application); err != nil {
		return false, err
	}
	if application == applicationID {
		return false, nil
	}
	if err := errors.Join(
		q.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version),
		q.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&things),
	); err != nil {
		return false, err
	}
	if application == 0 && version == 0 && things == 0 {
		return true, nil
	}
	return false, errNotOurs
}

// mark makes a file ours.
func mark(ctx context.Context, q queries) error {
	_, err := q.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID))
	return err
}

// prepare marks a new file as ours before anything else, and only then changes what its header keeps.
func (e *sqliteEngine) prepare(ctx context.Context, memory bool) error {
	// Before there is a first page, or never: free pages can be given back to the disk a few at a time.
	fresh, err := recognise(ctx, e.writer)
	if err != nil {
		return err
	}
	if fresh {
		if _, err := e.writer.ExecContext(ctx, "PRAGMA auto_vacuum = INCREMENTAL"); err != nil {
			return err
		}
	}
	if err := e.transaction(ctx, func(ctx context.Context, q queries) error {
		fresh, err := recognise(ctx, q) // again: another process may have been faster
		if err == nil && fresh {
			err = mark(ctx, q)
		}
		return err
	}); err != nil {
		return err
	}
	if !memory {
		var mode string
		if err := e.writer.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
			return err
		}
		if mode != "wal" {
			return fmt.Errorf("its file system cannot share memory between processes, which the log needs: the journal mode stays %q", mode)
		}
	}
	return e.transaction(ctx, func(ctx context.Context, q queries) error {
		return migrate(ctx, q, forSQLite)
	})
}

func (e *sqliteEngine) transaction(ctx context.Context, f func(context.Context, queries) error) error {
	tx, err := e.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing is left to roll back after the commit
	if err := f(ctx, cachedTx{tx, e.statements}); err != nil {
		return err
	}
	return tx.Commit()
}

// inPlace returns errReplaced unless the files at their paths are those that are open: what is written to a file that
// has no name any more is gone with the process.
func (e *sqliteEngine) inPlace() error {
	for _, f := range e.files {
		now, err := os.Stat(f.path)
		if err != nil {
			return fmt.Errorf("%w: %w", errReplaced, err)
		}
		if !os.SameFile(f.info, now) {
			return fmt.Errorf("%w: %s", errReplaced, f.path)
		}
	}
	return nil
}

func (e *sqliteEngine) read(ctx context.Context, f func(context.Context, queries) error) error {
	if e.isClosing() {
		return errClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.readers == e.writer {
		ctx = context.WithoutCancel(ctx) // a connection that is given up half-way would take the memory along
	}
	err := f(ctx, e.readers)
	if err != nil && e.isClosing() {
		return errClosed
	}
	if replaced := e.inPlace(); replaced != nil {
		return replaced
	}
	return err
}

func (e *sqliteEngine) isClosing() bool {
	select {
	case <-e.closing:
		return true
	default:
		return false
	}
}

func (e *sqliteEngine) close() error {
	e.once.Do(func() {
		close(e.closing)
		<-e.gone
		e.closed = e.disconnect()
	})
	return e.closed
}

func (e *sqliteEngine) disconnect() (err error) {
	if e.keeper != nil {
		err = e.keeper.Close()
	}
	if e.readers != nil && e.readers != e.writer {
		err = errors.Join(err, e.readers.Close())
	}
	if e.writer != nil { // last: it carries the log over into the file
		err = errors.Join(err, e.writer.Close())
	}
	return err
}
