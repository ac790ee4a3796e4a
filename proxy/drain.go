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

	mu      sync.Mutex
	hurried bool
	ended   bool
}

func (b *boundBody) hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.hurried = true
		_ = b.connection.SetReadDeadline(time.Now().Add(halfRead))
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

// arrivals are the connections of a server on which no request has begun yet. net/http closes them unanswered when it shuts
// down, also those whose request has come, so the shutdown waits for them.
type arrivals struct {
	mu      sync.Mutex
	waiting map[net.Conn]*arrival
}

type arrival struct {
	conn   net.Conn
	waited time.Duration // how long its first request was in the socket before the connection was accepted
	begun  atomic.Bool
}

type arrivalKey struct{}

// rounded is more than the clock by which a socket counts, a few milliseconds, can be wrong: a call must not look older than one
// that came before it.
const rounded = 100 * time.Millisecond

// waitedKey is of arrival.waited, in the context of that request.
type waitedKey struct{}

// watch has a server report its connections.
func (a *arrivals) watch(s *http.Server) {
	a.waiting = map[net.Conn]*arrival{}
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if one, ok := r.Context().Value(arrivalKey{}).(*arrival); ok && one.begun.CompareAndSwap(false, true) {
			a.forget(one.conn)
			if one.waited > rounded {
				r = r.WithContext(context.WithValue(r.Context(), waitedKey{}, one.waited))
			}
		}
		next.ServeHTTP(w, r)
	})
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		waited, gone := backlog(c)
		if gone {
			_ = c.Close()
		}
		one := &arrival{conn: c, waited: waited}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.waiting[c] = one
		return context.WithValue(ctx, arrivalKey{}, one)
	}
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked || state == http.StateIdle { // idle: net/http has answered by itself
			a.forget(c)
		}
	}
}

func (a *arrivals) forget(c net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, c)
}

func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting)
}

// awaitArrivals returns when a request has begun on every connection, or after the time for half a request. The servers must
// accept no more.
func awaitArrivals(ctx context.Context, all ...*arrivals) {
	ctx, cancel := context.WithTimeout(ctx, halfRead)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for ctx.Err() == nil {
		n := 0
		for _, a := range all {
			n += a.count()
		}
		if n == 0 {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
}
