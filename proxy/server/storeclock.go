package server

import (
	"context"
	"time"

	"billbridge/config"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// tickInterval is the time between two updates of the store's clock.
const tickInterval = time.Minute

// startClock registers the metric of the store's clock and compares it with the machine's, before rows are removed by
// it.
func (s *Server) startClock(ctx context.Context) error {
	s.backup = promauto.With(s.registry).NewGaugeVec(prometheus.GaugeOpts{
		Name: "billbridge_store_last_backup_timestamp_seconds",
		Help: "When billbridge store backup last copied the store. Absent before the first time.",
	}, nil)
	gauge(s.registry, "billbridge_store_clock_offset_seconds",
		"How far the machine's clock, or PostgreSQL's, is ahead of the store's clock. "+
			"Expired rows are not removed while the two differ by more than a day.",
		func() float64 { return s.store.Clock(time.Now()).Offset.Seconds() })
	return s.tick(ctx)
}

// runClock advances the store's clock until ctx ends.
func (s *Server) runClock(ctx context.Context) {
	every(ctx, tickInterval, func() {
		if err := s.tick(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("the store's clock cannot be advanced", "error", err.Error())
		}
	})
}

// every calls do at the end of each interval, until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do()
		}
	}
}

// tick advances the store's clock, reads when the last backup was, and logs when it begins or ceases to differ from the
// machine's by more than a day.
func (s *Server) tick(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	clock, err := s.store.Tick(ctx, time.Now())
	if err != nil {
		return err
	}
	if was := s.clockStepped.Swap(clock.Stepped()); was != clock.Stepped() {
		if was {
			s.log.Info("the clock and the store's clock agree again: expired rows are removed again")
		} else {
			s.log.Warn("the clock and the store's clock differ by more than a day: "+
				"expired rows are not removed until they agree again, "+
				"or until you run billbridge store clock --confirm",
				"store", clock.StoreTime, "clock", clock.StoreTime.Add(clock.Offset),
				"ahead", config.Duration(clock.Offset).String())
		}
	}
	s.checkLossless(ctx)
	last, err := s.store.Audit(ctx, store.AuditFilter{Actions: []store.Action{store.BackedUp}, Limit: 1})
	switch {
	case err != nil: // the next tick reads it
		s.log.Error("the time of the last backup cannot be read from the audit log; the gateway tries again",
			"error", err.Error())
	case len(last) == 1:
		s.backup.WithLabelValues().Set(float64(last[0].At.Unix()))
	}
	return nil
}

// checkLossless logs when a store that is said to be lossless has no synchronous standby. After a fail-over that is
// normal for some seconds, so it must be so at two ticks.
func (s *Server) checkLossless(ctx context.Context) {
	lossy, _ := s.store.Lossy(ctx)
	if was := s.lossy.Swap(lossy); was && lossy {
		s.log.Warn("store.failover is lossless, but PostgreSQL does not wait for a standby: "+
			"after a fail-over acknowledged writes can be missing. Set synchronous_standby_names, "+
			"and synchronous_commit to on or remote_apply, or remove store.failover", "setting", "store.failover")
	}
}
