// Package proxy is the gateway: partners call it in one form of the billing interface, and it calls a billing
// backend, the upstream, in the same form or the other.
//
//	gateway, err := proxy.New(checkedConfig, proxy.Options{Registerer: registry, Logger: logger})
//	http.ListenAndServe("127.0.0.1:8080", gateway)
//
// A [Gateway] is an http.Handler; everything it knows of the two forms is in the table of package translate.
// One request is one exchange, from beginning to end in exchange.go. Package proxy/server puts the gateway and the operator's
// surface on their listeners, reloads and drains.
//
// Whatever fails is answered in the form the caller spoke. A write whose outcome is not known is never answered
// with a code that a client could read, and never with HTTP 200: careful clients then read the bill.
package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/config"
	"billbridge/proxy/relay"
	"billbridge/proxy/rollout"

	"github.com/prometheus/client_golang/prometheus"
)

// Options are what a gateway takes from its surroundings.
type Options struct {
	Registerer prometheus.Registerer // if nil, the metrics are kept but nobody sees them
	Logger     *slog.Logger          // of the access log; if nil, nothing is logged
	UserAgent  string                // towards upstreams; if empty, "billbridge"
	Relay      *relay.Relay          // if nil, callback addresses are left alone
	Rollout    *rollout.Router       // if nil, calls go where the config's route says

	// AnswerWithin is the deadline that the listener has set for every answer; 0 if none. A config that needs longer moves it.
	AnswerWithin time.Duration
}

// A Gateway carries calls between partners and upstreams. It is safe for concurrent use.
type Gateway struct {
	current   atomic.Pointer[state]
	using     sync.Mutex // one at a time replaces current
	metrics   *metrics
	log       *slog.Logger
	userAgent string
	rollout   *rollout.Router
	callers   callers      // of whom the rollout was asked
	relay     *relay.Relay // nil: callbacks are none of our business

	memory memory // of the bodies of requests

	draining context.Context // ends when the gateway takes no more calls
	drain    context.CancelFunc
	leaving  atomic.Bool // every answer closes its connection, so that callers open the next one elsewhere

	answerWithin time.Duration // the deadline that the listener has set for every answer; 0 if none
}

// New makes a gateway that serves by the config.
func New(c *config.Config, o Options) (*Gateway, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.UserAgent == "" {
		o.UserAgent = "billbridge"
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	if c.Callbacks != nil && o.Relay == nil {
		return nil, errors.New("the config relays callbacks, and there is no relay")
	}
	if c.Rollout != nil && o.Rollout == nil {
		return nil, errors.New("the config has a rollout, and there is no router")
	}
	draining, drain := context.WithCancel(context.Background())
	g := &Gateway{draining: draining, drain: drain, metrics: m, log: o.Logger, userAgent: o.UserAgent, relay: o.Relay, rollout: o.Rollout, answerWithin: o.AnswerWithin}
	g.memory.held, g.memory.refused = m.held, m.noMemory
	g.Use(c)
	if g.rollout != nil {
		g.rollout.LookWith(g.look)
	}
	return g, nil
}

// Use replaces the config, that of the relay included. Exchanges under way end by the config they began with; connections to upstreams
// whose section did not change are kept.
func (g *Gateway) Use(c *config.Config) {
	g.using.Lock()
	defer g.using.Unlock()
	old := g.current.Load()
	next := newState(c, old, g.metrics, g.userAgent)
	if g.relay != nil {
		g.relay.Use(c) // first: it binds addresses of those upstreams alone that its config has
	}
	if g.rollout != nil && c.Rollout != nil {
		g.rollout.Use(c)
	}
	g.memory.most.Store(int64(c.Limits.Memory))
	g.current.Store(next)
	if old != nil {
		old.retire(next)
	}
}

// Close gives up the idle connections to upstreams.
func (g *Gateway) Close() {
	for _, u := range g.current.Load().upstreams {
		u.transport.CloseIdleConnections()
	}
}

// ServeHTTP answers one call of a partner, or one callback of an upstream.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.relay != nil && relay.Owns(r.URL.EscapedPath()) {
		g.AnswerCallback(w, r)
		return
	}
	x := newExchange(g, w, r)
	defer x.finish()
	x.serve()
}
