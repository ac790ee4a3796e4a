// Package rollout says which of two upstreams a call goes to, while partners move from the old one to the new one.
//
//	r, err := rollout.New(config, rollout.Options{Store: opened, Registerer: registry, Logger: logger})
//	go r.Run(ctx)                            // follows what operators decide, here and on other replicas
//	way, err := r.Route(ctx, call, ask)      // before anything is sent
//	…
//	err = r.Settle(ctx, way, store.Succeeded) // a create that was on its way has ended
//	r.Count(call, way, end)                   // for the report
//
// Where the upstreams have their own bills each (bills: separate), every bill has an owner, and every call about it goes
// there, whatever the stage of its partner. A ledger in package store keeps who that is; its rows are pending (a create
// may have been sent there), owned (the owner said 0000, or a read found it there) or released (certainly nothing was
// sent, or all of it was refused), and only a released bill is given to another upstream. Who owns a bill that has no
// row:
//
//	a create that the stage sends to the old side    nobody is asked: the new side was never reached but through us
//	a create that the stage sends to the new side    the old side is asked by a read: it may have it from before
//	the same of a drained partner                    nobody is asked
//	any other operation                              both are asked
//	after the store was restored from a backup       the other side is asked always, also for drained partners
//
// Where the side that the stage prefers refuses the caller, whatever the bill, and the other one does so too or has no such
// bill, the caller gets that refusal. Nothing is sent on an answer that leaves it open, but for a read of a bill that the side
// shows which the stage prefers: it would be answered from there in any case.
package rollout

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/config"
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
	store   *store.Store
	log     *slog.Logger
	now     func() time.Time
	metrics *metrics
	tally   *Tally
	shadow  *Shadow
	lost    atomic.Int64 // comparisons that found no place and were drained
	current atomic.Pointer[settings]
	decided atomic.Pointer[decisions]
	settled sync.Map // partners that have been seen for long enough: the hash
	noted   sync.Map // partners of whom the store knows that they were seen

	keeping   context.Context // ends where Close gives up
	giveUp    context.CancelFunc
	flushing  chan struct{} // has one place: what could not be added is there again before it is asked for
	counting  chan struct{} // has one place, for whoever counts the bills in the ledger
	following sync.Mutex    // one at a time: a look that began before a change must not undo what one after it found
}

// settings are what one config says.
type settings struct {
	config *config.Rollout
	sides  [2]string // the upstreams
}

// decisions are what operators decided, as of one revision.
type decisions struct {
	revision int64
	stopped  bool
	restored time.Time
	initial  *Position // of partners that have none of their own; nil is the config's
	of       map[string]Position
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
	if r.metrics, err = newMetrics(o.Registerer, c.Rollout); err != nil {
		return nil, err
	}
	r.tally = NewTally("", o.Now)
	if r.shadow, err = NewShadow(c.Rollout.Shadow, r.tally, o.Registerer, o.Logger); err != nil {
		return nil, err
	}
	r.decided.Store(&decisions{})
	r.Use(c)
	if err := r.follow(ctx); err != nil {
		return nil, fmt.Errorf("rollout: %w", err)
	}
	return r, nil
}

// Use replaces the config.
func (r *Router) Use(c *config.Config) {
	r.current.Store(&settings{config: c.Rollout, sides: [2]string{c.Rollout.Old, c.Rollout.New}})
	r.settled.Clear() // the settling time may be another
	r.shadow.Use(c.Rollout.Shadow)
	version, err := TableVersion(c.Table)
	if err != nil {
		r.log.Error("what was counted begins anew", "error", err.Error())
	}
	r.tally.Use(version)
}

// Shadow compares what both upstreams say.
func (r *Router) Shadow() *Shadow { return r.shadow }

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

// sweep removes what the ledger need not know any more.
func (r *Router) sweep(ctx context.Context) error {
	if r.store == nil {
		return nil
	}
	_, err := r.store.SweepOwners(ctx, r.now(), time.Duration(r.current.Load().config.Keep))
	if err != nil {
		return err
	}
	_, err = r.store.SweepCounts(ctx, r.tally.Table(), r.now().Add(-recent))
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
	revision, err := r.store.Revision(ctx)
	if err != nil || revision == r.decided.Load().revision {
		return err
	}
	decided, err := r.store.Rollout(ctx)
	if err != nil {
		return err
	}
	d := &decisions{revision: decided.Revision, stopped: !decided.Stopped.At.IsZero(), restored: decided.Restored.At, of: map[string]Position{}}
	for _, s := range decided.Stages {
		p := Position{Stage: Stage(s.Stage), Percent: s.Percent}
		if s.Partner == "" { // forced is for one partner, never for all that will ever come
			d.initial = &p
			continue
		}
		p.Forced = s.Forced
		d.of[s.Partner] = p
	}
	r.decided.Store(d)
	return nil
}
