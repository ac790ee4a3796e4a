// Package server runs a gateway as a process: it opens the listeners and the store, serves the admin listener, reloads
// the config and drains.
//
//	s, err := server.Listen(ctx, checkedConfig, load, nil, build, logger)
//	err = s.Run(ctx) // serves until ctx ends, then drains
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/accesslog"
	"billbridge/proxy/console"
	"billbridge/proxy/framing"
	"billbridge/proxy/operate"
	"billbridge/proxy/relay"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// A Build identifies the program, in billbridge_build_info and in the User-Agent towards upstreams.
type Build struct {
	Version, Revision, GoVersion string
	Demo                         bool   // the console says on each page that it shows a demo
	Host                         string // the name of the machine
}

// String names the program and its version.
func (b Build) String() string {
	return fmt.Sprintf("billbridge %s, commit %s, %s", b.Version, b.Revision, b.GoVersion)
}

// short is the version, and the commit as people write it.
func (b Build) short() string { return b.Version + ", commit " + b.Revision[:min(len(b.Revision), 12)] }

// nameAt is the name of a gateway among those of its store: its machine, and the port of its admin listener, as
// Prometheus may call it, too.
func (b Build) nameAt(admin string) string {
	_, port, _ := net.SplitHostPort(admin)
	return b.Host + ":" + port
}

// A Server is a gateway and its listeners.
type Server struct {
	load     func() (*config.Config, error)
	sockets  map[string]net.Listener // opened by another process, by config key
	log      *slog.Logger
	build    Build
	registry *prometheus.Registry

	parts
	adminSide
	endpoints   []*endpoint // that of partners and, if callbacks have a listener of their own, that of callbacks
	serveErrors chan error  // one from each server, when it ends
	serving     atomic.Bool // a part of readiness
	open        *connections
	errors      *serverErrors

	reloads
}

// parts are what the server runs.
type parts struct {
	gateway  *proxy.Gateway
	store    *store.Store // nil if the config has none
	pinger   pinger
	clock    storeClock
	relay    *relay.Relay    // nil without a store
	rollout  *routing.Router // nil if the config has none
	operator *operate.Operator
	console  *console.Console
}

// reloads are what a reload changes.
type reloads struct {
	current      atomic.Pointer[config.Config]
	reloading    sync.Mutex    // held by a reload
	drainTimeout time.Duration // the longest of all configs so far; guarded by reloading
	reloadOK     prometheus.Gauge
	reloadAt     prometheus.Gauge
}

// An endpoint is a listener for partners or callbacks, and its server.
type endpoint struct {
	listener net.Listener
	server   *http.Server
	conns    unusedConns
}

// Listen opens the listeners and the store of the config; [Server.Run] then serves. load reads the config again for a
// reload; if load is nil, there is no reload. ctx ends the wait for an unreachable store. Without callbacks.public_url,
// as in a trial whose upstream is in this process, Listen sets it to the listener's address.
//
// sockets are listeners that another process opened. A key is the config key whose address the listener replaces:
// listen, admin.listen or callbacks.listen. The server closes them.
//
// The admin listener serves first. The partners' listener opens after the store: a call that waited in its socket would
// look new although its caller may have given up.
func Listen(
	ctx context.Context, c *config.Config, load func() (*config.Config, error), sockets map[string]net.Listener,
	build Build, logger *slog.Logger,
) (_ *Server, err error) {
	s := &Server{
		load: load, sockets: sockets, log: logger, build: build, registry: prometheus.NewRegistry(),
		serveErrors: make(chan error, 3),
	}
	s.current.Store(c)
	defer func() {
		if err != nil {
			s.closeAll()
		}
	}()
	s.registerMetrics(c)
	err = run(ctx, c, []step{
		s.startAdmin, s.openStore, s.listenFirst, s.openRelayAndRollout, s.openEndpoints, s.newGateway, s.completeAdmin,
	})
	if err != nil {
		return nil, err
	}
	s.serving.Store(true) // the listeners accept connections, and Run serves them
	return s, nil
}

// A step is a part of the start or of a reload with a config.
type step = func(context.Context, *config.Config) error

// run makes steps until one fails.
func run(ctx context.Context, c *config.Config, steps []step) error {
	for _, step := range steps {
		if err := step(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// listenFirst opens the partners' listener before the relay, which needs its address if the config has none.
func (s *Server) listenFirst(_ context.Context, c *config.Config) error {
	if c.Callbacks == nil || c.Callbacks.PublicURL.URL != nil {
		return nil
	}
	err := s.addEndpoint("listen", c.Listen)
	if err == nil {
		c.Callbacks.PublicURL.URL = &url.URL{Scheme: "http", Host: s.Address()}
	}
	return err
}

// openEndpoints opens the listeners for partners and callbacks.
func (s *Server) openEndpoints(_ context.Context, c *config.Config) (err error) {
	if len(s.endpoints) == 0 {
		err = s.addEndpoint("listen", c.Listen)
	}
	if err == nil && c.Callbacks != nil && c.Callbacks.Listen != "" {
		err = s.addEndpoint("callbacks.listen", c.Callbacks.Listen)
	}
	return err
}

// newGateway creates the gateway, the servers of the endpoints, and the operator.
func (s *Server) newGateway(ctx context.Context, c *config.Config) (err error) {
	s.gateway, err = proxy.New(c, proxy.Options{
		Registerer: s.registry, Logger: s.log, UserAgent: s.build.userAgent(),
		Store: s.store, Relay: s.relay, Rollout: s.rollout,
		AnswerWithin: c.AnswerWithin(),
		Finished:     func(f *proxy.Finished) { s.console.Finished(f) },
	})
	if err != nil {
		return err
	}
	s.open.cut = s.gateway.CutOldest
	s.operator = operate.New(operate.Options{
		Config: s.gateway.Config, Store: s.store, Rollout: s.rollout, Relay: s.relay, ReadBill: s.gateway.ReadBill,
		CompareBill: s.gateway.CompareBill,
		Knows:       s.gateway.Knows,
		Opened:      s.gateway.Opened,
		Registerer:  s.registry,
		Logger:      s.log,
		Version:     s.build.String(),
		Gateway:     operate.Gateway{Name: s.build.nameAt(s.AdminAddress()), Version: s.build.short()},
		Tick:        func(ctx context.Context) { _ = s.clock.tick(ctx) }, // a failure is logged by the next tick
	})
	s.startKeys(ctx, c)
	s.apply(c)
	s.announce(ctx)
	for i, e := range s.endpoints {
		e.listener = s.framed(e.listener)
		e.server = s.newServer(c, s.gateway, c.AnswerWithin())
		if i > 0 {
			callbacksWithin := c.Timeouts.Body + config.StoreTimeout + c.Timeouts.Write
			e.server = s.newServer(c, http.HandlerFunc(s.gateway.AnswerCallback), callbacksWithin)
		}
		e.conns.track(e.server)
	}
	return nil
}

func (s *Server) newServer(c *config.Config, handler http.Handler, answerWithin time.Duration) *http.Server {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: c.Timeouts.Header,
		ReadTimeout:       c.Timeouts.Header + c.Timeouts.Body,
		WriteTimeout:      answerWithin,
		IdleTimeout:       c.Timeouts.Idle,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          s.errors.logger(),
		Protocols:         new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 32, MaxReadFrameSize: 16 << 10,
			MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 256 << 10,
		},
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(c.TLS != nil) // the listener decrypts, and refuses HTTP/2 without TLS
	return server
}

// framed wraps a listener. It limits the connections, and checks the framing of their requests.
func (s *Server) framed(l net.Listener) net.Listener {
	o := framing.Options{
		Admit: s.open.admit,
		// Long enough for a client that makes one call after the other.
		IdleAfter: 5 * time.Second,
		Refused: func(peer net.Addr, reason string) {
			s.open.framing.WithLabelValues(reason).Inc()
			text := "a request was refused: its framing is ambiguous"
			if reason == framing.ProxyProtocol {
				text = "a connection was refused: a header of the PROXY protocol is not read; turn it off in the " +
					"load balancer (proxy_protocol, send-proxy), let it set X-Forwarded-For, and name it in " +
					"limits.trusted_proxies"
			}
			s.log.Warn(text, "reason", reason, "peer", peer.String())
		},
	}
	if s.current.Load().TLS != nil { // a reload can change the files, but not turn TLS on or off
		o.TLS = s.withCertificate(func(c *config.Config) *config.KeyPair { return c.TLS })
		o.Failed = s.failedHandshake
	}
	return framing.Listen(l, o)
}

// withCertificate returns a TLS configuration with a pair of the current config.
func (s *Server) withCertificate(of func(*config.Config) *config.KeyPair) *tls.Config {
	return &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return of(s.current.Load()).Certificate()
	}}
}

// limits returns those of the current config.
func (s *Server) limits() *config.Limits { return &s.current.Load().Limits }

// registerMetrics registers the metrics that need no store: of reloads, build, log, Go runtime, tokens and
// connections.
func (s *Server) registerMetrics(c *config.Config) {
	with := promauto.With(s.registry)
	s.reloadOK = with.NewGauge(prometheus.GaugeOpts{
		Name: "billbridge_config_last_reload_successful",
		Help: "Whether the last attempt to load the config succeeded: 1 if yes, 0 if not.",
	})
	s.reloadAt = with.NewGauge(prometheus.GaugeOpts{
		Name: "billbridge_config_last_reload_success_timestamp_seconds",
		Help: "Unix time of the last successful load of the config.",
	})
	with.NewGauge(prometheus.GaugeOpts{
		Name: "billbridge_build_info", Help: "Always 1. The labels identify the build.",
		ConstLabels: prometheus.Labels{
			"version": s.build.Version, "revision": s.build.Revision, "goversion": s.build.GoVersion,
		},
	}).Set(1)
	s.reloadOK.Set(1) // apply sets both again
	s.reloadAt.SetToCurrentTime()
	s.tokens = newTokens(&c.Admin, s.limits, s.log, s.registry)
	s.open, s.errors = newConnections(s.limits, s.registry), newServerErrors(s.log, s.registry)
	lost, panics := accesslog.Counters(s.log)
	s.registry.MustRegister(lost, panics,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// counters registers a counter for each value of a label.
func counters(to prometheus.Registerer, name, help, label string, values ...string) *prometheus.CounterVec {
	c := promauto.With(to).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, value := range values {
		c.WithLabelValues(value)
	}
	return c
}

// addEndpoint opens a listener for partners or callbacks.
func (s *Server) addEndpoint(key, address string) error {
	l, err := s.listener(key, address)
	if err == nil {
		s.endpoints = append(s.endpoints, &endpoint{listener: l})
	}
	return err
}

// listener returns the socket that another process opened for a config key, or else opens one.
func (s *Server) listener(key, address string) (net.Listener, error) {
	if l := s.sockets[key]; l != nil {
		return l, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return l, nil
}

// closeAll closes what a failed start has opened.
func (s *Server) closeAll() {
	_ = s.adminServer.Close()
	s.tokens.guesses.Close()
	if s.adminListener != nil {
		_ = s.adminListener.Close()
	}
	for _, e := range s.endpoints {
		_ = e.listener.Close()
	}
	if s.store != nil {
		_ = s.store.Close()
	}
}

// announce tells other gateways what this one is.
func (s *Server) announce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := s.operator.Announce(ctx); err != nil {
		s.log.Warn("other gateways may show an old state of this one; it tries again every minute",
			"error", err.Error())
	}
}

// Address returns the address of the listener for partners as HOST:PORT.
func (s *Server) Address() string { return s.endpoints[0].listener.Addr().String() }

// AdminAddress returns the address of the admin listener as HOST:PORT.
func (s *Server) AdminAddress() string { return s.adminListener.Addr().String() }

// CallbackAddress returns the address of the listener for callbacks as HOST:PORT, or "" if they have none of their own.
func (s *Server) CallbackAddress() string {
	if len(s.endpoints) < 2 {
		return ""
	}
	return s.endpoints[1].listener.Addr().String()
}

func (b Build) userAgent() string { return "billbridge/" + cmp.Or(b.Version, "unknown") }
