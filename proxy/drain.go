package proxy

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// HalfRead is the time that a draining gateway gives a request of which only a part is there.
const HalfRead = 5 * time.Second

// Leave has every answer close its connection from now on, so that callers open the next one elsewhere.
func (g *Gateway) Leave() { g.leaving.Store(true) }

// Drain gives bodies that are not there yet HalfRead to come.
func (g *Gateway) Drain() { g.drain() }

// Waited returns a context for a request that was in the socket for a time before its connection was accepted. A write that
// waited too long is not sent: its caller may have given up.
func Waited(ctx context.Context, waited time.Duration) context.Context {
	return context.WithValue(ctx, waitedKey{}, waited)
}

type waitedKey struct{}

// The pace that a body must keep: so many bytes a second on average, after the first seconds.
const (
	paceAfter = 5 * time.Second
	pace      = 1 << 10
)

// bound is a request's body that must keep the pace, come within a time, and end soon when the gateway drains. Its end must be called
// when it has been read.
func (g *Gateway) bound(w http.ResponseWriter, body io.ReadCloser, within time.Duration) *boundBody {
	b := &boundBody{ReadCloser: body, connection: http.NewResponseController(w), began: time.Now(), within: within}
	b.stop = context.AfterFunc(g.draining, b.hurry)
	return b
}

type boundBody struct {
	io.ReadCloser
	connection *http.ResponseController
	stop       func() bool
	began      time.Time
	within     time.Duration
	read       int64 // bytes

	mu      sync.Mutex
	hurried bool
	ended   bool
}

func (b *boundBody) hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.hurried = true
		_ = b.connection.SetReadDeadline(time.Now().Add(HalfRead))
	}
}

// Read removes the deadline of the connection when all of the body is there, as net/http does. It may have been set just after
// that, and net/http would take it for a caller that has gone.
func (b *boundBody) Read(p []byte) (int, error) {
	b.keepPace()
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err == io.EOF {
		b.end()
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	return n, err
}

// keepPace sets the time by which the next bytes must be there.
func (b *boundBody) keepPace() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.hurried {
		_ = b.connection.SetReadDeadline(b.began.Add(min(b.within, paceAfter+time.Duration(b.read)*(time.Second/pace))))
	}
}

// end ends what can set a deadline.
func (b *boundBody) end() {
	b.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}
