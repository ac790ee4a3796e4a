package server

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/proxy"
	"billbridge/proxy/admission"
	"billbridge/proxy/framing"
)

// unusedConns are the connections of a server on which no request has begun yet. http.Server.Shutdown closes them
// without an answer, even if a request has arrived, so the drain waits for them first.
type unusedConns struct {
	mu    sync.Mutex
	conns map[net.Conn]*unusedConn
}

type unusedConn struct {
	conn      net.Conn
	queueTime time.Duration // how long data was in the socket before the connection was accepted
	begun     atomic.Bool   // its first request has begun
}

type unusedConnKey struct{}

// minQueueTime is the shortest queue time that counts. It is longer than the error of the socket's clock, a few
// milliseconds: otherwise a call could look older than one that arrived before it.
const minQueueTime = 100 * time.Millisecond

// track makes a server report its connections to n.
func (n *unusedConns) track(s *http.Server) {
	n.conns = map[net.Conn]*unusedConn{}
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(unusedConnKey{}).(*unusedConn); ok && c.begun.CompareAndSwap(false, true) {
			n.remove(c.conn)
			if c.queueTime > minQueueTime {
				r = r.WithContext(proxy.WithQueueTime(r.Context(), c.queueTime))
			}
		}
		next.ServeHTTP(w, r)
	})
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		var queueTime time.Duration
		if !framing.Resumed(conn) {
			var closed bool
			// A caller that has just closed its sending direction may still wait for the answer.
			if queueTime, closed = socketState(conn); closed && queueTime > minQueueTime {
				_ = conn.Close()
			}
		}
		c := &unusedConn{conn: conn, queueTime: queueTime}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.conns[conn] = c
		return context.WithValue(admission.WithConn(ctx, conn), unusedConnKey{}, c)
	}
	s.ConnState = func(conn net.Conn, state http.ConnState) {
		// Idle without a request in the handler: net/http answered the request by itself.
		if state == http.StateClosed || state == http.StateHijacked || state == http.StateIdle {
			n.remove(conn)
		}
		if state == http.StateIdle {
			framing.Idle(conn)
		}
	}
}

func (n *unusedConns) remove(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

func (n *unusedConns) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}

// awaitFirstRequests returns when a request has begun on every connection, or after
// [admission.PartialRequestTimeout]. The servers must not accept any more connections.
func (s *Server) awaitFirstRequests(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, admission.PartialRequestTimeout)
	defer cancel()
	unused := func(e *endpoint) bool { return e.conns.count() > 0 }
	for poll := time.Tick(5 * time.Millisecond); slices.ContainsFunc(s.endpoints, unused); {
		select {
		case <-poll:
		case <-ctx.Done():
			return
		}
	}
}
