package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"billbridge/config"
	"billbridge/proxy/relay"
	"billbridge/proxy/rollout"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
)

// askAgain is how often a start looks whether PostgreSQL can be reached.
const askAgain = time.Second

// openStore opens the store of the config, if it has one, and waits for a PostgreSQL that cannot be reached: its server may start with this
// one. Any other error ends the start at once.
func (s *Server) openStore(ctx context.Context, c *config.Config) error {
	if !c.Store.URL.IsSet() {
		return nil
	}
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
	sides := store.Backends{Alone: c.Route.Default}
	if c.Rollout != nil {
		sides = store.Backends{Old: c.Rollout.Old, New: c.Rollout.New, Shared: c.Rollout.Bills == config.Shared, Staying: []string{"old", "shadow"}}
	}
	// Both may refuse the config, and what one notes the other must not find when it does: so the sides are looked at first,
	// and noted last.
	look := sides
	look.Look = true
	if err := s.store.SetBackends(ctx, look, time.Now()); err != nil {
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
	return s.store.SetBackends(ctx, sides, time.Now())
}
