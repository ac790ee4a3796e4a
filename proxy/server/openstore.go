package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"billbridge/config"
	"billbridge/proxy/operate"
	"billbridge/proxy/relay"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// storeRetryInterval is the time between two attempts to reach PostgreSQL at the start.
const storeRetryInterval = time.Second

// openStore opens the store of the config, if it has one. It retries for c.Store.Wait while PostgreSQL is unreachable:
// the database may start at the same time. Any other error is returned at once.
func (s *Server) openStore(ctx context.Context, c *config.Config) error {
	if !c.Store.URL.IsSet() {
		return nil
	}
	within := c.Store.Wait
	began := time.Now()
	for try := 0; ; try++ {
		opening, cancel := context.WithTimeout(ctx, 30*time.Second)
		options := store.Options{Lossless: c.Store.Failover == config.Lossless, Key: c.Store.KeyBytes()}
		opened, err := store.Open(opening, c.Store.URL.Reveal(), options)
		cancel()
		switch {
		case err == nil:
			s.store, s.pinger = opened, pinger{store: opened, log: s.log}
			s.clock.store, s.clock.log = opened, s.log
			if was := opened.Narrowed; was != 0 {
				s.log.Warn("users other than the owner had access to the file of the store: "+
					"it was removed, also for -wal and -shm",
					"mode_before", was.String())
			}
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !store.Unreachable(err):
			return err
		case time.Since(began) >= within:
			return fmt.Errorf("%w (retried for %s)", err, config.Duration(within))
		case try == 0:
			s.log.Warn("the store is unreachable: the gateway is not ready and retries",
				"at_most", config.Duration(within).String(), "error", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(storeRetryInterval, within)):
		}
	}
}

// openRelayAndRollout creates the relay if there is a store, and the rollout if the config has one.
func (s *Server) openRelayAndRollout(_ context.Context, c *config.Config) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	o := relay.Options{Store: s.store, Registerer: s.registry, Logger: s.log, UserAgent: s.build.userAgent()}
	if s.store != nil {
		s.registerStore(c.Store.URL.Reveal())
		if err = s.clock.start(ctx, s.registry); err == nil {
			known := storedUpstreams{s.store, s.log}
			err = run(ctx, c, []step{known.check, known.record})
		}
		if err != nil {
			return err
		}
	}
	if c.Rollout != nil {
		s.rollout, err = routing.New(ctx, c, routing.Options{Store: s.store, Registerer: s.registry, Logger: s.log})
		if err == nil {
			err = operate.StartDefault(ctx, s.store, s.rollout, c)
		}
		if err != nil {
			return operate.Explain(err)
		}
		if refused := s.rollout.Refused(); refused != nil {
			s.log.Error("the default stage of the config does not take effect, the one before it stays",
				"error", operate.Explain(refused).Error())
		}
		o.Contradicted, o.Shows = s.rollout.Contradicted, routing.ShownByCallback
	}
	if s.store != nil {
		s.relay = relay.New(c, o)
	}
	return nil
}

// upstreamsOf returns what the store keeps of the upstreams of a config.
func upstreamsOf(c *config.Config) (list []store.Upstream, backends store.Backends, separate bool) {
	for _, u := range c.Upstreams {
		list = append(list, store.Upstream{Name: u.Name, Form: string(u.Form), URL: u.Address.String()})
	}
	backends = store.Backends{Alone: c.Route.Default}
	if c.Rollout != nil {
		backends = store.Backends{
			Old: c.Rollout.Old, New: c.Rollout.New, Shared: c.Rollout.Bills == config.Shared,
			Staying: []string{"old", "shadow"}, Compared: "shadow",
		}
	}
	return list, backends, c.Rollout != nil && c.Rollout.Bills == config.Separate
}

// storedUpstreams are the upstreams that a store knows.
type storedUpstreams struct {
	store *store.Store // nil if the config has none
	log   *slog.Logger
}

// check refuses a config that drops, renames or moves an upstream that has bills or callback addresses in the store.
// It changes nothing.
func (u storedUpstreams) check(ctx context.Context, c *config.Config) error {
	if u.store == nil {
		return nil
	}
	list, backends, separate := upstreamsOf(c)
	backends.DryRun = true
	if err := u.store.SetBackends(ctx, backends, time.Now()); err != nil {
		return err
	}
	return u.store.Reconcilable(ctx, list, separate, time.Now())
}

// record records the upstreams of a config in the store. It comes after check: SetBackends and Reconcile can both
// refuse the config, and a refused config must leave nothing in the store.
func (u storedUpstreams) record(ctx context.Context, c *config.Config) error {
	if u.store == nil {
		return nil
	}
	list, backends, separate := upstreamsOf(c)
	moved, err := u.store.Reconcile(ctx, list, separate, time.Now())
	for _, before := range moved {
		u.log.Warn("the URL of an upstream has changed; the store has bills or callback addresses of this upstream",
			"upstream", before.Name, "was", before.URL, "is", c.Upstreams.Find(before.Name).Address.String())
	}
	if err != nil {
		return err
	}
	return u.store.SetBackends(ctx, backends, time.Now())
}
