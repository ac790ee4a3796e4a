package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// applicationID ("bbst") in the header of an SQLite file marks it as a store.
const applicationID = 0x62627374

var errNotOurs = errors.New("it is not a store of billbridge")

// sqliteEngine is SQLite: one connection that writes, whose transactions each carry the writes of many callers, and a
// few that read. In memory there is only the first.
type sqliteEngine struct {
	db      *sql.DB   // of one connection
	writer  *sql.Conn // of db
	readers *sql.DB   // nil in memory
	files   []pinned  // none in memory
	writing *stmtCache
	reading *stmtCache
	guard   *guard // of one slot: one transaction runs at a time

	queue
}

// A pinned file must not be replaced while the store is open.
type pinned struct {
	path string
	info os.FileInfo
}

func openSQLite(ctx context.Context, file string, o Options, g *guard) (engine, error) {
	e := &sqliteEngine{queue: newQueue(), guard: g}
	err := e.open(ctx, file, o)
	if err == nil {
		err = e.find(ctx)
	}
	if err != nil {
		_ = e.disconnect() // the error is why
		return nil, explained(err)
	}
	go e.commitAll()
	return e, nil
}

// explained is why a file cannot be opened, in words for the operator.
func explained(err error) error {
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return errors.New("another process has it locked")
	case sqlite3.SQLITE_NOTADB:
		return errNotOurs
	}
	return err
}

// code is SQLite's primary result code of an error; 0 if it is not an error of SQLite.
func code(err error) int {
	var cause *sqlite.Error
	if !errors.As(err, &cause) {
		return 0
	}
	return cause.Code() & 0xff
}

func (e *sqliteEngine) open(ctx context.Context, file string, o Options) (err error) {
	pragmas := []string{
		fmt.Sprintf("busy_timeout(%d)", o.wait().Milliseconds()),
		"synchronous(FULL)",            // a commit is on the disk when it returns
		"secure_delete(1)",             // what is deleted or encrypted later does not stay in free parts of the file
		"journal_size_limit(67108864)", // a log that grew larger is truncated
		"wal_autocheckpoint(4000)",     // pages: most are written again and again, and need to be copied once
		// What statements need to undo themselves: a group of callbacks would make, write and remove a file each time.
		"temp_store(MEMORY)",
	}
	if o.pages > 0 {
		pragmas = append(pragmas, "max_page_count("+strconv.Itoa(o.pages)+")")
	}
	source, path, values := "file::memory:", "", url.Values{"_txlock": {"immediate"}, "_pragma": pragmas}
	var before os.FileInfo
	if file != "" {
		if path, err = inFolder(file); err != nil {
			return err
		}
		if err := create(path); err != nil {
			return err
		}
		if path, source, before, err = inspected(ctx, path); err != nil {
			return err
		}
		values["mode"] = []string{"rw"} // a file that was removed must not be created again
	}
	if e.db, err = connect(source, values, 1); err != nil {
		return err
	}
	// Another process may be starting or stopping: SQLite does not wait for the lock before it changes the journal
	// mode.
	if err := o.patiently(ctx, func() (err error) {
		if e.writer == nil {
			if e.writer, err = e.db.Conn(ctx); err != nil {
				return err
			}
			e.writing = newStmtCache(e.writer)
		}
		return e.prepare(ctx, file == "", o)
	}); err != nil || file == "" {
		return err
	}
	if e.readers, err = connect(source, url.Values{"mode": {"rw"}, "_pragma": append(pragmas, "query_only(1)")},
		4); err != nil {
		return err
	}
	e.reading = newStmtCache(e.readers)
	if err := e.readers.PingContext(ctx); err != nil {
		return err
	}
	log, err := os.Stat(path + "-wal")
	if err != nil {
		return err
	}
	e.files = []pinned{{file, before}, {path, before}, {path + "-wal", log}}
	return e.inPlace()
}

// inFolder returns the absolute path of a file that may be missing; its folder must exist.
func inFolder(file string) (path string, err error) {
	if path, err = filepath.Abs(file); err != nil {
		return "", err
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return "", fmt.Errorf("there is no folder %s", filepath.Dir(path))
	}
	return path, nil
}

// inspected follows links to the file itself, because SQLite keeps its log in the folder of that, and checks it before
// it is opened for writing. source is its path, escaped for SQLite.
func inspected(ctx context.Context, path string) (file, source string, info os.FileInfo, err error) {
	if file, err = filepath.EvalSymlinks(path); err == nil {
		info, err = os.Stat(file)
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a file")
	}
	source = (&url.URL{Scheme: "file", Path: file}).String()
	if err == nil {
		err = recogniseUntouched(ctx, source)
	}
	if err == nil {
		err = writable(file)
	}
	return file, source, info, err
}

// create makes the file if it is missing, readable for its owner alone: it will hold payments.
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

// recogniseUntouched refuses a file of another program without taking a lock on it. It does not see what is still in
// the file's log; prepare looks again. Opened immutable: a concurrent checkpoint would look like corruption.
// writable_schema(1) keeps SQLite from reporting that.
func recogniseUntouched(ctx context.Context, source string) error {
	values := url.Values{"mode": {"ro"}, "immutable": {"1"}, "_pragma": {"writable_schema(1)"}}
	return oneFile(source, values, func(db *sql.DB) error {
		return run(ctx, db, func(q tx) { recognise(q) })
	})
}

// oneFile runs f on a connection for it alone.
func oneFile(source string, values url.Values, f func(*sql.DB) error) error {
	db, err := connect(source, values, 1)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return f(db)
}

// recognise reports whether a file is new, and refuses one that is neither new nor a store. It changes nothing. Of a
// store it reads only the header.
func recognise(q tx) (fresh bool) {
	const header = "PRAGMA application_id"
	id := value[int](q, header)
	if id == 0 {
		if value[int](q, "PRAGMA user_version") == 0 && value[int](q, "SELECT count(*) FROM sqlite_schema") == 0 {
			return q.err == nil
		}
		id = value[int](q, header) // again: another process may have made it a store, which it marks first
	}
	if id != applicationID {
		q.fail(errNotOurs)
	}
	return false
}

// mark marks a file as a store.
func mark(q tx) { q.exec(fmt.Sprintf("PRAGMA application_id = %d", applicationID)) }

// prepare marks a new file as a store, and then sets what the header keeps.
func (e *sqliteEngine) prepare(ctx context.Context, memory bool, o Options) error {
	// Incremental vacuum must be set before the file has its first page.
	if err := run(ctx, e.writer, func(q tx) {
		if recognise(q) {
			q.exec("PRAGMA auto_vacuum = INCREMENTAL")
		}
	}); err != nil {
		return err
	}
	if err := e.unguarded(ctx, func(q tx) {
		if recognise(q) { // again: another process may have made it a store
			mark(q)
		}
	}); err != nil {
		return err
	}
	if err := run(ctx, e.writer, func(q tx) {
		if memory {
			return
		}
		if mode := value[string](q, "PRAGMA journal_mode = WAL"); mode != "wal" {
			q.fail(fmt.Errorf("its file system cannot share memory between processes, which the log needs: the "+
				"journal mode stays %q", mode))
		}
	}); err != nil {
		return err
	}
	return e.unguarded(ctx, func(q tx) { migrate(q, forSQLite, o) })
}

func (e *sqliteEngine) transaction(ctx context.Context, f func(tx)) error {
	since, own, raised := e.guard.changes.Load(), e.guard.all[0], int64(0)
	err := e.unguarded(ctx, func(q tx) {
		// A transaction that changes nothing does not wait for the disk, and needs no number.
		const changes = "SELECT total_changes() + $1"
		before := value[int64](q, changes, 0)
		f(q)
		q.fail(e.inPlace()) // before the commit: what is refused is not in the file, should it come back
		if after := value[int64](q, changes, 0); after == before || q.err != nil {
			return
		}
		if raised = q.exec(raisingSQLite, append(e.guard.next(own), time.Now())...); raised == 0 {
			q.fail(errFailedOver)
		}
	})
	if errors.Is(err, errFailedOver) { // an older copy was put in the place of the file
		return errors.Join(err, e.find(ctx))
	}
	if err != nil || raised == 0 {
		return err
	}
	return e.guard.acknowledge(own, since)
}

// find looks for the number of this process. If it is lower than the last acknowledged one, the store counts as
// restored.
func (e *sqliteEngine) find(ctx context.Context) error {
	outcome := Proven
	if err := e.unguarded(ctx, func(q tx) {
		if e.guard.find(q, "", time.Now()) {
			outcome = Lost
		}
		forget(q, time.Now())
	}); err != nil {
		return err
	}
	e.guard.settle("", outcome)
	return nil
}

func (e *sqliteEngine) unguarded(ctx context.Context, f func(tx)) error {
	return within(ctx, e.writer, sql.LevelDefault, func(*sql.Tx) error { return run(ctx, e.writing, f) })
}

// inPlace returns errReplaced unless the open files are still at their paths: what is written to a removed file is
// lost when the process ends.
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

func (e *sqliteEngine) read(ctx context.Context, f func(tx)) error {
	if e.readers == nil {
		return e.write(ctx, f)
	}
	if e.isClosing() {
		return errClosed
	}
	err := run(ctx, e.reading, f)
	if err != nil && e.isClosing() {
		return errClosed
	}
	return cmp.Or(e.inPlace(), err)
}

func (e *sqliteEngine) close() error {
	close(e.closing)
	<-e.gone
	_ = run(context.Background(), e.writer, e.guard.leave)
	return e.disconnect()
}

func (e *sqliteEngine) disconnect() (err error) {
	if e.readers != nil {
		err = e.readers.Close()
	}
	if e.writer != nil {
		e.writing.close()
		err = errors.Join(err, e.writer.Close())
	}
	if e.db != nil { // last: closing it copies the log into the file
		err = errors.Join(err, e.db.Close())
	}
	return err
}
