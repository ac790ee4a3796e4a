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
	by = cmp.Or(by, "admin listener")
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if s.load == nil {
		s.log.Warn("config not reloaded: there is no config file")
		return errors.New("there is no config file")
	}
	c, err := s.load()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err == nil {
		if key := s.config.NeedsRestart(c); key != "" {
			err = fmt.Errorf("%s has changed: restart to change it", key)
		}
	}
	if err == nil {
		err = s.checkTokens(c)
	}
	if err == nil && s.rollout != nil { // before recordUpstreams: CheckDefault writes nothing
		err = s.operator.CheckDefault(ctx, c)
	}
	if err == nil {
		err = s.checkKeys(ctx, c)
	}
	if err == nil && s.store != nil {
		err = s.recordUpstreams(ctx, c)
	}
	if err == nil && s.rollout != nil {
		// New backends can have the effect of a restored store. The rollout must read that before it routes a call.
		if err = s.rollout.Follow(ctx); err == nil {
			err = s.operator.AcceptDefault(ctx, c)
		}
	}
	s.operator.NoteReading(err)
	if err = operate.Explain(err); err != nil {
		s.reloadOK.Set(0)
		s.log.Error("config not reloaded, the last good one stays", "error", err.Error())
		_ = s.operator.Record(store.Change{Action: store.Reloaded, By: by, To: "refused"})
		return err
	}
	was := s.tokens.current.Load()
	s.gateway.Use(c)
	s.config = c
	s.apply(c)
	s.log.Info("config reloaded")
	_ = s.operator.Record(store.Change{Action: store.Reloaded, By: by})
	now := s.tokens.current.Load()
	if gone, added := was.without(now), now.without(was); gone != "" || added != "" {
		_ = s.operator.Record(store.Change{Action: store.TokensChanged, By: by, From: gone, To: added})
	}
	s.logWarnings(c)
	return nil
}

// apply sets what a reload can change in the server itself.
func (s *Server) apply(c *config.Config) {
	s.tls.Store(c.TLS)
	s.adminTLS.Store(c.Admin.TLS)
	s.tokens.use(&c.Admin)
	s.tokens.limits.Store(&c.Limits)
	s.open.limits.Store(&c.Limits)
	accesslog.Use(s.log, c.Log)
	s.storeOptional.Store(c.Ready.Store == config.Reported)
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
