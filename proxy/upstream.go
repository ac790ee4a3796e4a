package proxy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"billbridge/config"
	"billbridge/proxy/accesslog"
	"billbridge/proxy/httpconn"
	"billbridge/proxy/partner"
	"billbridge/proxy/relay"
	"billbridge/translate"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
)

// An upstream is a billing backend and the connections to it. It is safe for concurrent use.
type upstream struct {
	config   *config.Upstream
	pool     *httpconn.Pool
	fixed    []byte // the header fields that all calls have in common
	inFlight prometheus.Gauge
	extra    prometheus.Counter
	metrics  *metrics
	log      *slog.Logger

	connections *connections
	breaker     *breaker
	oneCallEach atomic.Int64 // until this time, in Unix nanoseconds, no connection is used twice

	certificateEnd atomic.Int64 // of the last one that was accepted, as Unix time; 0 before

	// attempt is try, unless a test replaces it.
	attempt func(context.Context, *upstreamRequest) (httpconn.Reply, *callError)
}

func newUpstream(
	c *config.Upstream, userAgent string, proved *provedKeys, m *metrics, log *slog.Logger,
) *upstream {
	name := relay.ASCIIHost(c.Address.Hostname())
	host, port := name, c.Address.Port()
	if strings.Contains(host, ":") { // IPv6: a zone is of this machine alone
		host, _, _ = strings.Cut(host, "%")
		host = "[" + host + "]"
	}
	if port != "" {
		host += ":" + port
	}
	dialer := &net.Dialer{KeepAlive: 30 * time.Second}
	pool := &httpconn.Pool{Dial: dialer.DialContext}
	if c.Address.Scheme == "https" {
		pool.TLS = &tls.Config{ServerName: name, DynamicRecordSizingDisabled: true} // a request is one record
		port = cmp.Or(port, "443")
	}
	pool.Address = net.JoinHostPort(name, cmp.Or(port, "80"))
	if c.TLS != nil {
		pool.TLS.RootCAs = c.TLS.Roots
		if pair := c.TLS.Client; pair != nil {
			pool.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return pair.Certificate()
			}
		}
	}
	u := &upstream{
		config: c, pool: pool, inFlight: m.inFlight.WithLabelValues(c.Name), metrics: m, log: log,
		extra:       m.extraReplies.WithLabelValues(c.Name),
		connections: newConnections(c, m), breaker: newBreaker(c.Name, proved, m, log),
		// The headers are an allow-list: of the caller's headers only valid X-Request-Id, traceparent and tracestate
		// reach the upstream. So the hop-by-hop headers of RFC 9110 7.6.1 need no removal. The pool does not
		// decompress: readReply does, and applies the limit to the decompressed bytes.
		fixed: []byte(" HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: " + userAgent +
			"\r\nContent-Type: application/json\r\nAccept: application/json" +
			"\r\nAccept-Encoding: identity\r\nX-Request-Id: "),
	}
	if pool.TLS != nil {
		u.watchCertificate(pool.TLS)
	}
	u.attempt = u.try
	pool.Extra = u.extraReply
	return u
}

// extraReply counts something that an upstream has sent and that belongs to no call, or to another call than the one
// that got it. For a time no connection is used twice.
func (u *upstream) extraReply() {
	u.extra.Inc()
	now := time.Now()
	if u.oneCallEach.Swap(now.Add(afterExtra).UnixNano()) <= now.UnixNano() {
		u.log.Warn("the upstream has sent something that belongs to no call: each call gets a new connection",
			"upstream", u.config.Name, "for", config.Duration(afterExtra).String())
	}
}

// afterExtra is how long no connection is used twice after an upstream has sent something that belongs to no call.
const afterExtra = 5 * time.Minute

// requestHead returns the beginning of a request to a path, up to the value of X-Request-Id. A path prefix comes
// from the config.
func (u *upstream) requestHead(path string) []byte {
	target := *u.config.Address.URL
	target.Path, target.RawPath = target.Path+path, ""
	return append([]byte("POST "+target.RequestURI()), u.fixed...)
}

// An upstreamRequest is one call to an upstream.
type upstreamRequest struct {
	head           []byte       // see requestHead
	id             string       // for X-Request-Id
	trace          traceContext // empty for the gateway's own calls
	body           []byte
	reply          *bytes.Buffer   // gets the body of the reply
	limit          int64           // of the reply, in bytes
	held           *held           // the memory of the reply; nil if it is not counted
	partner        partner.ID      // for the connection limit of the partner
	noPartnerLimit bool            // the call is the gateway's own, or names no partner
	write          bool            // the call is a write
	fresh          bool            // the connection must have carried no other call, whose reply could be taken for this one's
	sendCtx        context.Context // of a write, which is not sent if this ends before it has a connection; else nil

	wait      wait      // for a connection
	connected time.Time // when the call got its connection; zero if it had none
	until     time.Time // when the call must end, also if it is sent again; zero before it has a connection
	reused    bool      // the connection has carried another call
}

// post sends one call and reads the whole reply. It returns the status and header of the reply. If there is
// no answer, the error is a *callError. A call is never sent again once one of its bytes may have left.
//
// The call waits up to Wait for a connection. Its timeout starts when it has the connection, so that
// a wait does not shorten the time for the answer.
//
// While the breaker is open, nothing is sent.
func (u *upstream) post(ctx context.Context, r *upstreamRequest) (httpconn.Reply, error) {
	partner := maphash.String(seed, string(r.partner))
	permit, ok := u.breaker.enter(partner, r.write)
	if !ok {
		return httpconn.Reply{}, u.count(&callError{reason: "open", after: u.breaker.pause()})
	}
	failure := &callError{reason: "reset", sent: true} // if send panics
	defer func() { permit.end(failure) }()
	ctx, cancel := permit.context(ctx)
	defer cancel()
	var reply httpconn.Reply
	if reply, failure = u.send(ctx, r, partner, permit.invented); failure != nil {
		return httpconn.Reply{}, u.count(failure)
	}
	return reply, nil
}

// count counts a call without an answer, unless its caller has disconnected or it was given up before it was sent.
func (u *upstream) count(err *callError) *callError {
	if !err.gone && err.reason != givenUp {
		u.metrics.upstreamErrors.WithLabelValues(u.config.Name, err.reason).Inc()
	}
	return err
}

// send makes the call. The breaker has let it through.
func (u *upstream) send(
	ctx context.Context, r *upstreamRequest, partner uint64, invented bool,
) (httpconn.Reply, *callError) {
	u.connections.startWait(&r.wait)
	defer r.wait.end()
	slot, err := u.connections.acquire(partner, invented, r.noPartnerLimit, ifFree)
	if err != nil {
		wait, cancel := r.waitUntil(ctx, r.wait.began.Add(u.config.Wait))
		defer cancel()
		inTurn := func(s *semaphore.Weighted) error { return s.Acquire(wait, 1) }
		if slot, err = u.connections.acquire(partner, invented, r.noPartnerLimit, inTurn); err != nil {
			return httpconn.Reply{}, notConnected(wait, callError{reason: "busy"}, "")
		}
	}
	defer u.connections.release(slot)
	u.inFlight.Inc()
	defer u.inFlight.Dec()
	return u.attempt(ctx, r)
}

// The causes with which the wait for a connection ends.
var (
	errGivenUp      = errors.New("the call was given up before it was sent")
	errNoConnection = errors.New("no connection was available in time")
)

// waitUntil returns a context for the wait for a connection. It ends with ctx, with sendCtx, and at a time.
func (r *upstreamRequest) waitUntil(ctx context.Context, until time.Time) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithDeadlineCause(ctx, until, errNoConnection)
	if r.sendCtx == nil {
		return ctx, cancel
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.sendCtx, func() { giveUp(errGivenUp) })
	return ctx, func() { stop(); cancel() }
}

// notConnected returns the failure of a call that got no connection: err, unless the wait for it has ended. late is
// the detail of a wait that took too long.
func notConnected(wait context.Context, err callError, late string) *callError {
	if end, ok := wait.Deadline(); ok && !time.Now().Before(end) {
		<-wait.Done() // the dial can notice the deadline before the context does
	}
	switch cause := context.Cause(wait); {
	case cause == errGivenUp:
		return &callError{reason: givenUp}
	case cause == errNoConnection:
		err.detail = late
	case errors.Is(cause, context.DeadlineExceeded): // a call that the gateway makes for itself
		return &callError{reason: "timeout", early: true}
	case cause != nil:
		err.gone = true
	}
	return &err
}

// try makes the call. If the server closed an idle connection before a byte of the call was written, or of the reply to
// a read, it takes another connection.
func (u *upstream) try(ctx context.Context, r *upstreamRequest) (httpconn.Reply, *callError) {
	until := r.wait.began.Add(u.config.Wait)
	for {
		conn, failure := u.connect(ctx, r, until)
		if failure != nil {
			return httpconn.Reply{}, failure
		}
		r.wait.end()
		reply, failure := u.call(ctx, conn, r)
		if failure == nil || !failure.stale {
			return reply, failure
		}
		until = time.Now().Add(u.config.Wait)
	}
}

// connect returns an idle connection or opens one. It fails if the call must not be sent any more: to open a
// connection takes time.
func (u *upstream) connect(ctx context.Context, r *upstreamRequest, until time.Time) (*httpconn.Conn, *callError) {
	var conn *httpconn.Conn
	if r.fresh || r.wait.began.UnixNano() < u.oneCallEach.Load() {
		u.pool.Retire()
	} else {
		conn = u.pool.Idle()
	}
	if conn == nil {
		wait, cancel := r.waitUntil(ctx, until)
		defer cancel()
		var err error
		if conn, err = u.pool.Open(wait); err != nil {
			failure := callError{reason: "refused", detail: relay.ReasonOfTLS(err)}
			return nil, notConnected(wait, failure, "no connection within "+u.config.Wait.String())
		}
	}
	switch {
	case r.sendCtx != nil && (r.sendCtx.Err() != nil || accesslog.Unread(u.log)):
		conn.Close()
		return nil, &callError{reason: givenUp}
	case ctx.Err() != nil:
		conn.Close()
		return nil, notConnected(ctx, callError{reason: "refused"}, "")
	}
	return conn, nil
}

// call makes the call on a connection, which must not be used after it.
func (u *upstream) call(ctx context.Context, conn *httpconn.Conn, r *upstreamRequest) (httpconn.Reply, *callError) {
	r.connected, r.reused = time.Now(), conn.Reused()
	if r.until.IsZero() {
		r.until = r.connected.Add(time.Duration(u.config.Timeout))
	}
	until := r.until
	deadline, early := ctx.Deadline()
	if early = early && deadline.Before(until); early {
		until = deadline
	}
	conn.Begin(ctx, r.connected, until)
	reply, err := roundTrip(conn, r)
	if err == nil {
		return reply, nil
	}
	failure := &callError{reason: "reset"}
	gone := errors.Is(ctx.Err(), context.Canceled)
	sent := conn.Sent()
	switch known := (*callError)(nil); {
	case !conn.Answered() && RefusedCertificate(err):
		failure, sent = &callError{reason: "refused", detail: relay.ReasonOfTLS(err)}, false
	case isTimeout(err) && early && !gone:
		failure = &callError{reason: "timeout", early: true}
	case isTimeout(err) && !gone:
		failure = &callError{reason: "timeout"}
	case errors.As(err, &known):
		failure = known
	case !sent:
		failure = &callError{reason: "refused", stale: r.reused && !gone}
	case r.reused && !r.write && !conn.Answered() && !gone:
		failure.stale, r.fresh = true, true // only a used connection can be closed so: the repetition is the only one
	}
	failure.sent, failure.gone = sent, gone
	return httpconn.Reply{}, failure
}

// roundTrip sends the request and reads the reply. It ends the use of the connection.
func roundTrip(conn *httpconn.Conn, r *upstreamRequest) (reply httpconn.Reply, err error) {
	read := false
	defer func() {
		if read {
			conn.Release()
			return
		}
		conn.Close() // after an error or a panic
	}()
	head := r.trace.append(append(append(conn.Buffer(), r.head...), r.id...))
	head = strconv.AppendInt(append(head, "\r\nContent-Length: "...), int64(len(r.body)), 10)
	if reply, err = conn.RoundTrip(append(head, "\r\n\r\n"...), r.body); err != nil {
		return httpconn.Reply{}, err
	}
	// 3xx is never followed. The answer to a 205 has no body, and a status from 600 has no meaning to callers and to
	// other proxies.
	if s := reply.Status; s < 200 || s >= 300 && s < 400 || s == http.StatusResetContent || s > 599 {
		return httpconn.Reply{}, &callError{
			reason: "status", detail: fmt.Sprintf("HTTP %d is not passed on", s),
		}
	}
	err = readReply(&reply, r)
	read = err == nil
	return reply, err
}

// RefusedCertificate reports whether the error is an alert by which a peer ends the handshake because of our
// certificate. In TLS 1.3 that of a server arrives after the handshake, when a request may have left. The server has
// read none of it.
func RefusedCertificate(err error) bool {
	step, ok := errors.AsType[*net.OpError](err)
	return ok && step.Op == "remote error" && slices.ContainsFunc(certificateAlerts, func(a tls.AlertError) bool {
		return a.Error() == step.Err.Error() // the type of the alert is not exported
	})
}

// certificateAlerts are bad_certificate to certificate_unknown, unknown_ca, access_denied and certificate_required.
var certificateAlerts = []tls.AlertError{42, 43, 44, 45, 46, 48, 49, 116}

// isTimeout reports whether a read or write of a connection has reached its deadline. ETIMEDOUT, a lost connection,
// is none.
func isTimeout(err error) bool { return errors.Is(err, httpconn.ErrTimeout) }

// errorReasons are the values of the label reason of billbridge_upstream_errors_total.
var errorReasons = []string{"refused", "timeout", "reset", "status", "not_json", "too_large", "busy", "open"}

// givenUp is the reason of a call that was given up before it was sent. It is not counted.
const givenUp = "given up"

// A callError is a call without an answer. reason is a label of billbridge_upstream_errors_total, or givenUp.
type callError struct {
	reason string
	detail string // for the log; it has no host, address or value
	sent   bool   // whether a byte of the call may have left
	gone   bool   // the caller of a read has disconnected
	stale  bool   // the server had closed the idle connection, and nothing was sent
	early  bool   // the call ended before the upstream's timeout

	another bool          // the reply belongs to another call
	after   time.Duration // when the upstream may be called again; 0 if not known
}

func (e *callError) Error() string { return e.reason + ": " + e.detail }

// noAnswer counts a reply that arrived whole and has no code that can be read.
func (u *upstream) noAnswer(status int, err error) *callError {
	failure := &callError{reason: "not_json", sent: true}
	if status >= 300 {
		failure.reason = "status"
	}
	var cause *translate.UnusableReply
	if errors.As(err, &cause) {
		if failure.detail, failure.another = cause.Reason, cause.Field != ""; failure.another {
			u.pool.Extra()
		}
	}
	u.metrics.upstreamErrors.WithLabelValues(u.config.Name, failure.reason).Inc()
	return failure
}
