package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// While PostgreSQL is known to be down, one call a second tries it, and all others fail at once: a call that waited for its deadline would use up
// a place of its partner, and reads that need no store would be refused.
const (
	trialAfter   = time.Second
	lateInOutage = 3 // statements in a row that did not end in time, or that wait while none has ended for silence
	silence      = time.Second
)

var errSilent = errors.New("PostgreSQL has not answered for a second")

// An outageEngine is an engine whose calls fail at once while the database is known to be down.
type outageEngine struct {
	engine

	mu    sync.Mutex
	cause error     // nil while the database is up
	since time.Time // when it was found to be down
	tried time.Time
	late  int // statements in a row that did not end in time

	waiting int       // calls under way
	ended   time.Time // when the last one ended, or the first of those under way began
}

type patientKey struct{}

// patient returns a context whose calls wait although the database is known to be down: for the result of what has already happened. If it is
// not stored, a callback is delivered again, or a bill counts as possibly created.
func patient(ctx context.Context) context.Context { return context.WithValue(ctx, patientKey{}, true) }

func (e *outageEngine) read(ctx context.Context, f func(context.Context, queries) error) error {
	return e.try(ctx, func() error { return e.engine.read(ctx, f) })
}

func (e *outageEngine) write(ctx context.Context, f func(context.Context, queries) error) error {
	return e.try(ctx, func() error { return e.engine.write(ctx, f) })
}

func (e *outageEngine) record(ctx context.Context, n *entry) error {
	return e.try(ctx, func() error { return e.engine.record(ctx, n) })
}

func (e *outageEngine) try(ctx context.Context, do func() error) error {
	if err := e.enter(ctx.Value(patientKey{}) != nil); err != nil {
		return err
	}
	err := named(do())
	e.observe(err)
	return err
}

// enter counts a call that can try the database; otherwise it returns why the database is down.
func (e *outageEngine) enter(patient bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if e.cause == nil && e.waiting >= lateInOutage && now.Sub(e.ended) >= silence { // such as a frozen server
		e.cause, e.since = errSilent, now
	}
	if e.cause == nil || now.Sub(e.tried) >= trialAfter {
		e.tried = now
	} else if !patient {
		return fmt.Errorf("%w; PostgreSQL is down since %s", e.cause, e.since.UTC().Format(time.RFC3339))
	}
	if e.waiting == 0 {
		e.ended = now
	}
	e.waiting++
	return nil
}

// observe learns from the result of a call. An error of a statement that the server has answered shows that it is up.
func (e *outageEngine) observe(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting--
	if errors.Is(err, context.Canceled) { // the caller has ended it, not the database
		return
	}
	e.ended = time.Now()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		if e.late++; e.late < lateInOutage && e.cause == nil {
			return
		}
	case !unreachableServer(err):
		e.cause, e.late = nil, 0
		return
	}
	if e.cause == nil {
		e.since = time.Now()
	}
	e.cause = err
}

// unreachableServer reports whether an error says that no server takes writes now. That a server has no free connection does not: those of the
// pool may work.
func unreachableServer(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return strings.HasPrefix(refused.Code, "57P") || refused.Code == readOnlyServer
	}
	var unconnected *pgconn.ConnectError
	return errors.As(err, &unconnected)
}
