package store

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"
)

// RecryptAtOnce is the most rows that ChangeKey has in memory.
const RecryptAtOnce = recryptAtOnce

// KeyID is the name of a key in the store and in errors.
var KeyID = keyID

// Pause is the pause between two batches.
const Pause = pause

// These errors are exported for tests only.
var (
	ErrClosed    = errClosed
	ErrLeaseLost = errLeaseLost
	ErrReplaced  = errReplaced
)

// OpenSmall is Open with a short wait for another process's lock, small batches, and a limit of pages for SQLite's file (0: none).
func OpenSmall(ctx context.Context, url string, pages int, key ...[]byte) (*Store, error) {
	return Open(ctx, url, Options{Key: append(key, nil)[0], busy: 50 * time.Millisecond, batch: 10, pages: pages})
}

// OpenNewer is Open with the program of a later version, which has further migrations.
func OpenNewer(ctx context.Context, url string, migrations ...string) (*Store, error) {
	return Open(ctx, url, Options{busy: 50 * time.Millisecond, more: migrations})
}

// OpenHasty is Open, except that after a fail-over the other gateways have a moment to confirm the new server, not eight seconds.
func OpenHasty(ctx context.Context, url string, lossless bool) (*Store, error) {
	return Open(ctx, url, Options{Lossless: lossless, confirm: 300 * time.Millisecond})
}

// ProbeSmall is Probe with the same short wait.
func ProbeSmall(ctx context.Context, url string) error {
	return Probe(ctx, url, Options{busy: 50 * time.Millisecond})
}

// Ask returns the one value of a query on the connection that writes.
func (s *Store) Ask(ctx context.Context, question string) (string, error) {
	return write(ctx, s.db, "asking", func(q tx) string { return value[string](q, question) })
}

// AskBatches is Ask on a connection of PostgreSQL that applies batches.
func (s *Store) AskBatches(ctx context.Context, question string) (answer string, err error) {
	err = s.engine.(*postgresEngine).batches.QueryRowContext(ctx, question).Scan(&answer)
	return answer, err
}

// Clear removes every row.
func (s *Store) Clear(ctx context.Context) error {
	s.stages.Store(nil)
	s.partners.proven.Clear()
	return s.update(ctx, "clearing", func(q tx) {
		for _, table := range []string{
			"billbridge_upstreams", "billbridge_addresses", "billbridge_callbacks", "billbridge_bills", "billbridge_stages",
			"billbridge_audit", "billbridge_seen", "billbridge_counts", "billbridge_proven",
		} {
			q.exec("DELETE FROM " + table)
		}
		q.exec(`UPDATE billbridge_rollout SET revision = 0, stopped = NULL, stopped_by = '', stopped_reason = '', restored = NULL, restored_by = '', old_upstream = '', new_upstream = '', alone = '', past = '', shared = NULL,
			started = NULL, begun = NULL, begun_by = '', config_default = ''`)
		q.exec("UPDATE billbridge_clock SET vouched = NULL")
	})
}

// Hold keeps SQLite's writer busy, in a transaction, until the function that it returns is called.
func (s *Store) Hold() (release func()) {
	begun, end := make(chan struct{}), make(chan struct{})
	over := make(chan error)
	go func() {
		over <- s.engine.write(context.Background(), func(tx) {
			close(begun)
			<-end
		})
	}()
	<-begun
	return func() {
		close(end)
		<-over
	}
}

// Together has PostgreSQL apply the entries of n calls in one batch, as soon as all of them wait. It must be called before other calls.
func (s *Store) Together(n int) {
	if e, ok := s.engine.(*together); ok {
		e.n = n
		return
	}
	s.engine = &together{postgresEngine: s.engine.(*postgresEngine), n: n}
}

type together struct {
	*postgresEngine
	n int

	mu   sync.Mutex
	jobs []job
}

func (e *together) record(ctx context.Context, n *entry) error {
	j := job{ctx: ctx, entry: n, done: make(chan error, 1)}
	e.mu.Lock()
	if e.jobs = append(e.jobs, j); len(e.jobs) == e.n {
		go e.recordBatch(e.jobs)
		e.jobs = nil
	}
	e.mu.Unlock()
	return j.wait(nil)
}

// Waiting is how many writes wait for SQLite's writer.
func (s *Store) Waiting() int { return len(s.engine.(*sqliteEngine).jobs) }

// Advance is the time of the store clock after a process has run for ran.
func Advance(storeTime, now time.Time, ran time.Duration) time.Time {
	return advance(storeTime, now, ran)
}

// PageWithin is Page with another bound.
func (s *Store) PageWithin(ctx context.Context, f Filter, examined int) (Page, error) {
	f.examined, f.parts = examined, 1
	return s.Page(ctx, f)
}

// Before has f called before each statement of the store, with what runs it.
func (s *Store) Before(f func(on queries, text string, args []any)) { s.engine = watched{s.engine, f} }

type watched struct {
	engine
	before func(on queries, text string, args []any)
}

func (e watched) watch(f func(tx)) func(tx) {
	return func(q tx) { f(tx{q.ctx, watchedQueries{q.queries, e.before}, q.ending}) }
}

func (e watched) read(ctx context.Context, f func(tx)) error { return e.engine.read(ctx, e.watch(f)) }

func (e watched) write(ctx context.Context, f func(tx)) error { return e.engine.write(ctx, e.watch(f)) }

func (e watched) record(ctx context.Context, n *entry) error { return e.write(ctx, n.apply) }

type watchedQueries struct {
	queries
	before func(on queries, text string, args []any)
}

func (q watchedQueries) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	q.before(q.queries, text, args)
	return q.queries.ExecContext(ctx, text, args...)
}

func (q watchedQueries) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	q.before(q.queries, text, args)
	return q.queries.QueryContext(ctx, text, args...)
}

// Exec runs statements in a transaction.
func (s *Store) Exec(ctx context.Context, statement string, args ...any) error {
	return s.exec(ctx, "filling", statement, args...)
}

// Writer is the connection of an SQLite store that writes.
func (s *Store) Writer() *sql.Conn { return s.engine.(*sqliteEngine).writer }

// Queries is what runs statements.
type Queries = queries

// Columns are those of a table.
func (s *Store) Columns(t testing.TB, table string) (columns []string) {
	t.Helper()
	if err := s.read(t.Context(), func(q tx) {
		rows, err := q.QueryContext(q.ctx, "SELECT * FROM "+table)
		if err == nil {
			columns, err = rows.Columns()
			_ = rows.Close()
		}
		q.fail(err)
	}); err != nil {
		t.Fatal(err)
	}
	return columns
}
