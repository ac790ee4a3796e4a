package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// halfRead is the time that a draining gateway gives a request of which only a part is there.
const halfRead = 5 * time.Second

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

	mu    sync.Mutex
	ended bool
}

func (b *boundBody) hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		_ = b.connection.SetReadDeadline(time.Now().Add(halfRead))
	}
}

// Read takes the deadline of the connection away when all of the body is there, as net/http does: it may have been set just
// after that, and would look as if the caller had gone.
func (b *boundBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.end()
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	return n, err
}

func (b *boundBody) end() {
	b.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}

// arrivals are the connections of a server on which no request has begun yet. net/http closes them unanswered when it shuts
// down, also those whose request has come, so the shutdown waits for them.
type arrivals struct {
	mu      sync.Mutex
	waiting map[net.Conn]*arrival
}

type arrival struct {
	conn  net.Conn
	begun atomic.Bool
}

type arrivalKey struct{}

// watch has a server report its connections.
func (a *arrivals) watch(s *http.Server) {
	a.waiting = map[net.Conn]*arrival{}
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if one, ok := r.Context().Value(arrivalKey{}).(*arrival); ok && one.begun.CompareAndSwap(false, true) {
			a.forget(one.conn)
		}
		next.ServeHTTP(w, r)
	})
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		one := &arrival{conn: c}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.waiting[c] = one
		return context.WithValue(ctx, arrivalKey{}, one)
	}
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			a.forget(c)
		}
	}
}

func (a *arrivals) forget(c net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, c)
}

// wait returns when a request has begun on every connection, or after the time for half a request. The listener must have been
// closed.
func (a *arrivals) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, halfRead)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for ctx.Err() == nil {
		a.mu.Lock()
		n := len(a.waiting)
		a.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
}
