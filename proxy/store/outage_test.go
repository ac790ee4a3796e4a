package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// NewPostgres is proxytest.Postgres, which a test in this package cannot import: it imports this package.
var NewPostgres func(testing.TB) string

// While the database is known to be down, one call a second tries it, and the others fail at once with the reason.
func TestStoreThatIsDownFailsAtOnce(t *testing.T) {
	t.Parallel()
	_, unreachable := pgconn.Connect(t.Context(), "postgres://user:secret@127.0.0.1:1/db?sslmode=disable")
	refused := func(code string) error { return &pgconn.PgError{Code: code} }
	for name, row := range map[string]struct {
		err   error
		calls int // of ten at the same moment that reach the database
	}{
		"no connection":          {unreachable, 1},
		"a standby":              {refused("25006"), 1},
		"shutting down":          {refused("57P01"), 1},
		"late":                   {context.DeadlineExceeded, 3},
		"the caller has gone":    {context.Canceled, 10},
		"no free connection":     {refused("53300"), 10},
		"the server has refused": {refused("23505"), 10},
		"no such row":            {ErrNotFound, 10},
		"up":                     {nil, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				below := struct {
					err   error
					calls int
				}{err: row.err}
				var o outage
				call := func(ctx context.Context) error {
					return o.try(ctx, func() error {
						below.calls++
						return below.err
					})
				}
				var last error
				for range 10 {
					last = call(t.Context())
				}
				if below.calls != row.calls || !errors.Is(last, row.err) {
					t.Errorf("%d of 10 calls reached the database; %v", below.calls, last)
				}
				if row.calls == 10 {
					return
				}
				if !strings.Contains(last.Error(), "PostgreSQL is down since ") {
					t.Errorf("the reason is %v", last)
				}
				_ = call(patient(t.Context()))
				if below.calls != row.calls+1 {
					t.Error("the result of what has happened did not wait")
				}
				below.calls = row.calls
				time.Sleep(trialAfter)
				_, _ = call(t.Context()), call(t.Context())
				if below.calls != row.calls+1 {
					t.Errorf("%d trials after a second", below.calls-row.calls)
				}
				time.Sleep(trialAfter)
				below.err = nil
				for range 5 {
					if err := call(t.Context()); err != nil {
						t.Errorf("after a trial that succeeded: %v", err)
					}
				}
			})
		})
	}
}

// While calls wait and none has ended for a second, as at a frozen server, the others fail at once. A call that ends shows that it is up.
func TestSilentStoreFailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		frozen := make(chan struct{})
		var o outage
		call := func() error {
			return o.try(t.Context(), func() error {
				<-frozen
				return nil
			})
		}
		var calls sync.WaitGroup
		for range lateInOutage {
			calls.Go(func() { _ = call() })
		}
		time.Sleep(silence - time.Millisecond)
		synctest.Wait()
		calls.Go(func() {
			if err := call(); err != nil {
				t.Errorf("before the second is over: %v", err)
			}
		})
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if err := call(); !errors.Is(err, errSilent) {
			t.Errorf("after a second: %v", err)
		}
		close(frozen)
		calls.Wait()
		if err := call(); err != nil {
			t.Errorf("after the end: %v", err)
		}
	})
}

// An error of a server that cannot be used begins with the server and the cause, on one line, without user and password.
func TestErrorsBeginWithTheServer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := Open(ctx, NewPostgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	e := s.engine.(*postgresEngine)
	statement := func(statement string) error {
		c, err := e.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_, err = c.ExecContext(ctx, statement, pgx.QueryExecModeSimpleProtocol)
		if c.PingContext(ctx) == nil {
			t.Errorf("%s: the connection stays open", statement)
		}
		return named(err)
	}
	_, refused := pgconn.Connect(ctx, "postgres://user:secret@127.0.0.1:1,localhost:2/db?sslmode=prefer")
	for want, err := range map[string]error{
		"127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; localhost:2: dial tcp ": named(refused),
		".s.PGSQL.5432 is read-only: a standby, or configured so":                                statement("SET TRANSACTION READ ONLY; CREATE TABLE t ()"),
		".s.PGSQL.5432: terminating connection due to":                                           statement("SELECT pg_terminate_backend(pg_backend_pid())"),
		"PostgreSQL did not answer in time":                                                      named(fmt.Errorf("timeout: %w", context.DeadlineExceeded)),
	} {
		about := fmt.Sprint(failed("reading", err))
		before, _, found := strings.Cut(about, want)
		if !found || strings.Contains(before, " ") || strings.ContainsAny(about, "\n`") || strings.Contains(about, "user") || !strings.HasSuffix(about, " (store: reading)") {
			t.Errorf("%s, want %s", about, want)
		}
	}
}
