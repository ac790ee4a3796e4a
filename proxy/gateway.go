// Package proxy is the gateway. Partners call it in one form of the billing interface, and it calls a billing
// backend, the upstream, in the same form or the other.
//
//	gateway, err := proxy.New(checkedConfig, proxy.Options{Registerer: registry, Logger: logger})
//	http.ListenAndServe("127.0.0.1:8080", gateway)
//
// A [Gateway] is an http.Handler. The two forms are defined by the table of package translate. One request is one
// exchange (serve.go). Package proxy/server opens the listeners, serves the admin listener, reloads and drains.
//
// Every failure is answered in the form of the caller. The answer to a write with an unknown outcome has no code
// that a client could read as a refusal, and is never HTTP 200, so that careful clients read the bill.
package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/config"
	"billbridge/proxy/accesslog"
	"billbridge/proxy/admission"
	"billbridge/proxy/partner"
	"billbridge/proxy/relay"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
	"billbridge/translate"

	"github.com/prometheus/client_golang/prometheus"
)

// Options are the dependencies and settings of a gateway.
type Options struct {
	Registerer prometheus.Registerer // if nil, the metrics are not exposed
	Logger     *slog.Logger          // if nil, nothing is logged
	UserAgent  string                // towards upstreams; "billbridge" if empty
	Store      *store.Store          // says which keys are of one partner; if nil, the config does
	Relay      *relay.Relay          // if nil, callback addresses are not replaced
	Rollout    *routing.Router       // if nil, the config's route alone determines the upstream

	// Finished, if not nil, is called with every exchange that has ended. It must not wait. What it gets is valid
	// during the call only.
	Finished func(*Finished)

	// AnswerWithin is the write timeout of the listener; 0 if it has none. The gateway extends it for a config that
	// needs more.
	AnswerWithin time.Duration
}

// A Gateway carries calls from partners to upstreams, and the replies back. It is safe for concurrent use.
type Gateway struct {
	current   atomic.Pointer[state]
	using     sync.Mutex // serializes Use
	metrics   *metrics
	log       *slog.Logger
	storeLog  *slog.Logger // for errors of the store, which each call can repeat
	callLog   *slog.Logger // for what is odd in a call, and in all calls of a program
	userAgent string
	store     *store.Store    // may be nil
	rollout   *routing.Router // may be nil
	partners  knownPartners   // the partners whose calls the rollout has routed
	relay     *relay.Relay    // may be nil
	finished  func(*Finished) // may be nil

	admission *admission.Admission

	keepAlives keepAlives

	answerWithin time.Duration // see Options
}

// New returns a gateway that serves according to the config. It panics if o.Registerer has the metrics of another one.
func New(c *config.Config, o Options) (*Gateway, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.UserAgent == "" {
		o.UserAgent = "billbridge"
	}
	m := newMetrics(o.Registerer)
	if c.Callbacks != nil && o.Relay == nil {
		return nil, errors.New("the config has a callbacks section, but Options.Relay is nil")
	}
	if c.Rollout != nil && o.Rollout == nil {
		return nil, errors.New("the config has a rollout section, but Options.Rollout is nil")
	}
	g := &Gateway{
		metrics: m, userAgent: o.UserAgent, admission: admission.New(o.Registerer, o.Logger, store.UnprovenRows),
		log: o.Logger, storeLog: accesslog.Limited(o.Logger, time.Second),
		callLog: accesslog.Limited(o.Logger, time.Minute),
		store:   o.Store, relay: o.Relay, rollout: o.Rollout, finished: o.Finished,
		answerWithin: o.AnswerWithin,
		partners:     knownPartners{byID: map[partner.ID]routing.Credentials{}},
	}
	g.keepAlives.within(c.Timeouts.Idle) // a reload cannot change it
	g.Use(c)
	if o.Registerer != nil {
		return g, o.Registerer.Register(prometheus.CollectorFunc(func(to chan<- prometheus.Metric) {
			g.current.Load().collect(to)
		}))
	}
	return g, nil
}

// Use replaces the config, also that of the relay and the rollout. Running exchanges keep the config that they began
// with. Connections to an upstream are kept if its section did not change.
func (g *Gateway) Use(c *config.Config) {
	g.using.Lock()
	defer g.using.Unlock()
	old := g.current.Load()
	next := newState(c, old, g.metrics, g.userAgent, g.log)
	if g.relay != nil {
		g.relay.Use(c) // before current changes: the relay accepts only addresses of upstreams in its config
	}
	if g.rollout != nil && c.Rollout != nil {
		g.rollout.Use(c)
	}
	g.admission.Use(&c.Limits)
	g.current.Store(next)
	if old != nil {
		old.retire(next, g.metrics)
	}
}

// CutOldest ends the request whose body has been arriving for the longest time, and its connection, so that another one
// can take its place. It returns false if there is none.
func (g *Gateway) CutOldest() bool { return g.admission.CutOldest() }

// Close closes the idle connections to upstreams.
func (g *Gateway) Close() {
	for _, u := range g.current.Load().upstreams {
		u.CloseIdle()
	}
}

// survives does something that must not take away an answer, which net/http may still hold. It reports whether that
// ended without a panic.
func (g *Gateway) survives(id string, do func()) (ok bool) {
	defer func() {
		if panicked := recover(); panicked != nil {
			g.logPanic(id, panicked)
		}
	}()
	do()
	return true
}

// logPanic logs the type of a panic's value and the stack, but not the value, which may contain a part of a body.
func (g *Gateway) logPanic(id string, panicked any) {
	g.log.Error("panic", "id", id, "type", fmt.Sprintf("%T", panicked), "stack", string(debug.Stack()))
}

// storeError logs an error of the store, if there is one.
func (g *Gateway) storeError(id, what string, err error) {
	if err != nil {
		g.storeLog.Error(what, "id", id, "error", err.Error())
	}
}

// NeedsTLS returns the answer to a request without TLS. It is in both forms: the path of the request is not known.
func (g *Gateway) NeedsTLS() string {
	c := g.current.Load().config
	text := tell("https").in(c.Failures.Language, c.Table)
	return string(c.Table.FailureInBoth(c.Table.Own[translate.OwnFailed], text))
}

// Drain gives bodies that are still being read [admission.PartialRequestTimeout] to arrive.
func (g *Gateway) Drain() { g.admission.Drain() }

// DisableKeepAlives makes every answer close its connection from now on, so that callers connect to another gateway.
func (g *Gateway) DisableKeepAlives() { g.keepAlives.closed.Store(true) }
