package proxy

import (
	"billbridge/config"
	"billbridge/proxy/upstream"
)

// Config returns the config in force.
func (g *Gateway) Config() *config.Config { return g.current.Load().config }

// An UpstreamStatus is the state of an upstream at a moment.
type UpstreamStatus struct {
	*config.Upstream
	upstream.Health
}

// Upstreams returns the state of the upstreams, in the order of the config.
func (g *Gateway) Upstreams() []UpstreamStatus {
	s := g.current.Load()
	list := make([]UpstreamStatus, len(s.config.Upstreams))
	for i := range list {
		u := &s.config.Upstreams[i]
		list[i] = UpstreamStatus{u, s.upstreams[u.Name].Health()}
	}
	return list
}

// Opened reports whether the breaker of an upstream is open.
func (g *Gateway) Opened(upstream string) bool {
	u := g.current.Load().upstreams[upstream]
	return u != nil && u.Health().Breaker != "closed"
}
