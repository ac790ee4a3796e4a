package server

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"billbridge/config"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// tickInterval is the time between two updates of the store's clock.
const tickInterval = time.Minute

// A storeClock advances the clock of a store. It is safe for concurrent use.
type storeClock struct {
	store   *store.Store
	log     *slog.Logger
	backup  *prometheus.GaugeVec // when the last one was made; no series before the first
	stepped atomic.Bool          // the clock differs from the store's by more than a day, as last logged
	lossy   atomic.Bool          // at the last tick: see checkLossless
}

// start registers the metrics of the clock and compares it with the machine's, before rows are removed by it.
func (c *storeClock) start(ctx context.Context, registry prometheus.Registerer) error {
	c.backup = promauto.With(registry).NewGaugeVec(prometheus.GaugeOpts{
		Name: "billbridge_store_last_backup_timestamp_seconds",
		Help: "When the store was last backed up, as billbridge store backup says. Absent before the first time.",
	}, nil)
	gauge(registry, "billbridge_store_clock_offset_seconds",
		"How far the machine's clock, or PostgreSQL's, is ahead of the store's clock. "+
			"Expired rows are not removed while the two differ by more than a day.",
		func() float64 { return c.store.Clock(time.Now()).Offset.Seconds() })
	return c.tick(ctx)
}

// run advances the store's clock until ctx ends.
func (c *storeClock) run(ctx context.Context) {
	every(ctx, tickInterval, func() {
		if err := c.tick(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("the store's clock cannot be advanced", "error", err.Error())
		}
	})
}

// every calls do at the end of each interval, until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	for tick := time.Tick(interval); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			do()
		}
	}
}

// tick advances the store's clock, reads when the last backup was, and logs when it begins or ceases to differ from the
// machine's by more than a day.
func (c *storeClock) tick(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	clock, err := c.store.Tick(ctx, time.Now())
	if err != nil {
		return err
	}
	if was := c.stepped.Swap(clock.Stepped()); was != clock.Stepped() {
		if was {
			c.log.Info("the clock and the store's clock agree again: expired rows are removed again")
		} else {
			c.log.Warn("the clock and the store's clock differ by more than a day: "+
				"expired rows are not removed until they agree again, "+
				"or until you run billbridge store clock --confirm",
				"store", clock.StoreTime, "clock", clock.StoreTime.Add(clock.Offset),
				"ahead", config.Duration(clock.Offset).String())
		}
	}
	c.checkLossless(ctx)
	last, err := c.store.Audit(ctx, store.AuditFilter{Actions: []store.Action{store.BackedUp}, Limit: 1})
	switch {
	case err != nil: // the next tick reads it
		c.log.Error("the time of the last backup cannot be read from the audit log; the gateway tries again",
			"error", err.Error())
	case len(last) == 1:
		c.backup.WithLabelValues().Set(float64(last[0].At.Unix()))
	}
	return nil
}

// checkLossless logs when a store that is said to be lossless has no synchronous standby. After a fail-over that is
// normal for some seconds, so it must be so at two ticks.
func (c *storeClock) checkLossless(ctx context.Context) {
	lossy, _ := c.store.Lossy(ctx)
	if was := c.lossy.Swap(lossy); was && lossy {
		c.log.Warn("store.failover is lossless, but PostgreSQL does not wait for a standby: "+
			"after a fail-over acknowledged writes can be missing. Set synchronous_standby_names, "+
			"and synchronous_commit to on or remote_apply, or remove store.failover", "setting", "store.failover")
	}
}
