package proxy

import (
	"net/http"
	"time"
)

// Mask is mask, for a table of texts.
var Mask = mask

// Trip puts a transport of a test's own before an upstream.
func (g *Gateway) Trip(upstream string, wrap func(http.RoundTripper) http.RoundTripper) {
	u := g.current.Load().upstreams[upstream]
	u.trip = wrap(u.trip)
}

// Arrivals is the number of partners' connections on which no request has begun.
func (s *Server) Arrivals() int { return s.partnersNew.count() }

// DrainWithin is how long a drain may take now.
func (s *Server) DrainWithin() time.Duration { return s.drain }
