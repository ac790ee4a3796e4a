package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/config"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// A Build says which program this is, for billbridge_build_info and for upstreams.
type Build struct{ Version, Revision, GoVersion string }

// A Server is a gateway and the operator's surface on their listeners.
type Server struct {
	gateway  *Gateway
	load     func() (*config.Config, error)
	log      *slog.Logger
	partners http.Server
	operator http.Server
	tls      atomic.Pointer[config.KeyPair]
	ready    atomic.Bool

	reloading sync.Mutex
	config    *config.Config
	drain     time.Duration // how long a drain may take, by any config so far
	reloadOK  prometheus.Gauge
	reloadAt  prometheus.Gauge

	partnersAt, operatorAt net.Listener
}

// drainWithin is how long a drain may take: a body that is still coming in, the longest call, and a moment for the
// answer to be written. A write that is cut off has an unknown outcome, so this is long rather than short.
func drainWithin(c *config.Config) time.Duration {
	return time.Duration(c.Timeouts.Body) + c.Upstreams.LongestTimeout() + 5*time.Second
}

// Listen takes the two addresses of the config, so that [Server.Run] serves on them. load reads the config anew
// at a reload; if it is nil, there is nothing to reload.
func Listen(c *config.Config, load func() (*config.Config, error), build Build, logger *slog.Logger) (*Server, error) {
	registry := prometheus.NewRegistry()
	gateway, err := New(c, Options{Registerer: registry, Logger: logger, UserAgent: "billbridge/" + build.Version})
	if err != nil {
		return nil, err
	}
	s := &Server{gateway: gateway, load: load, log: logger, config: c}
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
			return nil, err
		}
	}
	s.accepted(c)

	gateway.answerWithin = answerWithin(c)
	t := c.Timeouts
	quiet := slog.NewLogLogger(logger.Handler(), slog.LevelDebug) // what peers do wrong is no event of ours
	s.partners = http.Server{
		Handler:           gateway,
		ReadHeaderTimeout: time.Duration(t.Header),
		ReadTimeout:       time.Duration(t.Header) + time.Duration(t.Body),
		WriteTimeout:      answerWithin(c),
		IdleTimeout:       time.Duration(t.Idle),
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          quiet,
	}
	if c.TLS != nil {
		s.partners.TLSConfig = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.tls.Load().Certificate()
		}}
	}
	s.operator = http.Server{
		Handler:           Operator(c.Admin.Token, registry, s.ready.Load, s.Reload),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: quiet,
	}
	if s.partnersAt, err = net.Listen("tcp", c.Listen); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if s.operatorAt, err = net.Listen("tcp", c.Admin.Listen); err != nil {
		_ = s.partnersAt.Close()
		return nil, fmt.Errorf("admin.listen: %w", err)
	}
	return s, nil
}

// Address is where partners call, OperatorAddress where the operator does: HOST:PORT as bound.
func (s *Server) Address() string { return s.partnersAt.Addr().String() }

// OperatorAddress is described at [Server.Address].
func (s *Server) OperatorAddress() string { return s.operatorAt.Addr().String() }

// Run serves until ctx ends, then drains: it is no more ready, takes no new connection, and lets every exchange
// under way come to its end, for longer than the longest call can take. The operator's listener closes last.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 2)
	go func() {
		if s.partners.TLSConfig != nil {
			failed <- s.partners.ServeTLS(s.partnersAt, "", "")
			return
		}
		failed <- s.partners.Serve(s.partnersAt)
	}()
	go func() { failed <- s.operator.Serve(s.operatorAt) }()
	s.ready.Store(true)

	var err error
	running := 2
	select {
	case <-ctx.Done():
	case err = <-failed:
		running--
	}
	s.ready.Store(false)
	s.reloading.Lock()
	within := s.drain
	s.reloading.Unlock()
	s.log.Info("draining", "at_most", within.String())
	drain, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	err = errors.Join(err, s.partners.Shutdown(drain), s.operator.Shutdown(drain))
	for ; running > 0; running-- {
		if stopped := <-failed; !errors.Is(stopped, http.ErrServerClosed) {
			err = errors.Join(err, stopped)
		}
	}
	s.gateway.Close()
	return err
}

// Reload reads the config anew and serves by it from the next request on. A bad one is refused and the good
// one stays. What is bound to a listener needs a restart, and saying so beats ignoring it.
func (s *Server) Reload() error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if s.load == nil {
		s.log.Warn("nothing to reload: there is no config file")
		return errors.New("there is no config file to read again")
	}
	c, err := s.load()
	if err == nil {
		err = s.bound(c)
	}
	if err != nil {
		s.reloadOK.Set(0)
		s.log.Error("config not reloaded, the last good one stays", "error", err.Error())
		return err
	}
	s.gateway.Use(c)
	s.config = c
	s.accepted(c)
	s.log.Info("config reloaded")
	return nil
}

func (s *Server) accepted(c *config.Config) {
	s.tls.Store(c.TLS)
	s.drain = max(s.drain, drainWithin(c)) // an exchange under way ends by the config it began with
	s.reloadOK.Set(1)
	s.reloadAt.SetToCurrentTime()
}

// bound refuses what only a restart can change.
func (s *Server) bound(c *config.Config) error {
	for _, b := range []struct {
		key     string
		changed bool
	}{
		{"listen", c.Listen != s.config.Listen},
		{"admin.listen", c.Admin.Listen != s.config.Admin.Listen},
		{"admin.token", c.Admin.Token.Reveal() != s.config.Admin.Token.Reveal()},
		{"tls", (c.TLS == nil) != (s.config.TLS == nil)},
		{"timeouts", c.Timeouts != s.config.Timeouts},
	} {
		if b.changed {
			return fmt.Errorf("%s has changed: restart to change it", b.key)
		}
	}
	return nil
}
