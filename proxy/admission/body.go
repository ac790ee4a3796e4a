package admission

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// PartialRequestTimeout is the time that a draining gateway gives a request of which only a part has arrived.
const PartialRequestTimeout = 5 * time.Second

// WithConn returns the context for the requests of a connection. A body that has arrived whole is then read without
// deadlines.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(requestReader); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

type connKey struct{}

// A requestReader is a connection of package framing.
type requestReader interface{ RequestRead() bool }

// hasArrived reports whether reading the body of a request does not wait.
func hasArrived(r *http.Request) bool {
	c, ok := r.Context().Value(connKey{}).(requestReader)
	return ok && r.ProtoMajor == 1 && r.ContentLength > 0 && c.RequestRead()
}

// The minimum rate of a body, on average, after the first seconds.
const (
	minRateAfter = 5 * time.Second
	minRate      = 1 << 10 // bytes per second
)

// drainable wraps the body of a request with read deadlines: for the minimum rate, for the time within, and for the
// drain. The caller must call end after it has read the body.
func (a *Admission) drainable(w http.ResponseWriter, body io.ReadCloser, within time.Duration) *drainableBody {
	b := &drainableBody{ReadCloser: body, connection: http.NewResponseController(w), began: time.Now(), within: within}
	b.stop = context.AfterFunc(a.draining, b.setDeadline)
	return b
}

type drainableBody struct {
	io.ReadCloser
	connection *http.ResponseController
	stop       func() bool
	began      time.Time
	within     time.Duration
	read       int64 // in bytes

	mu          sync.Mutex
	deadlineSet bool
	ended       bool
	wasCut      bool
}

// cut makes the body end with ErrNoMemory. It returns false if the body has ended, or was cut before.
func (b *drainableBody) cut() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.wasCut {
		return false
	}
	b.deadlineSet, b.wasCut = true, true
	_ = b.connection.SetReadDeadline(time.Unix(1, 0))
	return true
}

func (b *drainableBody) setDeadline() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended && !b.wasCut {
		b.deadlineSet = true
		_ = b.connection.SetReadDeadline(time.Now().Add(PartialRequestTimeout))
	}
}

// Read removes the deadline when the body is complete, as net/http does. setDeadline may run just after net/http
// did, and net/http would then cancel the request as if the caller had disconnected.
func (b *drainableBody) Read(p []byte) (int, error) {
	b.setRateDeadline()
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err != nil && b.end() {
		return 0, ErrNoMemory
	}
	if err == io.EOF {
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	return n, err
}

// setRateDeadline sets the deadline for the next bytes, unless the drain has set one.
func (b *drainableBody) setRateDeadline() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.deadlineSet {
		within := min(b.within, minRateAfter+time.Duration(b.read)*(time.Second/minRate))
		_ = b.connection.SetReadDeadline(b.began.Add(within))
	}
}

// end keeps the drain from setting a deadline. It reports whether the body was cut.
func (b *drainableBody) end() (wasCut bool) {
	b.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	return b.wasCut
}
