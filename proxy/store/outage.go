package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
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

// recentWrites counts what became of the writes of the last seconds. A disk can be full for most writes, and still
// have room for that of Ping. The zero value is ready to use.
type recentWrites struct {
	mu      sync.Mutex
	seconds [recentSeconds]struct {
		at         int64
		ok, failed int
	}
	last error // of the last write that failed
}

// The store counts as failed if of at least fewWrites in recentSeconds more have failed than succeeded.
const (
	recentSeconds = 5
	fewWrites     = 3
)

// observe counts a write. One that its caller gave up, or that the database refused because of its content, does not
// show a failure.
func (r *recentWrites) observe(err error) {
	code := pgError(err).Code
	switch {
	case errors.Is(err, context.Canceled):
		return
	case isSentinel(err), strings.HasPrefix(code, "22"), strings.HasPrefix(code, "23"), strings.HasPrefix(code, "40"):
		err = nil
	}
	now := time.Now().Unix()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.seconds[now%recentSeconds]
	if s.at != now {
		s.at, s.ok, s.failed = now, 0, 0
	}
	if err == nil {
		s.ok++
	} else {
		s.failed++
		r.last = err
	}
}

// problem returns the last error if most of the recent writes failed, else nil.
func (r *recentWrites) problem() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ok, failed := 0, 0
	for _, s := range r.seconds {
		if time.Now().Unix()-s.at < recentSeconds {
			ok, failed = ok+s.ok, failed+s.failed
		}
	}
	if failed >= fewWrites && failed > ok {
		return r.last
	}
	return nil
}

// A serverError is an error of a server that takes no writes now. Its text is one line, which begins with the server.
type serverError struct {
	text string
	err  error
}

func (e *serverError) Error() string { return e.text }

func (e *serverError) Unwrap() error { return e.err }

const readOnly = "is read-only: a standby, or configured so"

// atServer is the OnPgError of connections: it notes the server in an error that is named, and ends a connection that
// is of no use.
func atServer(c *pgconn.PgConn, refused *pgconn.PgError) bool {
	if unreachableServer(refused) {
		refused.Where = c.Conn().RemoteAddr().String()
	}
	return refused.SeverityUnlocalized != "FATAL" && refused.Code != readOnlyServer
}

// named returns the error of a server that cannot be used as a serverError, and any other as it is.
func named(err error) error {
	var unconnected *pgconn.ConnectError
	refused := pgError(err)
	switch {
	case errors.As(err, &unconnected):
		var hosts []string
		for line := range strings.SplitSeq(unconnected.Unwrap().Error(), "\n") {
			hosts = append(hosts, hostFirst(line))
		}
		return &serverError{strings.Join(slices.Compact(hosts), "; "), err}
	case refused.Code == readOnlyServer:
		return &serverError{refused.Where + " " + readOnly, err}
	case unreachableServer(err):
		return &serverError{refused.Where + ": " + refused.Message, err}
	case errors.Is(err, context.DeadlineExceeded):
		return &serverError{"PostgreSQL did not answer in time", err}
	}
	return err
}

// about says what an error is about: after the server, which comes first, or else before it.
func about(what string, err error) error {
	if at := (*serverError)(nil); errors.As(err, &at) {
		return fmt.Errorf("%w (%s)", err, what)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// perHost matches what pgx says of one host: its address, its name, and what it did.
var perHost = regexp.MustCompile(`^(\S+) \((\S+)\): [\w ]+: (.*)`)

func hostFirst(line string) string {
	m := perHost.FindStringSubmatch(line)
	if m == nil {
		return line
	}
	host, problem := m[1], ": "+m[3]
	if _, port, err := net.SplitHostPort(host); err == nil {
		host = net.JoinHostPort(m[2], port)
	}
	if m[3] == "read only connection" { // by target_session_attrs
		problem = " " + readOnly
	}
	return host + problem
}
