package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

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
