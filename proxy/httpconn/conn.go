package httpconn

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	// maxHead limits the head of a reply, with those of the interim replies (1xx) before it.
	maxHead = 64 << 10
	// maxInterim limits the number of interim replies.
	maxInterim = 5
	// oneWrite is the largest request that is written by the goroutine of the call. A larger one may not fit into the
	// buffer of the socket, and a server may answer before it has read it.
	oneWrite = 16 << 10
	// unwatched is how long a call waits before its context is watched. Most calls end sooner, and need not be
	// registered with it.
	unwatched = 50 * time.Millisecond
)

// ErrTimeout is the error of a call that has reached its deadline, or whose context has ended.
var ErrTimeout = os.ErrDeadlineExceeded

var errLargeHead = errors.New("the head of the reply is larger than maxHead")

// A Conn is a connection to a server. It belongs to one goroutine until Release.
type Conn struct {
	pool   *Pool
	socket *socket
	net    net.Conn // socket, or TLS above it
	reader *bufio.Reader
	out    []byte // the last request
	one    [1]byte

	reused    bool
	waited    bool      // it was opened before it was needed
	final     bool      // the server closes it after this call
	idleSince time.Time // or waiting since

	lastCall
}

// A lastCall is the last call on a connection.
type lastCall struct {
	ctx      context.Context // nil between calls
	until    time.Time
	deadline time.Time   // of the socket: until, or an earlier one at which ctx begins to be watched
	unwatch  func() bool // ends the watch of ctx; nil if it has not begun

	ended    bool       // the server sends no more
	headLeft int64      // how much of a head may still be read; unlimited in the body
	failed   error      // of a read in this call, other than io.EOF
	writing  chan error // gets the result of a large write; nil if there is none
	last     Reply      // the last usual one, for its values
	body     body
	keep     bool // nobody can disagree about where this reply ends, and the server keeps the connection open after it
}

func newConn(p *Pool, tcp net.Conn) *Conn {
	c := &Conn{pool: p, socket: newSocket(tcp)}
	c.socket.tls, c.socket.watch = p.TLS != nil, c.watch
	c.net = c.socket
	c.reader = bufio.NewReader((*headReader)(c))
	return c
}

// Reused reports whether the connection has already been used for a call.
func (c *Conn) Reused() bool { return c.reused }

// Waited reports whether the connection was opened before it was needed: the server may have closed it since.
func (c *Conn) Waited() bool { return c.waited }

// Last says that the next call is the last one on the connection. Its request must say so, too, so that the server
// closes the connection after its reply.
func (c *Conn) Last() { c.final = true }

// Final reports whether Last was called.
func (c *Conn) Final() bool { return c.final }

// Buffer returns an empty slice to which the head of the next request may be appended. It saves an allocation.
func (c *Conn) Buffer() []byte { return c.out[:0] }

var past = time.Unix(1, 0)

// Sent reports whether a byte of the last call may have left. While a large request is being written it is true.
func (c *Conn) Sent() bool { return c.writing != nil || c.socket.sent.Load() }

// Begin prepares the connection for a call that begins now and must end until a time, with the last byte of its reply.
// After that, and within 50 ms after the end of ctx, the call fails with [ErrTimeout].
func (c *Conn) Begin(ctx context.Context, now, until time.Time) {
	c.ctx, c.until, c.unwatch = ctx, until, nil
	if watched := now.Add(unwatched); watched.Before(until) {
		until = watched
	}
	// The deadline that an earlier call has set may hold for this one, too: then watch sets that of the call.
	if c.deadline.After(until) || c.deadline.Before(now.Add(unwatched/2)) {
		c.setDeadline(until)
	}
	c.socket.sent.Store(false)
	c.failed, c.ended, c.keep, c.body = nil, false, false, body{}
	c.headLeft = maxHead
}

// Answered reports whether a byte of the last call's reply has arrived.
func (c *Conn) Answered() bool { return c.headLeft != maxHead }

// watch begins to watch the context of the call. It returns false if the deadline was that of the call.
func (c *Conn) watch() bool {
	if c.ctx == nil || c.unwatch != nil {
		return false
	}
	c.setDeadline(c.until)
	c.unwatch = context.AfterFunc(c.ctx, c.abort)
	return true
}

func (c *Conn) setDeadline(at time.Time) {
	c.deadline = at
	_ = c.net.SetDeadline(at)
}

// abort makes the call fail at once with [ErrTimeout].
func (c *Conn) abort() { _ = c.net.SetDeadline(past) }

// RoundTrip sends a request and returns its reply, whose body must be read before Release. head is the request line and
// the header, with the length of body and the empty line. If head was appended to Buffer, it is not copied. The request
// is sent in one write if it is small.
//
// Interim replies are skipped, except for 101, which is returned. If the request cannot be written whole but the server
// has replied, that is no error. After an error nothing reads body any more.
func (c *Conn) RoundTrip(head, body []byte) (Reply, error) {
	var failed error // of a write
	if len(head)+len(body) <= oneWrite {
		c.out = append(head, body...)
		if _, failed = c.net.Write(c.out); failed != nil && !c.Sent() {
			return Reply{}, failed
		}
	} else {
		c.watch() // here, since two goroutines use the connection from now on
		c.writing = make(chan error, 1)
		go func(w net.Conn, written chan<- error) {
			_, err := w.Write(head)
			if err == nil {
				_, err = w.Write(body)
			}
			written <- err
		}(c.net, c.writing)
	}
	reply, err := c.readHead()
	if err != nil {
		c.endWrite()
		return Reply{}, err
	}
	c.keep = c.keep && failed == nil
	reply.Body = &c.body
	return reply, nil
}

// readHead reads the head of the reply.
func (c *Conn) readHead() (Reply, error) {
	var arrived []byte
	reply, kind, n := Reply{}, incomplete, 0
	for kind == incomplete {
		if _, err := c.reader.Peek(len(arrived) + 1); err != nil {
			break // net/http meets the same error, or can read a longer head
		}
		arrived, _ = c.reader.Peek(c.reader.Buffered())
		reply, kind, n = parseHead(arrived, &c.last)
	}
	if kind == usual {
		_, _ = c.reader.Discard(n)
		c.last, c.keep = reply, !reply.closes
		c.body = body{conn: c, left: reply.Length}
		c.headLeft = math.MaxInt64
		return reply, nil
	}
	for range maxInterim + 1 {
		response, err := http.ReadResponse(c.reader, nil)
		if err != nil {
			return Reply{}, c.cause(err, suspects(arrived))
		}
		if s := response.StatusCode; s >= 200 || s < 100 || s == http.StatusSwitchingProtocols {
			c.keep = kind == strict
			c.body = body{conn: c, parsed: response}
			c.headLeft = math.MaxInt64
			return replyOf(response), nil
		}
	}
	return Reply{}, &FramingError{"more than 5 interim replies"}
}

// cause returns the error of the connection that has led to err: net/http reports a read that fails in a header or a
// trailer as malformed. An error that is none of the connection is a [FramingError].
func (c *Conn) cause(err error, where string) error {
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return err
	case c.failed == errLargeHead:
		where = "a head of more than 64 KiB"
	case c.failed != nil:
		return c.failed
	case c.ended:
		return io.ErrUnexpectedEOF
	}
	return &FramingError{where}
}

// endWrite waits for the end of a large write, and ends it if it is still in progress. It returns false if the request
// was not written whole.
func (c *Conn) endWrite() (whole bool) {
	if c.writing == nil {
		return true
	}
	var err error
	select {
	case err = <-c.writing:
	default:
		_ = c.net.SetWriteDeadline(past)
		err = <-c.writing
	}
	c.writing = nil
	return err == nil
}

// Release ends the use of the connection. The connection is kept for the next call if the request was written whole,
// the reply was read to its end, nothing followed it, no read failed (reader would return that error to the next call)
// and the server does not close it; else it is closed.
func (c *Conn) Release() {
	whole, inTime, behind := c.endWrite(), c.endWatch(), c.reader.Buffered() > 0
	if c.body.ended && behind {
		c.pool.Extra()
	}
	strict := c.body.parsed == nil || c.body.parsed.Trailer == nil // net/http reads trailers leniently
	switch clean := whole && inTime && c.body.ended && c.failed == nil && !behind; {
	case clean && c.keep && strict && !c.final:
		c.keep = false
		c.pool.put(c)
	case clean:
		go c.linger()
	default:
		c.Close()
	}
}

// Close closes the connection at once. TLS would first send an alert, and wait up to 5 s for a server that does not
// read.
func (c *Conn) Close() {
	c.keep = false
	_ = c.socket.Close()
	c.endWrite() // before endWatch: the goroutine that writes may look whether the context is watched
	c.endWatch()
}

// endWatch returns false if abort was called, or is being called.
func (c *Conn) endWatch() bool {
	inTime := c.unwatch == nil || c.unwatch()
	c.ctx, c.unwatch = nil, nil
	return inTime
}

// silent reports whether a connection that waits can take a call: nothing has arrived on it, and it has not waited for
// too long.
func (c *Conn) silent(longest time.Duration) bool {
	now := time.Now()
	return errors.Is(c.listen(now), errNothingYet) && !c.socket.record.begun() && now.Sub(c.idleSince) < longest
}

// listen returns errNothingYet if the server has neither closed the connection nor sent anything that belongs to no
// call.
func (c *Conn) listen(now time.Time) error {
	if !now.Before(c.deadline) {
		c.setDeadline(time.Time{})
	}
	c.socket.atOnce = true
	defer func() { c.socket.atOnce = false }()
	// Through TLS: it may have records in its buffer, and session tickets can arrive at any time.
	n, err := c.net.Read(c.one[:])
	if n > 0 {
		c.pool.Extra()
	}
	return err
}

// A body is the body of a reply.
type body struct {
	conn   *Conn
	parsed *http.Response // by net/http; nil for a body of a given length
	left   int64          // of such a body
	ended  bool           // read to the end
}

func (b *body) Read(p []byte) (n int, err error) {
	switch {
	case b.parsed != nil:
		n, err = b.parsed.Body.Read(p)
	case b.left > 0:
		n, err = b.conn.reader.Read(p[:min(int64(len(p)), b.left)])
		if b.left -= int64(n); err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
	}
	if b.parsed == nil && b.left == 0 && err == nil {
		err = io.EOF
	}
	if err != nil {
		b.ended, err = err == io.EOF, b.conn.cause(err, "its chunks")
	}
	return n, err
}

// A headReader reads from a connection, and no more than headLeft.
type headReader Conn

func (r *headReader) Read(p []byte) (int, error) {
	if r.headLeft <= 0 {
		r.failed = errLargeHead
		return 0, r.failed
	}
	if int64(len(p)) > r.headLeft {
		p = p[:r.headLeft]
	}
	n, err := r.net.Read(p)
	r.headLeft -= int64(n)
	if r.ended = r.ended || err == io.EOF; err != nil && err != io.EOF {
		r.failed = err
	}
	return n, err
}
