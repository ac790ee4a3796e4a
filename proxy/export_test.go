package proxy

import "net/http"

// Mask is mask, for a table of texts.
var Mask = mask

// Trip puts a transport of a test's own before an upstream.
func (g *Gateway) Trip(upstream string, wrap func(http.RoundTripper) http.RoundTripper) {
	u := g.current.Load().upstreams[upstream]
	u.trip = wrap(u.trip)
}

// HalfOpen ends the pause of an upstream's breaker.
func (g *Gateway) HalfOpen(upstream string) {
	g.current.Load().upstreams[upstream].breaker.circuit.HalfOpen()
}
