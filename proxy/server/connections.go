package server

import (
	"net"
	"net/netip"
	"sync"

	"billbridge/config"
	"billbridge/proxy/framing"

	"github.com/prometheus/client_golang/prometheus"
)

// connections count and limit the connections of partners and of upstreams that send callbacks. Safe for concurrent
// use.
type connections struct {
	limits func() *config.Limits
	cut    func() bool // ends a connection whose request arrives slowly; false if there is none

	mu   sync.Mutex
	open int
	from map[netip.Prefix]int // connections by source, without trusted ones

	refused *prometheus.CounterVec // connections
	framing *prometheus.CounterVec // requests
}

// newConnections registers the metrics.
func newConnections(limits func() *config.Limits, registry prometheus.Registerer) *connections {
	c := &connections{limits: limits, from: map[netip.Prefix]int{}}
	gauge(registry, "billbridge_connections", "Open connections of partners, and of upstreams that send callbacks.",
		func() float64 { return float64(c.count()) })
	c.refused = counters(registry, "billbridge_connections_refused_total",
		"Connections that were closed at once because of a limit: of all connections (all), "+
			"or of those from one source address (address).",
		"limit", "all", "address")
	c.framing = counters(registry, "billbridge_framing_refused_total",
		"Requests that were refused with 400 because their framing is ambiguous.", "reason", framing.Reasons...)
	return c
}

func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// admit counts a connection, unless a limit is reached. In place of one that is cut because its request arrives slowly,
// another is admitted before the cut one is closed: at most an eighth of limits.Connections more. The caller must call
// release when the connection is closed.
func (c *connections) admit(peer net.Addr) (release func(), ok bool) {
	limits := c.limits()
	from, limited := limits.Peer(peer.String())
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case limited && c.from[from] >= limits.AddressConnections: // first: it must cut nobody
		c.refused.WithLabelValues("address").Inc()
		return nil, false
	case c.open >= limits.Connections && (c.open >= limits.Connections+limits.Connections/8 || !c.cut()):
		c.refused.WithLabelValues("all").Inc()
		return nil, false
	}
	c.open++
	if limited {
		c.from[from]++
	} else {
		from = netip.Prefix{}
	}
	return func() { c.closed(from) }, true
}

func (c *connections) closed(from netip.Prefix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if from.IsValid() {
		if c.from[from]--; c.from[from] == 0 {
			delete(c.from, from)
		}
	}
}
