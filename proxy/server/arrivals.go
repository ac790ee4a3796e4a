package server

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/proxy"
)

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

// watch has a server report its connections.
func (a *arrivals) watch(s *http.Server) {
	a.waiting = map[net.Conn]*arrival{}
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if one, ok := r.Context().Value(arrivalKey{}).(*arrival); ok && one.begun.CompareAndSwap(false, true) {
			a.forget(one.conn)
			if one.waited > rounded {
				r = r.WithContext(proxy.Waited(r.Context(), one.waited))
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
	ctx, cancel := context.WithTimeout(ctx, proxy.HalfRead)
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
