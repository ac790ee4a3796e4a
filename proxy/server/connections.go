package server

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"billbridge/config"
	"billbridge/proxy/framing"

	"github.com/prometheus/client_golang/prometheus"
)

// connections are the connections of partners and of upstreams that call back: how many are open, how many may be, and which were
// refused. It is safe for concurrent use.
type connections struct {
	limits atomic.Pointer[config.Limits]

	mu   sync.Mutex
	open int
	from map[netip.Addr]int // by source address; trusted addresses are not counted

	gauge   prometheus.GaugeFunc
	refused *prometheus.CounterVec // of connections
	framing *prometheus.CounterVec // of requests
}

// newConnections registers its metrics.
func newConnections(registry prometheus.Registerer) (*connections, error) {
	c := &connections{from: map[netip.Addr]int{}}
	c.gauge = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "billbridge_connections", Help: "Connections of partners, and of upstreams that call back, that are open.",
	}, func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return float64(c.open)
	})
	c.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "billbridge_connections_refused_total",
		Help: "Connections that were closed at once: too many are open (limit all), or too many from one source address (limit address).",
	}, []string{"limit"})
	c.framing = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "billbridge_framing_refused_total",
		Help: "Requests that were refused with 400 because two servers could disagree about where they end, by reason.",
	}, []string{"reason"})
	for _, limit := range []string{"all", "address"} {
		c.refused.WithLabelValues(limit)
	}
	for _, reason := range framing.Reasons {
		c.framing.WithLabelValues(reason)
	}
	for _, collector := range []prometheus.Collector{c.gauge, c.refused, c.framing} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// admit counts a connection, unless it is one too many. release must be called when it has been closed.
func (c *connections) admit(peer net.Addr) (release func(), ok bool) {
	limits, from := c.limits.Load(), addressOf(peer)
	trusted := slices.ContainsFunc(limits.Trusted, func(n config.Network) bool { return n.Contains(from) })
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.open >= limits.Connections:
		c.refused.WithLabelValues("all").Inc()
		return nil, false
	case !trusted && c.from[from] >= limits.AddressConnections:
		c.refused.WithLabelValues("address").Inc()
		return nil, false
	}
	c.open++
	if trusted {
		return func() { c.closed(netip.Addr{}) }, true
	}
	c.from[from]++
	return func() { c.closed(from) }, true
}

func (c *connections) closed(from netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if from.IsValid() {
		if c.from[from]--; c.from[from] == 0 {
			delete(c.from, from)
		}
	}
}

// addressOf is the source address of a peer; the zero address where it has none.
func addressOf(peer net.Addr) netip.Addr {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}
