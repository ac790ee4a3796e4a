package server

import (
	"context"
	"errors"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/operate"
)

// checkKeys refuses a config with keys of partners that the store does not have.
func (s *Server) checkKeys(ctx context.Context, c *config.Config) error {
	if s.store == nil {
		return nil
	}
	if _, err := s.store.Rollout(ctx); err != nil {
		return err
	}
	extra, err := operate.CheckKeys(s.store, c)
	if len(extra) > 0 {
		s.log.Warn("the store has keys of partners that the config does not list: they stay in effect. "+
			"List them in partners.HASH.keys", "keys", strings.Join(extra, ", "))
	}
	return err
}

// startKeys checks the keys of the config at the start. Those that the store does not have are left out, because a
// gateway that does not start serves no partner.
func (s *Server) startKeys(ctx context.Context, c *config.Config) {
	err := s.checkKeys(ctx, c)
	if err == nil {
		return
	}
	s.log.Error("keys of partners in the config have no effect: their calls are those of other partners",
		"error", err.Error())
	if s.rollout != nil {
		err = errors.Join(operate.Explain(s.rollout.Refused()), err)
	}
	s.operator.NoteReading(err)
}

// followKeys reads every second which keys are those of one partner, until ctx ends.
func (s *Server) followKeys(ctx context.Context) {
	every(ctx, time.Second, func() {
		_, _ = s.store.Rollout(ctx) // after an error the last ones stay; runClock logs it
	})
}
