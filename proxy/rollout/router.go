// Package rollout decides which of two backends a call goes to while partners move from the old one to the new one.
//
//	r, err := rollout.New(config, rollout.Options{Store: opened, Registerer: registry, Logger: logger})
//	go r.Run(ctx)                               // follows the operators' changes, made here and on other replicas
//	route, err := r.Route(ctx, call, probe)     // before anything is sent
//	…
//	err = r.Complete(ctx, route, store.Succeeded) // a create ended
//	r.Count(call, route, end)                   // for the report
//
// Where each backend has bills of its own (bills: separate), every bill has an owner, and every call about the bill goes to its
// owner, whatever the stage of the partner. The ledger in package store keeps the owners. A row is pending (a create may have
// been sent there), owned (the owner answered 0000, or a read found the bill there) or released (certainly nothing was sent, or
// all of it was refused). Only a released bill can go to the other backend. For a bill without a row:
//
//	a create that the stage sends to the old backend   no probe: nothing reached the new backend but through the gateway
//	a create that the stage sends to the new backend   the old backend is probed: it may have the bill from before
//	a create of a drained partner                      no probe
//	any other operation                                both backends are probed
//	after a restore of the store                       the other backend is always probed, also for drained partners
//	on a new store, before rollout begin               as after a restore, also while the kill switch is thrown
//
// A probe is a read of the bill. In the last two cases the answer "no such bill" counts only after the settling period; until then
// a create that depends on it is refused. While a create of a bill is under way, or ended with an unknown outcome a short time
// ago, "no such bill" is not passed on as the answer to a write. Once it was passed on, creates that arrived earlier are not sent.
//
// If the backend that the stage prefers refuses the caller whatever the bill, and the other backend does so too or has no such
// bill, the caller gets that refusal. If a probe leaves the owner open, nothing is sent. One exception: a read is answered by the
// preferred backend if that shows the bill.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
)

// Options are what a router takes from its surroundings.
type Options struct {
	Store      *store.Store // if nil, stages are the config's alone, and what is counted is gone with the process; only for bills: shared
	Registerer prometheus.Registerer
	Logger     *slog.Logger
	Now        func() time.Time // if nil, time.Now
}

// A Router says where calls go. It is safe for concurrent use.
type Router struct {
	store    *store.Store
	log      *slog.Logger
	now      func() time.Time
	metrics  *metrics
	counts   *evidence.Counts
	shadow   *evidence.Shadow
	lost     atomic.Int64 // comparisons that found no place and were drained
	current  atomic.Pointer[settings]
	decided  atomic.Pointer[decisions]
	stopping atomic.Pointer[store.Declaration] // a kill switch that was thrown here and could not be stored yet
	refused  *config.Config                    // of the start, if its default stage did not take effect, and the one that stayed; set by New alone
	before   string
	look     Look
	reload   atomic.Pointer[FailedReload] // the last one, nil if it took effect
	settled  sync.Map                     // partners that have been seen for long enough: partner.ID
	noted    sync.Map                     // partners of whom the store knows that they were seen: partner.ID

	keeping   context.Context // ends where Close gives up
	giveUp    context.CancelFunc
	flushing  chan struct{} // has one place: what could not be added is there again before it is asked for
	counting  chan struct{} // has one place, for whoever counts the bills in the ledger
	following sync.Mutex    // one at a time: a look that began before a change must not undo what one after it found
}

// settings are what one config says.
type settings struct {
	config    *config.Rollout
	backends  [2]string                // the upstreams
	upstreams []string                 // all of the config
	wire      map[string]time.Duration // by upstream: how long after a create arrived it may still take effect there
}

// wireSettles is how long a call may be on its way to an upstream, or in a queue there, after its caller gave it up.
const wireSettles = 20 * time.Second

// decisions are what operators decided, as of one revision.
type decisions struct {
	revision int64
	stopped  bool
	restored time.Time
	unbegun  bool      // the store is new, and nobody has said that the rollout begins
	since    time.Time // the later of when it was restored and when a rollout began to run on a new one
	counted  time.Time // the same by the clock of this process, which no step changes
	initial  *position // of partners that have none of their own; nil is the config's
	of       map[partner.ID]position
}

// canaries reports whether anybody is in canary.
func (d *decisions) canaries() bool {
	if d.initial != nil && d.initial.stage == StageCanary {
		return true
	}
	for _, p := range d.of {
		if p.stage == StageCanary {
			return true
		}
	}
	return false
}

// New makes a router that works by the config, which has a rollout.
func New(ctx context.Context, c *config.Config, o Options) (*Router, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Router{store: o.Store, log: o.Logger, now: o.Now, flushing: make(chan struct{}, 1), counting: make(chan struct{}, 1)}
	r.keeping, r.giveUp = context.WithCancel(context.Background())
	var err error
	if r.metrics, err = newMetrics(o.Registerer); err != nil {
		return nil, err
	}
	r.counts = evidence.NewCounts("", o.Now)
	if r.shadow, err = evidence.NewShadow(c.Rollout.Shadow, r.counts, o.Registerer, o.Logger); err != nil {
		return nil, err
	}
	r.decided.Store(&decisions{revision: -1})
	r.Use(c)
	if r.store != nil && c.Rollout.Bills == config.Separate {
		if err := r.store.Start(ctx, r.now()); err != nil {
			return nil, fmt.Errorf("rollout: %w", err)
		}
	}
	if err := r.follow(ctx); err != nil {
		return nil, fmt.Errorf("rollout: %w", err)
	}
	if err := r.start(ctx, c); err != nil {
		return nil, fmt.Errorf("rollout: %w", err)
	}
	if r.decided.Load().canaries() {
		r.log.Info("partners are in canary: its percentage is drawn by rollout.split", "split", string(c.Rollout.Split))
	}
	if r.decided.Load().unbegun {
		r.log.Warn("the store is new: both backends are asked about every bill that it does not know. "+
			"If the new backend has no bills of partners that come through here, run billbridge rollout begin. "+
			"If there was a store before, restore it from its backup", "old", c.Rollout.Old, "new", c.Rollout.New, "since", r.decided.Load().since)
	}
	return r, nil
}

// start holds the default stage of the config to its preconditions. Where they do not hold, the default stage of the config
// that ran last stays, as at a reload: a gateway that does not start serves nobody.
func (r *Router) start(ctx context.Context, c *config.Config) error {
	refused := r.Check(ctx, c)
	if refused == nil {
		return r.Accept(ctx, c)
	}
	decided, err := r.store.Rollout(ctx)
	if err != nil {
		return err
	}
	if decided.ConfigDefault == "" {
		return refused
	}
	r.log.Error("the default stage of the config does not take effect, the one before it stays", "default", decided.ConfigDefault, "error", refused.Error())
	r.NoteReload(refused)
	r.refused, r.before = c, decided.ConfigDefault
	r.Use(c)
	return nil
}

// Use replaces the config.
func (r *Router) Use(c *config.Config) {
	section := c.Rollout
	if r.refused == c { // its default stage does not take effect
		own := *c.Rollout
		own.Default, section = r.before, &own
	}
	s := &settings{config: section, backends: [2]string{c.Rollout.Old, c.Rollout.New}, wire: map[string]time.Duration{}}
	for _, u := range c.Upstreams {
		s.upstreams = append(s.upstreams, u.Name)
		s.wire[u.Name] = time.Duration(c.Rollout.SendWithin) + time.Duration(u.Timeout) + wireSettles
	}
	r.metrics.know(section)
	was := r.current.Swap(s)
	if d := r.decided.Load(); was != nil && d.canaries() && (was.config.Split != section.Split || was.config.Salt != section.Salt) {
		r.log.Warn("canary draws otherwise from now on: bills that have an owner stay there, only those without one are drawn anew",
			"split", string(section.Split), "was", string(was.config.Split), "another_salt", was.config.Salt != section.Salt)
	}
	r.settled.Clear() // the settling time may be another
	r.shadow.Use(c.Rollout.Shadow)
	version, err := tableVersion(c.Table)
	if err != nil {
		r.log.Error("what was counted begins anew", "error", err.Error())
	}
	r.counts.Use(version)
}

// Shadow compares what both upstreams say.
func (r *Router) Shadow() *evidence.Shadow { return r.shadow }

// How often what is decided on one replica is looked for on the others, what was counted is added to what the store
// has, the metrics of it are made anew, and what is over is swept.
const (
	followEvery = time.Second
	flushEvery  = 5 * time.Second
	weighEvery  = 15 * time.Second
	sweepEvery  = time.Hour
)

// Run follows what operators decide, and keeps what was counted, until ctx ends.
func (r *Router) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, work := range []struct {
		every time.Duration
		do    func(context.Context) error
		fails string // of what it means, for the log
	}{
		{followEvery, r.follow, "what was decided of the rollout cannot be read, the last of it holds"},
		{flushEvery, r.flush, "what was counted of the rollout cannot be kept, it is tried again"},
		{weighEvery, r.weigh, "the metrics of the rollout's partners are those of some time ago"},
		{sweepEvery, r.sweep, "what the ledger need not know any more cannot be removed"},
	} {
		all.Go(func() {
			tick := time.NewTicker(work.every)
			defer tick.Stop()
			for {
				if err := work.do(ctx); err != nil && ctx.Err() == nil {
					r.log.Error(work.fails, "error", err.Error())
				}
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
			}
		})
	}
}

// keepWithin is how long the store may take to keep what was counted, while somebody waits for it.
const keepWithin = 2 * time.Second

// Close ends what is compared until ctx does, and keeps what was counted. It is called after Run and the last Route.
func (r *Router) Close(ctx context.Context) error {
	_ = r.shadow.Close(ctx) // what was under way is counted as without an answer
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*keepWithin)
	defer cancel()
	err := r.flush(ctx)
	if err != nil {
		r.giveUp() // a connection on which nothing comes back must not hold up the end of the process
	}
	return err
}

// sweep removes what the ledger need not know any more. While the machine's clock is not to be trusted it removes nothing.
func (r *Router) sweep(ctx context.Context) error {
	if r.store == nil {
		return nil
	}
	clock := r.store.Clock(r.now())
	if clock.Stepped() {
		return nil
	}
	_, err := r.store.SweepOwners(ctx, clock.Vouched, r.now(), time.Duration(r.current.Load().config.Keep))
	if err != nil {
		return err
	}
	if _, err = r.store.SweepUnknown(ctx, clock.Vouched.Add(-time.Duration(r.current.Load().config.Keep))); err != nil {
		return err
	}
	_, err = r.store.SweepCounts(ctx, r.counts.Table(), clock.Vouched.Add(-recent))
	return err
}

// Follow reads what was decided, at once: it is called when something was decided behind the router, before it is used.
func (r *Router) Follow(ctx context.Context) error { return r.follow(ctx) }

// follow reads what was decided, if it is another than what is known.
func (r *Router) follow(ctx context.Context) error {
	if r.store == nil {
		return nil
	}
	r.following.Lock()
	defer r.following.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	pending := r.stopping.Load()
	if pending != nil {
		if err := r.store.Stop(ctx, pending.By, pending.At); err != nil && !errors.Is(err, store.ErrState) {
			return err
		}
	}
	revision, err := r.store.Revision(ctx)
	if known := r.decided.Load(); err != nil || revision == known.revision {
		if err == nil && known.stopped {
			r.stopping.CompareAndSwap(pending, nil)
		}
		return err
	}
	decided, err := r.store.Rollout(ctx)
	if err != nil {
		return err
	}
	d := &decisions{revision: decided.Revision, stopped: !decided.Stopped.At.IsZero(), restored: decided.Restored.At, of: map[partner.ID]position{}}
	d.unbegun = decided.Begun.At.IsZero() && !decided.Started.IsZero()
	r.countSettling(d, decided.Started)
	for _, s := range decided.Stages {
		p := position{stage: Stage(s.Stage), percent: s.Percent}
		if s.Partner == "" { // forced is for one partner, never for all that will ever come
			d.initial = &p
			continue
		}
		p.forced = s.Forced
		d.of[s.Partner] = p
	}
	r.decided.Store(d)
	if d.stopped {
		r.stopping.CompareAndSwap(pending, nil)
	}
	r.metrics.begun.Set(map[bool]float64{false: 1}[d.unbegun])
	return nil
}

// countSettling finds since when the settling period of an incomplete ledger counts. A wrong clock makes it longer, never
// shorter.
func (r *Router) countSettling(d *decisions, started time.Time) {
	d.since = d.restored
	if d.unbegun && started.After(d.since) {
		d.since = started
	}
	if was := r.decided.Load(); was.since.Equal(d.since) && !was.counted.IsZero() {
		d.counted = was.counted
		return
	}
	now := r.now()
	d.counted = now
	if ago := now.Sub(d.since); ago > 0 && !r.store.Clock(now).Stepped() {
		d.counted = now.Add(-ago)
	}
}
