package proxy

import (
	"context"
	"net"
	"net/http"
	"strings"

	"billbridge/proxy/httpconn"
)

// Mask exports mask for its test.
var Mask = mask

// An UpstreamCall is a call that WrapCalls has intercepted.
type UpstreamCall struct{ ID, Path string }

// WrapCalls puts a test's function around each call to an upstream. The function makes the call with next. If it
// returns an error, the call has no answer, and it was sent if next was called.
func (g *Gateway) WrapCalls(upstream string, wrap func(c UpstreamCall, next func()) error) {
	u := g.current.Load().upstreams[upstream]
	below := u.attempt
	u.attempt = func(ctx context.Context, r *upstreamRequest) (reply httpconn.Reply, failure *callError) {
		sent := false
		lost := wrap(UpstreamCall{r.id, strings.Fields(string(r.head))[1]}, func() {
			sent = true
			reply, failure = below(ctx, r)
		})
		switch {
		case lost != nil && sent:
			return httpconn.Reply{}, &callError{reason: "reset", detail: lost.Error(), sent: true}
		case lost != nil:
			return httpconn.Reply{}, &callError{reason: "refused", detail: lost.Error()}
		}
		return reply, failure
	}
}

// DoNotWrapCalls ends the effect of WrapCalls.
func (g *Gateway) DoNotWrapCalls(upstream string) {
	u := g.current.Load().upstreams[upstream]
	u.attempt = u.try
}

// EndPause ends the pause of an upstream's breaker.
func (g *Gateway) EndPause(upstream string) {
	b := g.current.Load().upstreams[upstream].breaker
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened = b.opened.Add(-breakerPause)
}

// Observe answers a request, and returns the function that counts and logs it once more.
func (g *Gateway) Observe(w http.ResponseWriter, r *http.Request) (observe func()) {
	x := newExchange(g, w, r)
	x.serve()
	return func() { g.observe(x) }
}

// DialWith makes an upstream's connections with a test's function.
func (g *Gateway) DialWith(upstream string, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	g.current.Load().upstreams[upstream].pool.Dial = dial
}

// LoseRollout makes each use of the rollout panic until restore is called.
func (g *Gateway) LoseRollout() (restore func()) {
	r := g.rollout
	g.rollout = nil
	return func() { g.rollout = r }
}
