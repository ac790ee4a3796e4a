package httpconn

import (
	"context"
	"io"
	"math"
	"net"
	"time"
)

const (
	// maxSpares is how many spares a pool keeps at most, with those that are being opened.
	maxSpares = 64
	// spareTimeout is how long a spare waits for its call. Servers give a connection longer for its first request than
	// for a further one; a call on one that the server is just closing would have an unknown outcome.
	spareTimeout = IdleTimeout / 2
	// openWithin bounds the opening of a spare.
	openWithin = 5 * time.Second
)

// spares are connections that were opened before they are needed, and have carried no call. Their number is what the
// calls of the last seconds have used.
type spares struct {
	waiting []*Conn // the longest waiting one first
	opening int
	wanted  int
	least   int       // of waiting since the last look at it: more than wanted
	looked  time.Time // then
	asked   time.Time // the last call of Fresh
	refused bool      // the last connection could not be opened: none is opened in advance before one of a call was
}

// Fresh returns a connection that has carried no call and is silent, or nil. It has others opened for the calls that
// may follow.
func (p *Pool) Fresh() *Conn {
	for {
		c := p.popSpare()
		if c == nil || c.silent(spareTimeout) {
			return c
		}
		c.Close()
	}
}

func (p *Pool) popSpare() *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, open := p.spares.take(time.Now())
	for range open {
		go p.openSpare()
	}
	return c
}

// take returns the longest waiting spare, if there is one, and how many must be opened.
func (s *spares) take(now time.Time) (c *Conn, open int) {
	recent := now.Sub(s.asked) < time.Second
	s.asked = now
	if len(s.waiting) > 0 {
		c, s.waiting = s.waiting[0], s.waiting[1:]
	} else if recent && !s.refused {
		s.wanted = min(s.wanted+1, maxSpares)
	}
	if s.least = min(s.least, len(s.waiting)); now.Sub(s.looked) >= time.Second {
		s.wanted, s.looked, s.least = max(0, s.wanted-s.least), now, len(s.waiting)
	}
	open = max(0, s.wanted-len(s.waiting)-s.opening)
	s.opening += open
	return c, open
}

func (p *Pool) openSpare() {
	ctx, cancel := context.WithTimeout(context.Background(), openWithin)
	defer cancel()
	c, err := p.Open(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spares.opening--; err == nil {
		c.idleSince, c.waited = time.Now(), true
		p.spares.waiting = append(p.spares.waiting, c)
		p.reapBy(c.idleSince.Add(spareTimeout))
	}
}

// opened records whether a connection could be opened.
func (p *Pool) opened(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spares.refused = err != nil; err != nil {
		p.spares.wanted = 0
	}
}

// closeSpares closes the spares that have waited since a time, and wants fewer. The lock must be held.
func (p *Pool) closeSpares(since time.Time) {
	s := &p.spares
	for len(s.waiting) > 0 && !s.waiting[0].idleSince.After(since) {
		s.waiting[0].silent(math.MaxInt64) // only to see what has arrived
		_ = s.waiting[0].net.Close()
		s.waiting, s.wanted = s.waiting[1:], max(0, s.wanted-1)
	}
}

// Spares returns how many connections wait for their first call.
func (p *Pool) Spares() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.spares.waiting)
}

// closeWithin is how long a server has to close a connection after its last call.
const closeWithin = time.Second

// linger waits until the server closes the connection, as the last request has asked it to. So the port is free at
// once: who closes first keeps it for a minute (TIME_WAIT). A server that does not close gets a reset.
func (c *Conn) linger() {
	_ = c.net.SetDeadline(time.Now().Add(closeWithin))
	n, err := c.net.Read(c.one[:])
	if n > 0 {
		c.pool.Extra()
	}
	if c.pool.TLS != nil && err == io.EOF { // its alert; the end of the connection follows
		n, err = c.socket.Read(c.one[:])
	}
	if tcp, ok := c.socket.Conn.(*net.TCPConn); ok && (n > 0 || err != io.EOF) {
		_ = tcp.SetLinger(0)
	}
	_ = c.socket.Close()
}
