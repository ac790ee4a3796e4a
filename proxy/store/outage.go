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

// While PostgreSQL is known to be down, one call a second tries it, and all others fail at once: a call that waited
// for its deadline would use up a place of its partner, and reads that need no store would be refused.
const (
	trialAfter   = time.Second
	lateInOutage = 3 // statements in a row that did not end in time, or that wait while none has ended for silence
	silence      = time.Second
)

var errSilent = errors.New("PostgreSQL has not answered for a second")

// An outage makes calls fail at once while the database is known to be down.
type outage struct {
	mu    sync.Mutex
	cause error     // nil while the database is up
	since time.Time // when it was found to be down
	tried time.Time
	late  int // statements in a row that did not end in time

	waiting int       // calls under way
	ended   time.Time // when the last one ended, or the first of those under way began
}

type patientKey struct{}

// patient returns a context whose calls wait although the database is known to be down: for the result of what has
// already happened. If it is not stored, a callback is delivered again, or a bill counts as possibly created.
func patient(ctx context.Context) context.Context { return context.WithValue(ctx, patientKey{}, true) }

func (o *outage) try(ctx context.Context, do func() error) error {
	if err := o.enter(ctx.Value(patientKey{}) != nil); err != nil {
		return err
	}
	err := context.Canceled // if do panics
	defer func() { o.observe(err) }()
	err = named(do())
	return err
}

// enter counts a call that can try the database; otherwise it returns why the database is down.
func (o *outage) enter(patient bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if o.cause == nil && o.waiting >= lateInOutage && now.Sub(o.ended) >= silence { // such as a frozen server
		o.cause, o.since = errSilent, now
	}
	if o.cause == nil || now.Sub(o.tried) >= trialAfter {
		o.tried = now
	} else if !patient {
		return fmt.Errorf("%w; PostgreSQL is down since %s", o.cause, o.since.UTC().Format(time.RFC3339))
	}
	if o.waiting == 0 {
		o.ended = now
	}
	o.waiting++
	return nil
}

// observe learns from the result of a call. An error of a statement that the server has answered shows that it is up.
func (o *outage) observe(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting--
	if errors.Is(err, context.Canceled) { // the caller has ended it, not the database
		return
	}
	o.ended = time.Now()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		if o.late++; o.late < lateInOutage && o.cause == nil {
			return
		}
	case !unreachableServer(err):
		o.cause, o.late = nil, 0
		return
	}
	if o.cause == nil {
		o.since = time.Now()
	}
	o.cause = err
}

// unreachableServer reports whether an error says that no server takes writes now. That a server has no free
// connection does not: those of the pool may work.
func unreachableServer(err error) bool {
	code := pgError(err).Code
	return strings.HasPrefix(code, "57P") || code == readOnlyServer || code == "" && errors.As(err,
		new(*pgconn.ConnectError))
}

// pgError returns what PostgreSQL refused a statement with; it is empty if PostgreSQL did not.
func pgError(err error) pgconn.PgError {
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) {
		return *refused
	}
	return pgconn.PgError{}
}
