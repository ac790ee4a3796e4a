// Package httpconn makes HTTP/1.1 calls over connections that each belong to one goroutine at a time: the one that
// makes the call. Only a large request is written by another goroutine, which ends before the call does. Nothing is
// ever sent a second time.
//
//	conn := pool.Idle()
//	if conn == nil {
//		conn, err = pool.Open(ctx)
//	}
//	defer conn.Release()
//	conn.Begin(ctx, now, now.Add(timeout))
//	reply, err := conn.RoundTrip(head, body)
//	…
//	_, err = io.ReadAll(reply.Body)
//
// After an error, [Conn.Sent] reports whether a byte of the call may have left (requirement R23).
package httpconn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// IdleTimeout is how long a connection waits for its next call. It is shorter than that of common servers (5 s in Node
// and Apache): a write on a connection that the server is just closing would have an unknown outcome.
const IdleTimeout = 4 * time.Second

// A Dial opens a TCP connection, as [net.Dialer.DialContext] does, which looks up the name each time.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// A Pool opens connections to one server, and keeps those that are idle. It does not limit their number: it holds as
// many connections as there were calls at the same time. It is safe for concurrent use.
type Pool struct {
	// Dial must not be nil.
	Dial Dial
	// Address is HOST:PORT of the server.
	Address string
	// TLS returns the config of TLS for the next connection, with the name of the server. If nil, the connections have
	// no TLS.
	TLS func() *tls.Config
	// Extra is called when a server has sent something that belongs to no call.
	Extra func()

	mu     sync.Mutex
	idle   []*Conn // the longest idle one first
	spares spares
	reap   *time.Timer
	reapAt time.Time // zero if the timer does not run
}

// Idle returns an idle connection that the server has not closed, or nil.
func (p *Pool) Idle() *Conn {
	for {
		c := p.pop()
		if c == nil || c.silent(IdleTimeout) {
			return c
		}
		c.Close()
	}
}

// pop removes the connection that has been idle for the shortest time.
func (p *Pool) pop() *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	c := p.idle[last]
	p.idle[last], p.idle = nil, p.idle[:last]
	c.reused = true
	return c
}

var errSpoke = errors.New("the server spoke, or closed the connection, before the first call")

// Open opens a connection, with its TLS handshake, before ctx ends. What a server sends before a call is no reply to
// it: such a connection is closed.
func (p *Pool) Open(ctx context.Context) (c *Conn, err error) {
	defer func() { p.opened(err) }()
	tcp, err := p.Dial(ctx, "tcp", p.Address)
	if err != nil {
		return nil, err
	}
	c = newConn(p, tcp)
	if p.TLS != nil {
		secure := tls.Client(c.socket, p.TLS())
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = tcp.Close()
			return nil, err
		}
		c.net = secure
	}
	if _, is := tcp.(syscall.Conn); !is { // only a socket can be checked
		return c, nil
	}
	switch err := c.listen(time.Now()); {
	case errors.Is(err, errNothingYet):
		return c, nil
	case err != nil && err != io.EOF: // such as an alert of TLS
		c.Close()
		return nil, err
	}
	c.Close()
	return nil, errSpoke
}

// put keeps a connection for the next call.
func (p *Pool) put(c *Conn) {
	c.idleSince = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
	p.reapBy(c.idleSince.Add(IdleTimeout))
}

// reapBy closes the connections that have waited for too long at a time, or earlier. The lock must be held.
func (p *Pool) reapBy(at time.Time) {
	switch {
	case !p.reapAt.IsZero() && p.reapAt.Before(at):
		return
	case p.reap == nil:
		p.reap = time.AfterFunc(time.Until(at), p.closeOld)
	default:
		p.reap.Reset(time.Until(at))
	}
	p.reapAt = at
}

func (p *Pool) closeOld() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reapAt = time.Time{}
	old := 0
	for old < len(p.idle) && time.Since(p.idle[old].idleSince) >= IdleTimeout {
		p.idle[old].silent(math.MaxInt64) // only to see what has arrived
		_ = p.idle[old].net.Close()
		old++
	}
	p.idle = slices.Delete(p.idle, 0, old)
	p.closeSpares(time.Now().Add(-spareTimeout))
	if len(p.idle) > 0 {
		p.reapBy(p.idle[0].idleSince.Add(IdleTimeout))
	}
	if waiting := p.spares.waiting; len(waiting) > 0 {
		p.reapBy(waiting[0].idleSince.Add(spareTimeout))
	}
}

// CloseIdle closes the idle connections, and those that wait for their first call. Calls in progress continue, and
// their connections become idle after them.
func (p *Pool) CloseIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		_ = c.net.Close()
	}
	clear(p.idle)
	p.idle = p.idle[:0]
	p.closeSpares(time.Now())
	if p.reap != nil {
		p.reap.Stop()
		p.reapAt = time.Time{}
	}
}
