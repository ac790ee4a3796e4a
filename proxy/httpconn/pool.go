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
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// IdleTimeout is how long a connection waits for its next call. It is shorter than that of common servers (5 s in Node
// and Apache): a write on a connection that the server is just closing would have an unknown outcome.
const IdleTimeout = 4 * time.Second

// A Pool opens connections to one server, and keeps those that are idle. It does not limit their number: it holds as
// many connections as there were calls at the same time. It is safe for concurrent use.
type Pool struct {
	// Dial opens a TCP connection, as [net.Dialer.DialContext] does, which looks up the name each time. If nil, a zero
	// dialer is used.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Address is HOST:PORT of the server.
	Address string
	// TLS is the config of TLS, with the name of the server. If nil, the connections have no TLS.
	TLS *tls.Config
	// Extra is called when a server has sent something that belongs to no call.
	Extra func()

	mu   sync.Mutex
	idle []*Conn // the longest idle one first
	reap *time.Timer
}

// Idle returns an idle connection that the server has not closed, or nil.
func (p *Pool) Idle() *Conn {
	for {
		c := p.pop(-1)
		if c == nil || c.usable() {
			return c
		}
		c.Close()
	}
}

// Retire closes the connection that has been idle the longest, if there is one, before a call that needs a new one: so
// there are no more connections than calls at the same time. It frees the port at once. Otherwise the port would be in
// use for a minute (TIME_WAIT), and 500 calls a second would need more ports than there are.
func (p *Pool) Retire() {
	if c := p.pop(0); c != nil {
		c.usable() // only to see what has arrived
		if tcp, ok := c.socket.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		c.Close()
	}
}

// pop removes the idle connection at an index, from the end if it is negative.
func (p *Pool) pop(i int) *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	if i < 0 {
		i += len(p.idle)
	}
	c := p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	c.reused = true
	return c
}

var errSpoke = errors.New("the server spoke, or closed the connection, before the first call")

// Open opens a connection, with its TLS handshake, before ctx ends. What a server sends before a call is no reply to it:
// such a connection is closed.
func (p *Pool) Open(ctx context.Context) (*Conn, error) {
	dial := p.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	tcp, err := dial(ctx, "tcp", p.Address)
	if err != nil {
		return nil, err
	}
	c := newConn(p, tcp)
	if p.TLS != nil {
		secure := tls.Client(c.socket, p.TLS)
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
	if len(p.idle) == 1 {
		p.reapAfter(IdleTimeout)
	}
}

// reapAfter closes the connections that have been idle for too long after a time. The lock must be held.
func (p *Pool) reapAfter(d time.Duration) {
	if p.reap == nil {
		p.reap = time.AfterFunc(d, p.closeOld)
		return
	}
	p.reap.Reset(d)
}

func (p *Pool) closeOld() {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := 0
	for old < len(p.idle) && time.Since(p.idle[old].idleSince) >= IdleTimeout {
		p.idle[old].usable() // only to see what has arrived
		_ = p.idle[old].net.Close()
		old++
	}
	p.idle = slices.Delete(p.idle, 0, old)
	if len(p.idle) > 0 {
		p.reapAfter(IdleTimeout - time.Since(p.idle[0].idleSince))
	}
}

// CloseIdle closes the idle connections. Calls in progress continue, and their connections become idle after them.
func (p *Pool) CloseIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		_ = c.net.Close()
	}
	clear(p.idle)
	p.idle = p.idle[:0]
	if p.reap != nil {
		p.reap.Stop()
	}
}
