package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"billbridge/config"
	"billbridge/proxy/accesslog"
	"billbridge/proxy/admission"
	"billbridge/proxy/operate"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// Reload reads the config again. Requests that begin afterwards use it. If the new config has a mistake, or changes
// something that needs a restart, Reload returns an error and the gateway keeps the old config.
func (s *Server) Reload() (err error) { return s.reload("SIGHUP") }

// reload is Reload by an operator, or by the admin listener if the name is not known.
func (s *Server) reload(by string) (err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if s.load == nil {
		s.log.Warn("config not reloaded: there is no config file")
		return errNoFile
	}
	record := func(change store.Change) {
		change.By = cmp.Or(by, "admin listener")
		_ = s.operator.Record(change)
	}
	defer func() { s.announce(context.Background()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := s.checked(ctx)
	if err == nil {
		err = run(ctx, c, []step{storedUpstreams{s.store, s.log}.record, follow(s.rollout), s.operator.AcceptDefault})
	}
	s.operator.NoteReading(err)
	if err = operate.Explain(err); err != nil {
		s.reloadOK.Set(0)
		s.log.Error("config not reloaded, the last good one stays", "error", err.Error())
		record(store.Change{Action: store.Reloaded, To: "refused"})
		return err
	}
	was := *s.tokens.current.Load()
	s.gateway.Use(c)
	s.apply(c)
	s.log.Info("config reloaded")
	record(store.Change{Action: store.Reloaded})
	now := *s.tokens.current.Load()
	if gone, added := was.without(now), now.without(was); gone != "" || added != "" {
		record(store.Change{Action: store.TokensChanged, From: gone, To: added})
	}
	s.logWarnings(c)
	return nil
}

var errNoFile = errors.New("there is no config file")

// checked reads the config, and refuses one that a reload cannot use. It changes nothing.
func (s *Server) checked(ctx context.Context) (*config.Config, error) {
	if s.load == nil {
		return nil, errNoFile
	}
	c, err := s.load()
	if err == nil {
		known := storedUpstreams{s.store, s.log}
		err = run(ctx, c, []step{s.checkFixed, s.operator.CheckDefault, s.checkKeys, known.check})
	}
	return c, err
}

// follow reads what was recorded of upstreams: new backends can have the effect of a restored store, and the rollout
// must know that before it routes a call.
func follow(r *routing.Router) step {
	return func(ctx context.Context, _ *config.Config) error {
		if r == nil {
			return nil
		}
		return r.Follow(ctx)
	}
}

// checkFixed refuses a config that only a restart can use.
func (s *Server) checkFixed(_ context.Context, c *config.Config) error {
	if key := s.current.Load().NeedsRestart(c); key != "" {
		return fmt.Errorf("%s has changed: restart to change it", key)
	}
	return s.checkTokens(c)
}

// apply sets what a reload can change in the server itself.
func (s *Server) apply(c *config.Config) {
	s.current.Store(c)
	s.tokens.use(&c.Admin)
	accesslog.Use(s.log, c.Log)
	s.drainTimeout = max(s.drainTimeout, DrainTimeout(c)) // a call ends by the config that it began with
	s.reloadOK.Set(1)
	s.reloadAt.SetToCurrentTime()
}

// DrainTimeout returns how long a drain may take: the time for the rest of a body, the longest call, and five
// seconds to write the answer. A write that is cut off has an unknown outcome, so the time is generous.
func DrainTimeout(c *config.Config) time.Duration {
	longest := c.LongestCall()
	if c.Callbacks != nil {
		longest = max(longest, time.Duration(c.Callbacks.Timeout)+config.StoreTimeout)
	}
	return admission.PartialRequestTimeout + longest + 5*time.Second
}
