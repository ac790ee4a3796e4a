// Package routing decides which of two backends a call goes to while partners move from the old one to the new one.
//
//	r, err := routing.New(config, routing.Options{Store: opened, Registerer: registry, Logger: logger})
//	go r.Run(ctx)                               // follows the operators' changes, made here and on other replicas
//	route, err := r.Route(ctx, call, probe)     // before anything is sent
//	…
//	err = r.Ended(ctx, route, routing.Ending{Outcome: ledger.Succeeded})
//	r.Count(call, route, end)                   // for the report
//
// Where each backend has bills of its own (bills: separate), every bill has an owner, and every call about the bill
// goes to its owner, whatever the stage of the partner. The ledger in package store keeps the owners. A row is
// pending (a create may have been sent there), owned (the owner answered 0000, or a read found the bill there) or
// released (certainly nothing was sent, or all of it was refused). Only a released bill can go to the other backend.
// For a bill without a row, or with one of another merchant, to whose backend a create is sent as if the stage did:
//
//	a create that the stage sends to the old backend   no probe: the new backend gets calls only from the gateway
//	a create that the stage sends to the new backend   the old backend is probed: it may have the bill from before
//	a create of a drained partner                      no probe
//	any other operation                                both backends are probed
//	after a restore of the store                       the other backend is always probed, also for drained partners
//	on a new store, before rollout begin               as after a restore; the kill switch waits, too
//
// A probe is a read of the bill. In the last two cases the answer "no such bill" counts only after the settling
// period; until then it is not passed on, and a create that depends on it is refused. While a create of a bill is
// under way, or ended with an unknown outcome a short time ago, "no such bill" is not passed on either. Once it was
// passed on, creates that arrived earlier are not sent.
//
// If the backend that the stage prefers refuses the caller whatever the bill, and the other backend does so too or
// has no such bill, the caller gets that refusal. If a probe leaves the owner open, nothing is sent. One exception: a
// read is answered by the preferred backend if that shows the bill.
package routing

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/config"
	"billbridge/proxy/evidence"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
)

// Options are the dependencies of a router.
type Options struct {
	// if nil, stages come from the config alone and counts are lost at exit; only with bills: shared
	Store      *store.Store
	Registerer prometheus.Registerer
	Logger     *slog.Logger
	Now        func() time.Time // if nil, time.Now
}

// A Router routes calls. It is safe for concurrent use.
type Router struct {
	follower
	counts  *evidence.Stored
	shadow  *evidence.Shadow
	current atomic.Pointer[Settings]
	kept    *keptDefault               // at the start; nil if that of its config took effect
	failing atomic.Pointer[partnerSet] // with a verdict FAIL, as in the metrics; nil before
	unread  atomic.Pointer[string]     // what the log said last of counts that cannot be read; nil before
	unclear atomic.Int64               // writes whose outcome an operator must look at, as in the metrics
	settled sync.Map                   // partners whose settling period is over: partner.ID
	turns   sync.Mutex                 // of the next
	turn    time.Time                  // when the next bill is read back
}

// Settings are those of one config. They must not be changed.
type Settings struct {
	Config   *config.Rollout
	Names    config.Partners
	Backends [2]string                // the upstreams
	wire     map[string]time.Duration // by upstream: how long after its arrival a create may take effect there
	each     time.Duration            // between reads after creates: half of the gateway's reads
}

// Label returns a partner for people: the first digits of its ID, and its name.
func (s *Settings) Label(id partner.ID) string {
	return partner.Label(id.Short(), s.Names.Name(string(id)))
}

// UnderWay returns how long after its arrival a create may take effect at either backend.
func (s *Settings) UnderWay() time.Duration {
	return max(s.wire[s.Backends[evidence.Old]], s.wire[s.Backends[evidence.New]])
}

// Positions returns the stages of partners as the store has them.
func (s *Settings) Positions(decided store.Rollout) func(partner.ID) Position {
	d := newDecisions(decided)
	return func(id partner.ID) Position { return d.position(s, id) }
}

// wireSettles is how long a call may be under way to an upstream, or queued there, after its timeout.
const wireSettles = 20 * time.Second

// New makes a router that works by the config, which has a rollout.
func New(ctx context.Context, c *config.Config, o Options) (*Router, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Router{
		follower: follower{store: o.Store, log: o.Logger, now: o.Now, metrics: newMetrics(o.Registerer)},
		counts:   evidence.NewStored(o.Store, o.Now),
	}
	if o.Store != nil { // else there is no ledger
		r.metrics.unknown.WithLabelValues("unknown")
		r.metrics.unknown.WithLabelValues("unclear")
	}
	r.shadow = evidence.NewShadow(c.Rollout.Shadow, r.counts.Counts, o.Registerer, o.Logger)
	r.decided.Store(&decisions{revision: -1})
	r.Use(c)
	var err error
	if r.store != nil && c.Rollout.Bills == config.Separate {
		err = r.store.Start(ctx, r.now())
	}
	if err == nil {
		err = r.Follow(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("rollout: %w", err)
	}
	if r.decided.Load().unbegun {
		r.log.Warn("the store is new: both backends are probed for every bill that is not in the ledger. "+
			"If the new backend has no bills of these partners, run billbridge rollout begin. "+
			"If there was a store before, restore it from its backup", "old", c.Rollout.Old, "new", c.Rollout.New,
			"since", r.decided.Load().since)
	}
	return r, nil
}

// KeepDefault keeps the default stage of before, because that of a config must not take effect: a gateway that does not
// start serves no partner. It is called once, before the first Route.
func (r *Router) KeepDefault(c *config.Config, stage string, why error) {
	r.kept = &keptDefault{c, stage, why}
	r.Use(c)
}

// A keptDefault is the default stage that a config has not changed.
type keptDefault struct {
	config *config.Config
	stage  string
	why    error
}

// Use replaces the config.
func (r *Router) Use(c *config.Config) {
	section := c.Rollout
	if r.kept != nil && r.kept.config == c {
		own := *c.Rollout
		own.Default, section = r.kept.stage, &own
	}
	s := &Settings{
		Config: section, Names: c.Partners, Backends: c.Rollout.Backends(),
		wire: map[string]time.Duration{}, each: 2 * time.Second / time.Duration(c.Limits.Reads),
	}
	for _, u := range c.Upstreams {
		s.wire[u.Name] = c.Rollout.SendWithin + time.Duration(u.Timeout) + wireSettles
	}
	r.metrics.know(section)
	r.current.Store(s)
	r.settled.Clear() // the settling period may be another
	r.shadow.Use(c.Rollout.Shadow)
	r.counts.Use(c)
}

// Settings returns the settings of the config in force. A reload replaces them and does not change them.
func (r *Router) Settings() *Settings { return r.current.Load() }

// Refused returns why the default stage of the config did not take effect at the start, so that the one before it
// stays, or nil.
func (r *Router) Refused() error {
	if r.kept == nil {
		return nil
	}
	return r.kept.why
}

// Counts returns the evidence of all replicas.
func (r *Router) Counts() *evidence.Stored { return r.counts }

// partnerSet are some partners.
type partnerSet = map[partner.ID]bool

// Failing returns the partners with a verdict FAIL, by the metrics. The caller must not change it.
func (r *Router) Failing() map[partner.ID]bool {
	if failing := r.failing.Load(); failing != nil {
		return *failing
	}
	return nil
}

// Unclear returns how many writes have an outcome that the reads of the gateway have not resolved, by the metrics.
func (r *Router) Unclear() int { return int(r.unclear.Load()) }

// RefusedUntil returns until when creates that depend on "no such bill" are refused, or nil.
func (r *Router) RefusedUntil() *time.Time {
	s, d := r.current.Load(), r.decided.Load()
	if r.store == nil || d.since.IsZero() || d.absentCounts(s, r.now()) {
		return nil
	}
	until := d.counted.Add(time.Duration(s.Config.Settle))
	return &until
}

// Shadow compares the answers of both backends.
func (r *Router) Shadow() *evidence.Shadow { return r.shadow }

// How often decisions of other replicas are read, counts are added to the store, the gauges are set, and old rows are
// swept.
const (
	followEvery = time.Second
	flushEvery  = 5 * time.Second
	weighEvery  = 15 * time.Second
	sweepEvery  = time.Hour
)

// Run reads the decisions of operators and stores the counts, until ctx ends.
func (r *Router) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, work := range []struct {
		every time.Duration
		do    func(context.Context) error
		fails string // what a failure means, for the log
	}{
		{followEvery, r.Follow, "stages cannot be read; the last known ones stay in force"},
		{flushEvery, r.counts.Flush, "counts of the rollout cannot be stored; the gateway tries again"},
		{weighEvery, atMost(gaugesPart, r.SetGauges), "metrics of partners are not up to date"},
		{sweepEvery, r.sweep, "expired rows of the ledger cannot be removed"},
	} {
		all.Go(func() { Every(ctx, work.every, r.log, work.fails, work.do) })
	}
}

// Every does something at intervals until ctx ends. fails is what a failure means, for the log.
func Every(
	ctx context.Context, interval time.Duration, log *slog.Logger, fails string, do func(context.Context) error,
) {
	for tick := time.Tick(interval); ctx.Err() == nil; {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			log.Error(fails, "error", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-tick:
		}
	}
}

// Recovered sets an error after a panic. It is deferred where a panic must not end the process.
func Recovered(err *error) {
	if panicked := recover(); panicked != nil {
		*err = fmt.Errorf("panic: %v", panicked)
	}
}

// gaugesPart is the fraction of the time that the gauges may take. With many partners they need much CPU time.
const gaugesPart = 0.05

// atMost returns work that skips runs, so that it takes at most a fraction of the time.
func atMost(part float64, do func(context.Context) error) func(context.Context) error {
	var next time.Time
	return func(ctx context.Context) error {
		began := time.Now()
		if began.Before(next) {
			return nil
		}
		err := do(ctx)
		next = began.Add(time.Duration(float64(time.Since(began)) / part))
		return err
	}
}

// Close waits for comparisons until ctx ends, and stores the counts. It is called after Run and the last Route.
func (r *Router) Close(ctx context.Context) error {
	_ = r.shadow.Close(ctx) // what was under way is not counted
	return r.counts.Close(ctx)
}

// Recent is how long a call counts that a backend cannot carry. Many partners bill once a month.
const Recent = 35 * 24 * time.Hour

// sweep removes old rows. While the machine's clock differs too much from the store's it removes nothing.
func (r *Router) sweep(ctx context.Context) error {
	if r.store == nil {
		return nil
	}
	clock := r.store.Clock(r.now())
	if clock.Stepped() {
		return nil
	}
	keep := r.current.Load().Config.Keep
	if _, err := r.store.SweepBills(ctx, clock.StoreTime, r.now(), keep); err != nil {
		return err
	}
	_, err := r.store.SweepCounts(ctx, r.counts.Table(), clock.StoreTime.Add(-Recent))
	return err
}
