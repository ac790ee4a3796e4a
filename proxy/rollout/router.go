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
//	on a new store, before rollout begin               as after a restore, also while the kill switch is on
//
// A probe is a read of the bill. In the last two cases the answer "no such bill" counts only after the settling period; until then
// it is not passed on, and a create that depends on it is refused. While a create of a bill is under way, or ended with an unknown
// outcome a short time ago, "no such bill" is not passed on either. Once it was passed on, creates that arrived earlier are not sent.
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
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
)

// Options are the dependencies of a router.
type Options struct {
	Store      *store.Store // if nil, stages come from the config alone and counts are lost at exit; only with bills: shared
	Registerer prometheus.Registerer
	Logger     *slog.Logger
	Now        func() time.Time // if nil, time.Now
}

// A Router routes calls. It is safe for concurrent use.
type Router struct {
	store    *store.Store
	log      *slog.Logger
	now      func() time.Time
	metrics  *metrics
	counts   *evidence.Counts
	shadow   *evidence.Shadow
	lost     atomic.Int64 // comparisons that were not counted, over the limit
	current  atomic.Pointer[settings]
	decided  atomic.Pointer[decisions]
	stopping atomic.Pointer[pendingStop] // a kill switch that was turned on here and could not be stored yet
	refused  *config.Config              // that of the start, if its default stage did not take effect; set by New alone
	before   string                      // the default stage that stayed then
	readBill ReadBill
	reload   atomic.Pointer[FailedReload] // the last one, nil if it took effect
	failing  atomic.Int64                 // partners with a verdict FAIL, as in the metrics
	settled  sync.Map                     // partners whose settling period is over: partner.ID
	tables   sync.Map                     // by version of a table: the versions of its operations, by their names
	recorded sync.Map                     // partners that are recorded as seen: partner.ID

	keeping   context.Context // ends when Close gives up
	giveUp    context.CancelFunc
	flushing  chan struct{} // holds one: a flush begins after the one before has put back what it could not add
	counting  chan struct{} // holds one: only one count of the bills in the ledger at a time
	following sync.Mutex    // only one follow at a time: an earlier read must not replace a later one
}

// settings are those of one config.
type settings struct {
	config    *config.Rollout
	names     config.Partners
	backends  [2]string                // the upstreams
	upstreams []string                 // all of the config
	wire      map[string]time.Duration // by upstream: how long after its arrival a create may take effect there
}

// wireSettles is how long a call may be under way to an upstream, or queued there, after its timeout.
const wireSettles = 20 * time.Second

// decisions are those of operators, as of one revision.
type decisions struct {
	revision   int64
	generation int64 // of the store, see store.Generation
	stopped    bool
	restored   time.Time
	unbegun    bool      // the store is new, and Begin was not called
	since      time.Time // when the ledger became incomplete: the later of the restore and the start of the rollout on a new store
	counted    time.Time // the same by the clock of this process, which no step changes
	initial    *position // the default; nil is the config's
	of         map[partner.ID]position
}

// canaries reports whether a partner or the default is in canary.
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
		r.log.Warn("the store is new: both backends are probed for every bill that is not in the ledger. "+
			"If the new backend has no bills of these partners, run billbridge rollout begin. "+
			"If there was a store before, restore it from its backup", "old", c.Rollout.Old, "new", c.Rollout.New, "since", r.decided.Load().since)
	}
	return r, nil
}

// start checks the preconditions of the config's default stage. If there are blocking reasons, the default stage of the config that
// ran last stays, as at a reload, because a gateway that does not start serves nobody.
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
	s := &settings{config: section, names: c.Partners, backends: [2]string{c.Rollout.Old, c.Rollout.New}, wire: map[string]time.Duration{}}
	for _, u := range c.Upstreams {
		s.upstreams = append(s.upstreams, u.Name)
		s.wire[u.Name] = time.Duration(c.Rollout.SendWithin) + time.Duration(u.Timeout) + wireSettles
	}
	r.metrics.know(section)
	was := r.current.Swap(s)
	if d := r.decided.Load(); was != nil && d.canaries() && was.config.Split != section.Split {
		r.log.Warn("canary draws otherwise from now on: bills that have an owner stay there, only those without one are drawn anew",
			"split", string(section.Split), "was", string(was.config.Split))
	}
	r.settled.Clear() // the settling period may be another
	r.shadow.Use(c.Rollout.Shadow)
	version, err := TableVersion(c.Table)
	if err != nil {
		r.log.Error("what was counted begins anew", "error", err.Error())
	}
	versions := map[string]string{}
	for _, o := range c.Table.Operations() {
		versions[o.Name] = o.Version()
	}
	r.tables.Store(version, versions)
	r.counts.Use(version)
}

// Shadow compares the answers of both backends.
func (r *Router) Shadow() *evidence.Shadow { return r.shadow }

// How often decisions of other replicas are read, counts are added to the store, the gauges are set, and old rows are swept.
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
		{followEvery, r.follow, "what was decided of the rollout cannot be read, the last of it holds"},
		{flushEvery, r.flush, "what was counted of the rollout cannot be kept, it is tried again"},
		{weighEvery, atMost(gaugesPart, r.setGauges), "the metrics of the rollout's partners are not up to date"},
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

// keepWithin bounds a flush that somebody waits for.
const keepWithin = 2 * time.Second

// Close waits for comparisons until ctx ends, and stores the counts. It is called after Run and the last Route.
func (r *Router) Close(ctx context.Context) error {
	_ = r.shadow.Close(ctx) // what was under way is counted as without an answer
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*keepWithin)
	defer cancel()
	err := r.flush(ctx)
	if err != nil {
		r.giveUp() // a connection without an answer must not delay the end of the process
	}
	return err
}

// sweep removes old rows. While the machine's clock differs too much from the store's it removes nothing.
func (r *Router) sweep(ctx context.Context) error {
	if r.store == nil {
		return nil
	}
	clock := r.store.Clock(r.now())
	if clock.Stepped() {
		return nil
	}
	_, err := r.store.SweepOwners(ctx, clock.StoreTime, r.now(), time.Duration(r.current.Load().config.Keep))
	if err != nil {
		return err
	}
	if _, err = r.store.SweepUnknown(ctx, clock.StoreTime.Add(-time.Duration(r.current.Load().config.Keep))); err != nil {
		return err
	}
	_, err = r.store.SweepCounts(ctx, slices.Collect(maps.Values(r.operations(r.counts.Table()))), clock.StoreTime.Add(-recent))
	return err
}

// Follow reads the decisions at once. It is called after something else than the router has made one.
func (r *Router) Follow(ctx context.Context) error { return r.follow(ctx) }

// follow reads the decisions if their revision has changed.
func (r *Router) follow(ctx context.Context) error {
	if r.store == nil {
		return nil
	}
	r.following.Lock()
	defer r.following.Unlock()
	return r.readDecisions(ctx)
}

// followTo is follow, unless the decisions are of this generation of the store: of many calls that wait for them one reads them.
func (r *Router) followTo(ctx context.Context, generation int64) error {
	r.following.Lock()
	defer r.following.Unlock()
	if r.decided.Load().generation == generation {
		return nil
	}
	return r.readDecisions(ctx)
}

// readDecisions reads the decisions, if their revision or the generation of the store has changed.
func (r *Router) readDecisions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	pending := r.stopping.Load()
	if pending != nil {
		if err := r.store.Stop(ctx, pending.By, pending.At, pending.overridden); err != nil && !errors.Is(err, store.ErrState) {
			return err
		}
	}
	generation := r.store.Generation()
	revision, err := r.store.Revision(ctx)
	if now := r.store.Generation(); err == nil && now != generation { // the first connection to another server
		generation = now
		revision, err = r.store.Revision(ctx)
	}
	known := r.decided.Load()
	if err != nil || revision == known.revision && generation == known.generation {
		if err == nil && known.stopped {
			r.stopping.CompareAndSwap(pending, nil)
		}
		return err
	}
	decided, err := r.store.Rollout(ctx)
	if err != nil {
		return err
	}
	d := &decisions{revision: decided.Revision, generation: generation, stopped: !decided.Stopped.At.IsZero(), restored: decided.Restored.At, of: map[partner.ID]position{}}
	d.unbegun = decided.Begun.At.IsZero() && !decided.Started.IsZero()
	r.countSettling(d, decided.Started)
	for _, s := range decided.Stages {
		p := position{stage: Stage(s.Stage), percent: s.Percent}
		if s.Partner == "" { // a forced default does not force partners that come later
			d.initial = &p
			continue
		}
		p.forced = s.Forced
		d.of[s.Partner] = p
	}
	if generation != known.generation {
		r.recorded.Clear() // the store may lack that they were seen
	}
	if decided.Restored.By == store.ByFailOver && decided.Restored.At.After(known.restored) {
		r.failedOver(known, d, decided.Restored.At)
	}
	r.decided.Store(d)
	if d.stopped {
		r.stopping.CompareAndSwap(pending, nil)
	}
	r.metrics.begun.Set(map[bool]float64{false: 1}[d.unbegun])
	return nil
}

// failedOver reports that the store lacks acknowledged writes, or may lack some. A kill switch that it lacks is turned on again: that it was
// turned off at another gateway in the last second is less likely, and an operator can turn it off again.
func (r *Router) failedOver(known, d *decisions, at time.Time) {
	stages := 0
	for id, p := range known.of {
		if d.of[id] != p {
			stages++
		}
	}
	r.log.Error("the store lacks acknowledged writes, or it is not certain that it has them: from now on both backends are probed for "+
		"bills that are not in the ledger, as after billbridge rollout restored. See billbridge rollout audit",
		"at", at, "stages_that_were_others", stages, "kill_switch_was_lost", known.stopped && !d.stopped)
	if known.stopped && !d.stopped {
		d.stopped = true
		r.stopping.CompareAndSwap(nil, &pendingStop{Declaration: store.Declaration{By: store.ByFailOver, At: r.now()}})
	}
}

// countSettling sets the beginning of the settling period of an incomplete ledger. A wrong clock can only make the period longer.
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
