package upstream

import (
	"context"
	"net"

	"billbridge/proxy/httpconn"
)

// The methods of this file are for tests of other packages.

// An Attempt makes a call that the breaker has let through and that has a slot.
type Attempt func(context.Context, *Request) (httpconn.Reply, *Failure)

// Wrap replaces the attempts by what wrap makes of them; nil ends that.
func (u *Upstream) Wrap(wrap func(Attempt) Attempt) {
	if wrap == nil {
		u.attempt = u.try
		return
	}
	u.attempt = wrap(u.attempt)
}

// DialWith makes connections with another function.
func (u *Upstream) DialWith(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	u.pool.Dial = dial
}

// EndPause ends the pause of the breaker.
func (u *Upstream) EndPause() {
	u.breaker.mu.Lock()
	defer u.breaker.mu.Unlock()
	u.breaker.opened = u.breaker.opened.Add(-breakerPause)
}
