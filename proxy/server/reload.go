package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"billbridge/config"
	"billbridge/proxy"
)

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
	if err == nil && s.rollout != nil { // first: it changes nothing
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		err = s.rollout.Check(ctx, c)
		cancel()
	}
	if err == nil && s.store != nil {
		err = s.reconcile(c)
	}
	if err == nil && s.rollout != nil {
		// Other sides may have been declared as a restored store is: no call may be decided on before that is known.
		ctx, cancel := context.WithTimeout(context.Background(), config.StoreWithin)
		if err = s.rollout.Follow(ctx); err == nil {
			err = s.rollout.Accept(ctx, c)
		}
		cancel()
	}
	if s.rollout != nil {
		s.rollout.NoteReload(err)
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
	s.open.limits.Store(&c.Limits)
	s.reported.Store(c.Ready.Store == config.Reported)
	if c.Drain.AtMost != 0 {
		s.drain = time.Duration(c.Drain.AtMost)
	} else {
		s.drain = max(s.drain, drainWithin(c)) // an exchange under way ends by the config it began with
	}
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
		{"rollout", (c.Rollout == nil) != (s.config.Rollout == nil)},
		{"rollout.bills", c.Rollout != nil && s.config.Rollout != nil && c.Rollout.Bills != s.config.Rollout.Bills},
		{"store.url", c.Store.URL.Reveal() != s.config.Store.URL.Reveal()},
		{"callbacks.listen", callbackListener(c) != callbackListener(s.config)},
	} {
		if b.changed {
			return fmt.Errorf("%s has changed: restart to change it", b.key)
		}
	}
	return nil
}

func callbackListener(c *config.Config) string {
	if c.Callbacks == nil {
		return ""
	}
	return c.Callbacks.Listen
}

// drainWithin is how long a drain may take: a body that is still coming in, the longest call, and a moment for the
// answer to be written. A write that is cut off has an unknown outcome, so this is long rather than short.
func drainWithin(c *config.Config) time.Duration {
	longest := c.LongestCall()
	if c.Callbacks != nil {
		longest = max(longest, time.Duration(c.Callbacks.Timeout)+config.StoreWithin)
	}
	return proxy.HalfRead + longest + 5*time.Second
}
