package upstream

import (
	"time"
)

// A Kind is why a call has no answer.
type Kind string

// The kinds are labels of billbridge_upstream_errors_total, but GivenUp: such a call is not counted.
const (
	Refused   Kind = "refused"   // no connection
	Timeout   Kind = "timeout"   // no whole reply in time
	Reset     Kind = "reset"     // the connection broke off
	Closed    Kind = "closed"    // it was closed without a reply
	Truncated Kind = "truncated" // it was closed within the reply
	Framing   Kind = "framing"   // nobody can say for certain where the reply ends
	TLS       Kind = "tls"       // an alert of the upstream, or an error of ours, behind the handshake
	BadStatus Kind = "status"    // a status that is not passed on, or that of a reply without a code
	NotJSON   Kind = "not_json"  // no code can be read
	TooLarge  Kind = "too_large" // the reply is longer than the limit
	Busy      Kind = "busy"      // no connection was free in time
	Open      Kind = "open"      // the breaker is open
	GivenUp   Kind = "given up"  // before it was sent
)

var kinds = []Kind{Refused, Timeout, Reset, Closed, Truncated, Framing, TLS, BadStatus, NotJSON, TooLarge, Busy, Open}

// A Failure is a call without an answer.
type Failure struct {
	Kind   Kind
	Detail string // for the log; it has no host, address or value
	Sent   bool   // whether a byte of the call may have left
	Gone   bool   // the caller of a read has disconnected
	Early  bool   // the call ended before the upstream's timeout
	stale  bool   // the server had closed the idle connection, and nothing was sent

	Another bool          // the reply belongs to another call
	After   time.Duration // when the upstream may be called again; 0 if not known
}

func (e *Failure) Error() string { return string(e.Kind) + ": " + e.Detail }

// Unusable counts a reply that arrived whole and has no code that can be read, or that belongs to another call.
func (u *Upstream) Unusable(status int, detail string, another bool) *Failure {
	failure := &Failure{Kind: NotJSON, Sent: true, Detail: detail, Another: another}
	if status >= 300 {
		failure.Kind = BadStatus
	}
	if another {
		u.pool.Extra()
	}
	return u.count(failure)
}
