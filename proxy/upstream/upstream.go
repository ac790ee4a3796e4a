// Package upstream makes calls to a billing backend: it limits them, stops them while the backend is broken, and reads
// the replies. Its metrics are per upstream; those by operation are in metrics.go of package proxy.
package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"billbridge/config"
	"billbridge/proxy/accesslog"
	"billbridge/proxy/admission"
	"billbridge/proxy/httpconn"

	"github.com/prometheus/client_golang/prometheus"
)

// An Upstream is a billing backend and the connections to it. It is safe for concurrent use.
type Upstream struct {
	Config   *config.Upstream // must not be modified
	pool     *httpconn.Pool
	fixed    []byte // the header fields that all calls have in common
	inFlight prometheus.Gauge
	extra    prometheus.Counter
	codings  prometheus.Counter // replies with a coding that nobody knows
	metrics  *Metrics
	log      *slog.Logger

	connections *connections
	breaker     *breaker
	oneCallEach atomic.Int64 // until this time, in Unix nanoseconds, no connection is used twice

	handshakes     handshakes
	certificateEnd atomic.Int64 // of the last one that was accepted, as Unix time; 0 before
}

// New returns an upstream without connections. They are opened with dial, or if it is nil with a [net.Dialer].
func New(c *config.Upstream, userAgent string, m *Metrics, log *slog.Logger, dial httpconn.Dial) *Upstream {
	name := httpconn.ASCIIHost(c.Address.Hostname())
	host, port := name, c.Address.Port()
	if strings.Contains(host, ":") { // IPv6: a zone is of this machine alone
		host, _, _ = strings.Cut(host, "%")
		host = "[" + host + "]"
	}
	if port != "" {
		host += ":" + port
	}
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	pool := &httpconn.Pool{Dial: dial}
	secure := c.Address.Scheme == "https"
	if secure {
		port = cmp.Or(port, "443")
	}
	pool.Address = net.JoinHostPort(name, cmp.Or(port, "80"))
	u := &Upstream{
		Config: c, pool: pool, inFlight: m.inFlight.WithLabelValues(c.Name), metrics: m, log: log,
		extra: m.extra.WithLabelValues(c.Name), codings: m.unknownCodings.WithLabelValues(c.Name),
		connections: newConnections(c, m), breaker: newBreaker(c.Name, m, log),
		// The headers are an allow-list: of the caller's headers only valid X-Request-Id, traceparent and tracestate
		// reach the upstream. So the hop-by-hop headers of RFC 9110 7.6.1 need no removal. The pool does not
		// decompress: readReply does, and applies the limit to the decompressed bytes.
		fixed: []byte(" HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: " + userAgent +
			"\r\nContent-Type: application/json\r\nAccept: application/json" +
			"\r\nAccept-Encoding: identity\r\nX-Request-Id: "),
	}
	if secure {
		u.handshakes.config = u.tlsConfig(name)
		pool.TLS = u.handshakes.next
	}
	for _, kind := range kinds { // with the value 0: increase() would miss the first event of a later series
		m.errors.WithLabelValues(c.Name, string(kind))
	}
	pool.Extra = u.extraReply
	return u
}

// extraReply counts something that an upstream has sent and that belongs to no call, or to another call than the one
// that got it. For a time no connection is used twice.
func (u *Upstream) extraReply() {
	u.extra.Inc()
	now := time.Now()
	if u.oneCallEach.Swap(now.Add(afterExtra).UnixNano()) <= now.UnixNano() {
		u.log.Warn("the upstream has sent something that belongs to no call: each call gets a new connection",
			"upstream", u.Config.Name, "for", config.Duration(afterExtra).String())
	}
}

// afterExtra is how long no connection is used twice after an upstream has sent something that belongs to no call.
const afterExtra = 5 * time.Minute

// Head returns the beginning of a request to a path, up to the value of X-Request-Id. A path prefix comes
// from the config.
func (u *Upstream) Head(path string) []byte {
	target := *u.Config.Address.URL
	target.Path, target.RawPath = target.Path+path, ""
	return append([]byte("POST "+target.RequestURI()), u.fixed...)
}

// A Request is one call to an upstream.
type Request struct {
	Head           []byte // see [Upstream.Head]
	ID             string // for X-Request-Id
	Trace          Trace  // empty for the gateway's own calls
	Body           []byte
	Reply          *bytes.Buffer   // gets the body of the reply
	Limit          int64           // of the reply, in bytes
	Memory         *admission.Held // of the reply; nil if it is not counted
	Key            admission.Proof // of the caller
	NoPartnerLimit bool            // the call is the gateway's own, or names no partner
	Write          bool            // the call is a write
	Fresh          bool            // on a connection that has carried no other call
	SendCtx        context.Context // of a write: it is not sent after its end; else nil

	Attempt // is set by Do
}

// An Attempt is what became of a request on its way.
type Attempt struct {
	Connected time.Time // when the call got its connection, or began if it had none
	Reused    bool      // the connection has carried another call
	wait      wait      // for a connection
	until     time.Time // when the call must end, also if it is sent again; zero before it has a connection
}

// Do sends one call and reads the whole reply. It returns the status and header of the reply, or why there is none. A
// call is never sent again once one of its bytes may have left.
//
// The call waits up to Wait for a connection. Its timeout starts when it has the connection, so that
// a wait does not shorten the time for the answer.
//
// While the breaker is open, nothing is sent.
func (u *Upstream) Do(ctx context.Context, r *Request) (httpconn.Reply, *Failure) {
	permit, ok := u.breaker.enter(r.Key, r.Write)
	if r.Connected = permit.began; !ok {
		return httpconn.Reply{}, u.count(&Failure{Kind: Open, After: u.breaker.pause()})
	}
	failure := panicked
	defer func() { permit.end(failure) }()
	ctx, cancel := permit.context(ctx)
	defer cancel()
	var reply httpconn.Reply
	if reply, failure = u.send(ctx, r); failure != nil {
		return httpconn.Reply{}, u.count(failure)
	}
	return reply, nil
}

// panicked is the failure of a call that a panic has ended.
var panicked = &Failure{Kind: Reset, Sent: true}

// count counts a call without an answer, unless its caller has disconnected or it was given up before it was sent.
func (u *Upstream) count(err *Failure) *Failure {
	if !err.Gone && err.Kind != GivenUp {
		u.metrics.errors.WithLabelValues(u.Config.Name, string(err.Kind)).Inc()
	}
	return err
}

// send makes the call. The breaker has let it through.
func (u *Upstream) send(ctx context.Context, r *Request) (httpconn.Reply, *Failure) {
	u.connections.startWait(&r.wait)
	defer r.wait.end()
	slot := slot{r.Key, r.NoPartnerLimit}
	if !u.connections.take(slot) {
		wait, cancel := r.waitUntil(ctx, r.wait.began.Add(u.Config.Wait))
		defer cancel()
		if err := u.connections.acquire(wait, slot); err != nil {
			return httpconn.Reply{}, notConnected(wait, Failure{Kind: Busy}, "")
		}
	}
	defer u.connections.release(slot)
	u.inFlight.Inc()
	defer u.inFlight.Dec()
	return u.try(ctx, r)
}

// The causes with which the wait for a connection ends.
var (
	errGivenUp      = errors.New("the call was given up before it was sent")
	errNoConnection = errors.New("no connection was available in time")
)

// waitUntil returns a context for the wait for a connection. It ends with ctx, with sendCtx, and at a time.
func (r *Request) waitUntil(ctx context.Context, until time.Time) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithDeadlineCause(ctx, until, errNoConnection)
	if r.SendCtx == nil {
		return ctx, cancel
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.SendCtx, func() { giveUp(errGivenUp) })
	return ctx, func() { stop(); cancel() }
}

// notConnected returns the failure of a call that got no connection: err, unless the wait for it has ended. late is
// the detail of a wait that took too long.
func notConnected(wait context.Context, err Failure, late string) *Failure {
	if end, ok := wait.Deadline(); ok && !time.Now().Before(end) {
		<-wait.Done() // the dial can notice the deadline before the context does
	}
	switch cause := context.Cause(wait); {
	case cause == errGivenUp:
		return &Failure{Kind: GivenUp}
	case cause == errNoConnection:
		err.Detail = late
	case errors.Is(cause, context.DeadlineExceeded): // a call that the gateway makes for itself
		return &Failure{Kind: Timeout, Early: true}
	case cause != nil:
		err.Gone = true
	}
	return &err
}

// try makes the call. If the server closed an idle connection before a byte of the call was written, or of the reply to
// a read, it takes another connection.
func (u *Upstream) try(ctx context.Context, r *Request) (httpconn.Reply, *Failure) {
	until := r.wait.began.Add(u.Config.Wait)
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
		until = time.Now().Add(u.Config.Wait)
	}
}

// connect returns an idle connection or opens one. It fails if the call must not be sent any more: to open a
// connection takes time.
func (u *Upstream) connect(ctx context.Context, r *Request, until time.Time) (*httpconn.Conn, *Failure) {
	take, fresh := u.pool.Idle, r.Fresh || r.wait.began.UnixNano() < u.oneCallEach.Load()
	if fresh {
		take = u.pool.Fresh
	}
	conn := take()
	if conn == nil {
		wait, cancel := r.waitUntil(ctx, until)
		defer cancel()
		var err error
		if conn, err = u.pool.Open(wait); err != nil {
			failure := Failure{Kind: Refused, Detail: httpconn.ReasonOfTLS(err)}
			return nil, notConnected(wait, failure, "no connection within "+u.Config.Wait.String())
		}
	}
	if fresh {
		conn.Last()
	}
	switch {
	case r.SendCtx != nil && (r.SendCtx.Err() != nil || accesslog.Unread(u.log)):
		conn.Close()
		return nil, &Failure{Kind: GivenUp}
	case ctx.Err() != nil:
		conn.Close()
		return nil, notConnected(ctx, Failure{Kind: Refused}, "")
	}
	return conn, nil
}

// call makes the call on a connection, which must not be used after it.
func (u *Upstream) call(ctx context.Context, conn *httpconn.Conn, r *Request) (httpconn.Reply, *Failure) {
	r.Connected, r.Reused = time.Now(), conn.Reused()
	if r.until.IsZero() {
		r.until = r.Connected.Add(time.Duration(u.Config.Timeout))
	}
	until := r.until
	deadline, early := ctx.Deadline()
	if early = early && deadline.Before(until); early {
		until = deadline
	}
	conn.Begin(ctx, r.Connected, until)
	reply, err := u.roundTrip(conn, r)
	if err == nil {
		return reply, nil
	}
	failure := &Failure{Kind: Reset, Sent: conn.Sent(), Gone: errors.Is(ctx.Err(), context.Canceled)}
	known, _ := errors.AsType[*Failure](err)
	switch {
	case !conn.Answered() && httpconn.RefusedCertificate(err):
		failure.Kind, failure.Detail, failure.Sent = Refused, httpconn.ReasonOfTLS(err), false
	case errors.Is(err, httpconn.ErrTimeout) && !failure.Gone: // ETIMEDOUT, a lost connection, is none
		failure.Kind, failure.Early = Timeout, early
	case known != nil:
		failure.Kind, failure.Detail = known.Kind, known.Detail
	case !failure.Sent:
		failure.Kind, failure.stale = Refused, (r.Reused || conn.Waited()) && !failure.Gone
	case r.Reused && !r.Write && !conn.Answered() && !failure.Gone:
		failure.stale, r.Fresh = true, true // only a used connection can be closed so: the repetition is the only one
	default:
		failure.Kind, failure.Detail = broken(err, conn.Answered())
	}
	return httpconn.Reply{}, failure
}

// broken is how a connection broke off before the end of the reply.
func broken(err error, answered bool) (_ Kind, detail string) {
	framing, isFraming := errors.AsType[*httpconn.FramingError](err)
	step, _ := errors.AsType[*net.OpError](err)
	switch isEnd := err == io.EOF || err == io.ErrUnexpectedEOF; {
	case isFraming:
		return Framing, framing.Where
	case isEnd && answered:
		return Truncated, ""
	case isEnd:
		return Closed, ""
	case step != nil && step.Op == "remote error", strings.HasPrefix(err.Error(), "tls: "):
		return TLS, strings.TrimPrefix(err.Error(), "remote error: ")
	}
	return Reset, ""
}

// roundTrip sends the request and reads the reply. It ends the use of the connection.
func (u *Upstream) roundTrip(conn *httpconn.Conn, r *Request) (reply httpconn.Reply, err error) {
	read := false
	defer func() {
		if read {
			conn.Release()
			return
		}
		conn.Close() // after an error or a panic
	}()
	head := r.Trace.append(append(append(conn.Buffer(), r.Head...), r.ID...))
	head = strconv.AppendInt(append(head, "\r\nContent-Length: "...), int64(len(r.Body)), 10)
	if conn.Final() {
		head = append(head, "\r\nConnection: close"...)
	}
	if reply, err = conn.RoundTrip(append(head, "\r\n\r\n"...), r.Body); err != nil {
		return httpconn.Reply{}, err
	}
	// 3xx is never followed. The answer to a 205 has no body, and a status from 600 has no meaning to callers and to
	// other proxies.
	if s := reply.Status; s < 200 || s >= 300 && s < 400 || s == http.StatusResetContent || s > 599 {
		return httpconn.Reply{}, &Failure{
			Kind: BadStatus, Detail: fmt.Sprintf("HTTP %d is not passed on", s),
		}
	}
	err = u.readReply(&reply, r)
	read = err == nil
	return reply, err
}

// CertificateEnd returns when the last certificate that was accepted ends; zero before.
func (u *Upstream) CertificateEnd() (end time.Time) {
	if unix := u.certificateEnd.Load(); unix != 0 {
		end = time.Unix(unix, 0)
	}
	return end
}

// Health returns what the calls say about the upstream.
func (u *Upstream) Health() Health { return u.breaker.health() }

// Spares returns how many connections wait for their first call.
func (u *Upstream) Spares() int { return u.pool.Spares() }

// CloseIdle closes the idle connections.
func (u *Upstream) CloseIdle() { u.pool.CloseIdle() }

// Retire ends the reports of an upstream that a reload has removed or replaced: its series may be those of another one.
func (u *Upstream) Retire() { u.breaker.retire() }
