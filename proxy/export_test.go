package proxy

import "net/http"

// Mask exports mask for its test.
var Mask = mask

// WrapTransport puts a test's transport before the one of an upstream.
func (g *Gateway) WrapTransport(upstream string, wrap func(http.RoundTripper) http.RoundTripper) {
	u := g.current.Load().upstreams[upstream]
	u.trip = wrap(u.trip)
}

// HalfOpen ends the pause of an upstream's breaker.
func (g *Gateway) HalfOpen(upstream string) {
	g.current.Load().upstreams[upstream].breaker.circuit.HalfOpen()
}
