// Package server runs a gateway as a process: its listeners, the admin listener, the store that it opens, reload and drain.
//
//	s, err := server.Listen(ctx, checkedConfig, load, nil, build, logger)
//	err = s.Run(ctx) // serves until ctx ends, then drains
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/framing"
	"billbridge/proxy/relay"
	"billbridge/proxy/rollout"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// A Build says which program this is, for billbridge_build_info and for upstreams.
type Build struct{ Version, Revision, GoVersion string }

// A Server is a gateway and the operator's surface on their listeners.
type Server struct {
	gateway  *proxy.Gateway
	load     func() (*config.Config, error)
	sockets  map[string]net.Listener // that were handed over, by the key of the config, such as admin.listen
	log      *slog.Logger
	partners *http.Server
	operator http.Server
	upstream *http.Server // of the listener for callbacks alone; nil where there is none
	tls      atomic.Pointer[config.KeyPair]
	open     *connections
	serving  atomic.Bool
	surface  atomic.Pointer[http.Handler] // of the admin listener
	ended    chan error                   // what each listener's server ended with
	stepped  atomic.Bool                  // the clock is not the store's, as was last logged

	store  *store.Store // nil where the config has none
	pinger pinger       // of the store

	reported atomic.Bool  // an outage of the store does not make it not ready
	relay    *relay.Relay // nil without a store

	rollout *rollout.Router // nil where the config has none

	reloading sync.Mutex
	config    *config.Config
	drain     time.Duration // how long a drain may take, by any config so far
	reloadOK  prometheus.Gauge
	reloadAt  prometheus.Gauge

	partnersAt, operatorAt, upstreamAt net.Listener // the last is nil where there is none
	partnersNew, upstreamNew           arrivals
}

// Listen takes the addresses of the config and opens its store, so that [Server.Run] serves. load reads the config
// anew at a reload; if it is nil, there is nothing to reload. ctx ends the wait for a store that cannot be reached.
// sockets are listeners that another process opened, by the config key whose address they take the place of: listen,
// admin.listen, callbacks.listen. The server closes them.
//
// The admin listener answers first. Partners' calls are taken only when the store is open: a call that waited in the
// listener would look new when it is read, and its caller may have given up.
func Listen(ctx context.Context, c *config.Config, load func() (*config.Config, error), sockets map[string]net.Listener, build Build, logger *slog.Logger) (_ *Server, err error) {
	s := &Server{load: load, sockets: sockets, log: logger, config: c, ended: make(chan error, 3)}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	registry := prometheus.NewRegistry()
	if err := s.serveOperator(c, registry); err != nil {
		return nil, err
	}
	if err := s.openStore(ctx, c); err != nil {
		return nil, err
	}
	steps := []func() error{
		func() error { return s.openRelayAndRollout(c, registry, build) },
		func() error { return s.takeAddresses(c) },
	}
	if c.Callbacks != nil && c.Callbacks.PublicURL.URL == nil { // a trial: its upstream is in this process, and must know the address
		c = withOwnCallbacks(c)
		s.config = c
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if s.gateway, err = proxy.New(c, proxy.Options{
		Registerer: registry, Logger: logger, UserAgent: userAgent(build), Relay: s.relay, Rollout: s.rollout, AnswerWithin: c.AnswerWithin(),
	}); err != nil {
		return nil, err
	}
	if err := s.describe(registry, build); err != nil {
		return nil, err
	}
	if s.open, err = newConnections(registry); err != nil {
		return nil, err
	}
	s.accepted(c)
	s.prepare(c)
	s.showOperator(c, registry)
	s.serving.Store(true) // the listeners take connections, which Run serves
	return s, nil
}

// withOwnCallbacks is a config whose callbacks section can be completed: that of the caller is not modified.
func withOwnCallbacks(c *config.Config) *config.Config {
	own, callbacks := *c, *c.Callbacks
	own.Callbacks = &callbacks
	return &own
}

// prepare makes the HTTP servers of partners and, where callbacks have a listener of their own, of upstreams.
func (s *Server) prepare(c *config.Config) {
	s.partners = s.newServer(c, s.gateway, c.AnswerWithin())
	if s.upstreamAt != nil {
		s.upstream = s.newServer(c, http.HandlerFunc(s.gateway.AnswerCallback), time.Duration(c.Timeouts.Body)+config.StoreWithin+time.Duration(c.Timeouts.Write))
		s.upstreamNew.watch(s.upstream)
	}
	s.partnersNew.watch(s.partners)
}

func (s *Server) newServer(c *config.Config, handler http.Handler, answerWithin time.Duration) *http.Server {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: time.Duration(c.Timeouts.Header),
		ReadTimeout:       time.Duration(c.Timeouts.Header) + time.Duration(c.Timeouts.Body),
		WriteTimeout:      answerWithin,
		IdleTimeout:       time.Duration(c.Timeouts.Idle),
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // what peers do wrong is no event of ours
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 32, MaxReadFrameSize: 16 << 10, MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 256 << 10},
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(c.TLS != nil) // the listener decrypts; it refuses HTTP/2 in the clear
	return server
}

// framed is a listener that holds connections to the limits and checks the framing of their requests.
func (s *Server) framed(l net.Listener) net.Listener {
	o := framing.Options{
		Lenient: func() bool { return s.open.limits.Load().Framing == config.Lenient },
		Admit:   s.open.admit,
		Refused: func(peer net.Addr, reason string) {
			s.open.framing.WithLabelValues(reason).Inc()
			s.log.Warn("a request was refused: its framing is ambiguous", "reason", reason, "peer", peer.String())
		},
	}
	if s.tls.Load() != nil { // a reload changes its files, but not whether there is one
		o.TLS = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.tls.Load().Certificate()
		}}
	}
	return framing.Listen(l, o)
}

// showOperator completes the admin listener, which has answered while the gateway started.
func (s *Server) showOperator(c *config.Config, registry prometheus.Gatherer) {
	surfaces := map[string]http.Handler{}
	if s.relay != nil {
		surfaces["/callbacks"], surfaces["/store"] = s.relay.Operator(), s.storeOperator()
	}
	if s.rollout != nil {
		surfaces["/rollout"] = s.rollout.Operator()
	}
	handler := Operator(c.Admin.Token, registry, s.ready, s.Reload, surfaces)
	s.surface.Store(&handler)
}

// describe registers what is known of the process itself.
func (s *Server) describe(registry prometheus.Registerer, build Build) error {
	s.reloadOK = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "billbridge_config_last_reload_successful",
		Help: "1 if the config was accepted when it was last read, else 0.",
	})
	s.reloadAt = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "billbridge_config_last_reload_success_timestamp_seconds",
		Help: "When a config was last accepted, in seconds since 1970.",
	})
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "billbridge_build_info", Help: "1, with the build in its labels.",
		ConstLabels: prometheus.Labels{"version": build.Version, "revision": build.Revision, "goversion": build.GoVersion},
	})
	info.Set(1)
	for _, collector := range []prometheus.Collector{
		s.reloadOK, s.reloadAt, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(collector); err != nil {
			return err
		}
	}
	return nil
}

// serveOperator begins to serve the admin listener: while the start waits for its store, it says that it is not ready.
func (s *Server) serveOperator(c *config.Config, registry *prometheus.Registry) (err error) {
	if s.operatorAt, err = s.listener("admin.listen", c.Admin.Listen); err != nil {
		return err
	}
	if at, ok := s.operatorAt.Addr().(*net.TCPAddr); ok && !c.Admin.Token.IsSet() && !at.IP.IsLoopback() {
		return fmt.Errorf("admin.token: a token is needed, since the socket that was handed over is not loopback: %s", at)
	}
	starting := func() error { return errors.New("it starts: the config was just read") }
	handler := Operator(c.Admin.Token, registry, s.ready, starting, nil)
	s.surface.Store(&handler)
	s.operator = http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.surface.Load()).ServeHTTP(w, r) }),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	go func() { s.ended <- s.operator.Serve(s.operatorAt) }()
	return nil
}

// takeAddresses listens, so that what is taken is known before anything else happens.
func (s *Server) takeAddresses(c *config.Config) (err error) {
	if s.partnersAt, err = s.listener("listen", c.Listen); err != nil {
		return err
	}
	if c.Callbacks == nil {
		return nil
	}
	if c.Callbacks.Listen != "" {
		if s.upstreamAt, err = s.listener("callbacks.listen", c.Callbacks.Listen); err != nil {
			return err
		}
	}
	if c.Callbacks.PublicURL.URL == nil { // a trial: its upstream is in this process
		c.Callbacks.PublicURL.URL = &url.URL{Scheme: "http", Host: s.Address()}
	}
	return nil
}

// listener is the socket that was handed over for a key of the config, or else a new one.
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

// release gives back what a start took that did not come to its end.
func (s *Server) release() {
	_ = s.operator.Close()
	for _, l := range []net.Listener{s.partnersAt, s.operatorAt, s.upstreamAt} {
		if l != nil {
			_ = l.Close()
		}
	}
	if s.store != nil {
		_ = s.store.Close()
	}
}

// Address is where partners call, OperatorAddress where the operator does: HOST:PORT as bound.
func (s *Server) Address() string { return s.partnersAt.Addr().String() }

// OperatorAddress is described at [Server.Address].
func (s *Server) OperatorAddress() string { return s.operatorAt.Addr().String() }

// CallbackAddress is where upstreams call if that is a listener of its own, "" otherwise.
func (s *Server) CallbackAddress() string {
	if s.upstreamAt == nil {
		return ""
	}
	return s.upstreamAt.Addr().String()
}

// Run serves until ctx ends, then drains. It is not ready from then on, and serves as before for drain.delay. Then it takes no
// new connection, gives a request that is only half there 5 seconds, and lets every exchange and every attempt to deliver a
// callback under way come to its end, for drain.at_most. The operator's listener closes after the others, and the store last.
func (s *Server) Run(ctx context.Context) error {
	failed := s.ended
	running := 1 // the operator's, since Listen
	var accepting sync.WaitGroup
	serve := func(server *http.Server, at net.Listener) {
		if at == nil {
			return
		}
		running++
		accepting.Go(func() {
			failed <- server.Serve(s.framed(at))
		})
	}
	serve(s.partners, s.partnersAt)
	serve(s.upstream, s.upstreamAt)
	deliver, stop := context.WithCancel(context.WithoutCancel(ctx)) // until the drain begins, after its delay
	defer stop()
	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		if s.relay != nil {
			s.relay.Run(deliver)
		}
	}()
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		var all sync.WaitGroup
		if s.rollout != nil {
			all.Go(func() { s.rollout.Run(deliver) })
		}
		if s.store != nil {
			all.Go(func() { s.runClock(deliver) })
		}
		all.Wait()
	}()

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		running--
	}
	s.serving.Store(false)
	s.gateway.Leave()
	s.reloading.Lock()
	delay := time.Duration(s.config.Drain.Delay)
	s.reloading.Unlock()
	if err == nil && delay > 0 {
		s.log.Info("not ready, serving until the drain begins", "delay", delay.String())
		select {
		case <-time.After(delay):
		case err = <-failed:
			running--
		}
	}
	stop()
	s.reloading.Lock()
	within := s.drain
	s.reloading.Unlock()
	s.log.Info("draining", "at_most", within.String())
	s.gateway.Drain()
	for _, l := range []net.Listener{s.partnersAt, s.upstreamAt} {
		if l != nil {
			_ = l.Close()
		}
	}
	accepting.Wait() // every connection that was accepted is known from here on
	drain, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	awaitArrivals(drain, &s.partnersNew, &s.upstreamNew)
	for _, server := range []*http.Server{s.partners, s.upstream} {
		if server == nil {
			continue
		}
		if stopped := server.Shutdown(drain); !errors.Is(stopped, net.ErrClosed) { // the listener was closed above
			err = errors.Join(err, stopped)
		}
	}
	select {
	case <-delivered:
	case <-drain.Done():
	}
	err = errors.Join(err, s.operator.Shutdown(drain))
	for ; running > 0; running-- {
		if stopped := <-failed; !errors.Is(stopped, http.ErrServerClosed) && !errors.Is(stopped, net.ErrClosed) {
			err = errors.Join(err, stopped)
		}
	}
	<-followed // they ask the store alone, which waits for nothing long
	if s.rollout != nil {
		err = errors.Join(err, s.rollout.Close(drain))
	}
	s.gateway.Close()
	if s.store != nil {
		err = errors.Join(err, s.store.Close())
	}
	return err
}

func userAgent(b Build) string { return "billbridge/" + cmp.Or(b.Version, "unknown") }
