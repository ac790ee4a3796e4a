package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/relay"
	"billbridge/proxy/rollout"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
)

// askAgain is how often a start looks whether PostgreSQL can be reached.
const askAgain = time.Second

// openStore opens the store of the config, and waits for a PostgreSQL that cannot be reached: its server may start with this
// one. Any other error ends the start at once.
func (s *Server) openStore(ctx context.Context, c *config.Config) error {
	within := time.Duration(c.Store.Wait)
	began := time.Now()
	for try := 0; ; try++ {
		opening, cancel := context.WithTimeout(ctx, 30*time.Second)
		opened, err := store.Open(opening, c.Store.URL.Reveal())
		cancel()
		switch {
		case err == nil:
			s.use(opened)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !store.Unreachable(err):
			return err
		case time.Since(began) >= within:
			return fmt.Errorf("%w (waited %s, store.wait)", err, within)
		case try == 0:
			s.log.Warn("the store cannot be reached; the start waits for it and is not ready", "at_most", within.String(), "error", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(askAgain, within)):
		}
	}
}

func (s *Server) use(opened *store.Store) {
	s.store, s.pinger = opened, pinger{store: opened, log: s.log}
}

// openRelayAndRollout opens what works on the store: the relay, and the rollout where the config has one.
func (s *Server) openRelayAndRollout(c *config.Config, registry prometheus.Registerer, build Build) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if s.store != nil {
		if err := errors.Join(s.watchClock(ctx, registry), registry.Register(s.storeUp())); err != nil {
			return err
		}
		if err := s.reconcile(c); err != nil {
			return err
		}
		if s.relay, err = relay.New(c, relay.Options{Store: s.store, Registerer: registry, Logger: s.log, UserAgent: userAgent(build)}); err != nil {
			return err
		}
	}
	if c.Rollout != nil {
		s.rollout, err = rollout.New(ctx, c, rollout.Options{Store: s.store, Registerer: registry, Logger: s.log})
	}
	return err
}

// reconcile refuses a config that drops an upstream which callbacks are still expected of, gives its name to another, or
// gives it an address at which its bills may not be.
func (s *Server) reconcile(c *config.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	list := make([]store.Upstream, len(c.Upstreams))
	for i, u := range c.Upstreams {
		list[i] = store.Upstream{Name: u.Name, Form: string(u.Form), URL: u.Address.String()}
	}
	sides := store.Sides{Alone: c.Route.Default}
	if c.Rollout != nil {
		sides = store.Sides{Old: c.Rollout.Old, New: c.Rollout.New, Shared: c.Rollout.Bills == config.Shared, Staying: []string{"old", "shadow"}}
	}
	// Both may refuse the config, and what one notes the other must not find when it does: so the sides are looked at first,
	// and noted last.
	look := sides
	look.Look = true
	if err := s.store.Sides(ctx, look, time.Now()); err != nil {
		return err
	}
	routed := c.Rollout != nil && c.Rollout.Bills == config.Separate
	moved, err := s.store.Reconcile(ctx, list, routed, time.Now())
	for _, was := range moved {
		s.log.Warn("the address of an upstream has changed; bills and callback addresses of it are in the store",
			"upstream", was.Name, "was", was.URL, "is", c.Upstreams.Find(was.Name).Address.String())
	}
	if err != nil {
		return err
	}
	return s.store.Sides(ctx, sides, time.Now())
}

// ready looks at what /-/ready depends on: the listeners and, while they serve, the store.
func (s *Server) ready() []Check {
	if !s.serving.Load() {
		return []Check{{Name: "serving", Problem: "the gateway starts, waits for its store, or drains"}}
	}
	checks := []Check{{Name: "serving"}}
	if s.store != nil {
		c := Check{Name: "store", Reported: s.gateway.current.Load().config.Ready.Store == config.Reported}
		if c.Detail = s.pinger.ping(); c.Detail != nil {
			c.Problem = "the store cannot be written to"
		}
		checks = append(checks, c)
	}
	return checks
}

// A pinger writes to the store to see whether that works, at most once a second however many ask. It is safe for concurrent use.
type pinger struct {
	store *store.Store
	log   *slog.Logger

	mu      sync.Mutex
	running chan struct{} // closed when the ping under way ends; nil if there is none
	at      time.Time     // of the last result
	err     error         // the last result
}

// A ping may take pingWithin. Who asks waits for pingPatience: a probe of Kubernetes has one second.
const (
	pingWithin   = 2 * time.Second
	pingPatience = 500 * time.Millisecond
)

var errNoPing = errors.New("the store has not answered for " + pingPatience.String())

// ping returns a result that is at most a second old.
func (p *pinger) ping() error {
	p.mu.Lock()
	if time.Since(p.at) < time.Second {
		defer p.mu.Unlock()
		return p.err
	}
	if p.running == nil {
		p.running = make(chan struct{})
		go p.run(p.running)
	}
	running := p.running
	p.mu.Unlock()
	select {
	case <-running:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.err
	case <-time.After(pingPatience):
		return errNoPing
	}
}

// run logs when the store begins to fail and when it works again.
func (p *pinger) run(ended chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), pingWithin)
	defer cancel()
	err := p.store.Ping(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil && p.err == nil:
		p.log.Error("the store cannot be written to", "error", err.Error())
	case err == nil && p.err != nil:
		p.log.Info("the store can be written to again")
	}
	p.err, p.at, p.running = err, time.Now(), nil
	close(ended)
}

// storeUp is the metric of ping.
func (s *Server) storeUp() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "billbridge_store_up",
		Help: "1 if the store could be written to when this was scraped, else 0.",
	}, func() float64 {
		if s.pinger.ping() != nil {
			return 0
		}
		return 1
	})
}
