package framing

import (
	"errors"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// waiting is the state of a connection that waits for its next request.
type waiting struct {
	step        waitingStep
	until       time.Time   // the idle timeout of the server; zero if it has none
	endReported atomic.Bool // the server got an end, but the connection is open: Close hands it over
	handedOver  atomic.Bool // another conn has the connection: Close of this one has no effect

	first    [1]byte // of the request that has ended the wait
	hasFirst bool
}

// A waitingStep is how far net/http has begun to wait. It calls the hook for http.StateIdle, then SetReadDeadline with
// its idle timeout, then Read. If the next request is already in its buffer, it goes on without this Read, and sets the
// deadline of a header.
type waitingStep uint8

const (
	notWaiting  waitingStep = iota
	idleCalled              // Idle was called
	deadlineSet             // the next Read waits for a request
)

// Idle informs a connection of a listener that its server waits for the next request, as http.Server reports with
// http.StateIdle.
//
// net/http holds a goroutine and two buffers for an idle connection, about 18 KiB. After Options.IdleAfter the
// connection reports to net/http that the client has closed it, so that net/http releases all this, and waits in a
// small goroutine. When the first byte of a request arrives, Accept returns the connection once more.
func Idle(c net.Conn) {
	if c, ok := c.(*conn); ok && !c.http2 && c.listener.options.IdleAfter > 0 {
		c.waiting.step = idleCalled
	}
}

// Resumed reports whether a connection was idle when Accept returned it.
func Resumed(c net.Conn) bool {
	resumed, ok := c.(*conn)
	return ok && resumed.waiting.hasFirst
}

// SetReadDeadline sets the deadline of Read. The idle timeout of the server also holds while the connection waits
// without it.
func (c *conn) SetReadDeadline(t time.Time) error {
	w := &c.waiting
	switch {
	case w.step == idleCalled && c.scanner.betweenRequests():
		w.step, w.until = deadlineSet, t
		if soon := time.Now().Add(c.listener.options.IdleAfter); t.IsZero() || soon.Before(t) {
			t = soon
		}
	case w.step != notWaiting: // else it may be called while another goroutine reads
		w.step = notWaiting
	}
	return c.Conn.SetReadDeadline(t)
}

// read reads from the connection below.
func (c *conn) read(p []byte) (int, error) {
	w := &c.waiting
	if w.hasFirst && len(p) > 0 {
		p[0], w.hasFirst = w.first[0], false
		return 1, nil
	}
	if w.step != deadlineSet {
		return c.Conn.Read(p)
	}
	w.step = notWaiting
	n, err := c.Conn.Read(p)
	if n > 0 {
		_ = c.Conn.SetReadDeadline(w.until) // only a part of the request may have come
		return n, err
	}
	var late net.Error
	if errors.As(err, &late) && late.Timeout() && (w.until.IsZero() || time.Now().Before(w.until)) {
		w.endReported.Store(true)
		return 0, io.EOF
	}
	return n, err
}

// startIdle hands the connection over to a conn that waits for the next request without the server, if endReported is
// set. Only one call does so.
func (c *conn) startIdle() bool {
	if !c.waiting.endReported.CompareAndSwap(true, false) {
		return false
	}
	l := c.listener
	resumed := l.newConn(c.Conn, c.tls, c.release)
	resumed.last, resumed.scanner.empty = c.last, c.scanner.empty
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return false
	default:
	}
	l.idle[resumed] = struct{}{}
	c.waiting.handedOver.Store(true)
	_ = c.Conn.SetReadDeadline(c.waiting.until)
	go resumed.awaitRequest()
	l.countIdle()
	return true
}

// awaitRequest waits for the first byte of the next request. Then Accept returns the connection.
func (c *conn) awaitRequest() {
	n, _ := c.Conn.Read(c.waiting.first[:])
	l := c.listener
	l.mu.Lock()
	_, open := l.idle[c]
	delete(l.idle, c)
	l.mu.Unlock()
	if n == 0 || !open { // a TLS connection that is closed still returns what it has decrypted
		_ = c.Close()
		return
	}
	c.waiting.hasFirst = true
	select {
	case l.accepted <- accepted{conn: c}:
	case <-l.closed:
		_ = c.Close()
	}
}

// Close closes the listener and the connections that wait without the server.
func (l *listener) Close() error {
	l.closing.Do(func() { close(l.closed) })
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.idle {
		_ = c.Close()
	}
	clear(l.idle)
	return l.Listener.Close()
}

// countIdle counts a connection that has released its memory. When they are many, the memory is returned to the system:
// Go would keep it for minutes. The lock must be held.
func (l *listener) countIdle() {
	const many, delay = 1000, 10 * time.Second
	if l.wentIdle++; l.wentIdle < many || l.freeing {
		return
	}
	l.freeing = true
	time.AfterFunc(delay, func() {
		l.mu.Lock()
		l.wentIdle, l.freeing = 0, false
		l.mu.Unlock()
		runtime.GC() // the buffers are in a sync.Pool of net/http, which keeps them for one collection more
		debug.FreeOSMemory()
	})
}
