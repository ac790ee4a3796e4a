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

// bound is a request's body that must end soon when the gateway drains. Its end must be called when it has been read.
func (g *Gateway) bound(w http.ResponseWriter, body io.ReadCloser) *boundBody {
	b := &boundBody{ReadCloser: body, connection: http.NewResponseController(w)}
	b.stop = context.AfterFunc(g.draining, b.hurry)
	return b
}

type boundBody struct {
	io.ReadCloser
	connection *http.ResponseController
	stop       func() bool

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
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && b.end() {
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	return n, err
}

// end reports whether there is a deadline for the body.
func (b *boundBody) end() (hurried bool) {
	b.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	return b.hurried
}
