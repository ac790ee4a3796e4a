package proxy

import (
	"time"

	"billbridge/config"
)

// Config returns the config in force.
func (g *Gateway) Config() *config.Config { return g.current.Load().config }

// An UpstreamStatus is the state of an upstream at a moment.
type UpstreamStatus struct {
	*config.Upstream
	Breaker string     // closed, half-open or open
	Opened  *time.Time // when the breaker opened; nil while it is closed
}

// Upstreams returns the state of the upstreams, in the order of the config.
func (g *Gateway) Upstreams() []UpstreamStatus {
	s := g.current.Load()
	list := make([]UpstreamStatus, len(s.config.Upstreams))
	for i := range list {
		u := &s.config.Upstreams[i]
		list[i] = UpstreamStatus{Upstream: u}
		list[i].Breaker, list[i].Opened = s.upstreams[u.Name].Breaker()
	}
	return list
}

// Opened reports whether the breaker of an upstream is open.
func (g *Gateway) Opened(upstream string) bool {
	u := g.current.Load().upstreams[upstream]
	if u == nil {
		return false
	}
	_, opened := u.Breaker()
	return opened != nil
}
