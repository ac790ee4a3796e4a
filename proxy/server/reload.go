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
		return errors.New("there is no config file")
	}
	record := func(change store.Change) {
		change.By = cmp.Or(by, "admin listener")
		_ = s.operator.Record(change)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	steps := []step{s.checkFixed, s.checkKeys, s.recordUpstreams}
	if r := s.rollout; r != nil {
		// New backends can have the effect of a restored store. The rollout must read that before it routes a call.
		follow := func(ctx context.Context, _ *config.Config) error { return r.Follow(ctx) }
		steps = []step{ // CheckDefault writes nothing
			s.checkFixed, s.operator.CheckDefault, s.checkKeys, s.recordUpstreams, follow, s.operator.AcceptDefault,
		}
	}
	c, err := s.load()
	if err == nil {
		err = run(ctx, c, steps)
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
