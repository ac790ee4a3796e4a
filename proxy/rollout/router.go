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
// Nothing is sent on an answer that leaves it open, but for a read of a bill that the side shows which the stage
// prefers: it would be answered from there in any case.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
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

	flushing  chan struct{} // has one place: what could not be added is there again before it is asked for
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

// A Call is what a decision needs to know of a call of an operation that both upstreams have.
type Call struct {
	Operation       string
	Creates, Writes bool
	Partner         string // the full SHA-256 of the key, in hex; empty if the call names none
	Merchant, Bill  string
	Until           time.Time // when the bill is over; zero if that is not known
}

// A Finding is what a side says of a bill.
type Finding int

// The findings. What is no well-formed answer, and every failure but a definitive not-found, is Unclear.
const (
	Unclear Finding = iota
	Absent
	Present
)

// An Ask reads the call's bill at an upstream.
type Ask func(ctx context.Context, upstream string) Finding

// A Way is where a call goes.
type Way struct {
	Upstream string
	Reason   Reason

	// Nowhere: neither side has the bill. Nothing is sent: what the side that is named here said to the read is the
	// answer.
	Nowhere bool
	// Unsure: the ledger is out of reach, so that only a bill that is found may be answered with. "Not found" must not be
	// relayed: the bill may be at the other side.
	Unsure bool

	// Compare is the other upstream, where its answer to the same call is to be compared (see Shadow). "" for none.
	Compare string
	// ReadBack: a bill that the call makes is one of canary, and is to be read back there.
	ReadBack bool

	create *store.Create
}

// refusals are the reasons of Refused.
var refusals = []string{"unclear", "both", "stranger", "store"}

const strange = "the bill is at an upstream that is no part of the rollout"

// A Refused call is not sent: it is not known where it belongs. Its text is for the partner.
type Refused struct {
	Reason string // one of refusals, for metric and log
	Text   string
	Cause  error // may be nil
}

func (r *Refused) Error() string { return r.Text }

func (r *Refused) Unwrap() error { return r.Cause }

// Route says where a call goes, and notes a create in the ledger before it may be sent. The error is a [*Refused].
func (r *Router) Route(ctx context.Context, c Call, ask Ask) (Way, error) {
	way, err := r.route(ctx, c, ask)
	if err != nil {
		var refused *Refused
		errors.As(err, &refused)
		r.metrics.refused.WithLabelValues(refused.Reason).Inc()
		return Way{}, err
	}
	r.metrics.routed.WithLabelValues(way.Upstream, string(way.Reason)).Inc()
	return way, nil
}

func (r *Router) route(ctx context.Context, c Call, ask Ask) (Way, error) {
	s, d := r.current.Load(), r.decided.Load()
	at := situation{shared: s.config.Bills == config.Shared, position: r.position(s, d, c.Partner), stopped: d.stopped, restored: !d.restored.IsZero()}
	at.chosen = share(s.config.Salt, c.Partner, c.Merchant, at.position.Percent)
	var err error
	if at.position.Forced {
		r.tally.Know(c.Partner)
	}
	if at.settled = at.position.Forced || at.shared; !at.settled {
		if at.settled, err = r.isSettled(ctx, s, c.Partner); err != nil {
			return r.blind(s, at, c, err)
		}
	}
	way, err := r.decide(ctx, s, d, at, c, ask)
	if err != nil || way.Nowhere || way.Unsure {
		return way, err
	}
	side, _ := s.side(way.Upstream)
	if at.position.Stage == StageShadow && !c.Writes && !at.stopped && c.Partner != "" {
		way.Compare = s.sides[1-side]
	}
	way.ReadBack = at.position.Stage == StageCanary && side == NewSide && c.Creates
	return way, nil
}

// decide finds the way in a situation that but for the bill's owner is known.
func (r *Router) decide(ctx context.Context, s *settings, d *decisions, at situation, c Call, ask Ask) (Way, error) {
	if at.shared || c.Partner == "" || c.Bill == "" { // the upstream refuses what names none
		way := at.byStage()
		return Way{Upstream: s.sides[way.side], Reason: way.reason}, nil
	}
	if c.Creates && d.restored.IsZero() && !at.create().ask {
		return r.create(ctx, s, at, c, ask) // nobody is asked, and the ledger says whose the bill is when it notes the create
	}
	done := r.metrics.timed("owner")
	row, err := r.store.Owner(ctx, c.Partner, c.Bill)
	done()
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return r.blind(s, at, c, err)
	case row.State != store.Released:
		owner, ok := s.side(row.Upstream)
		switch {
		case !ok:
			return Way{}, &Refused{Reason: "stranger", Text: strange}
		case row.State == store.Owned || row.Changed.After(d.restored):
			at.owner = &owner
		default:
			at.stale = &owner
		}
	}
	if c.Creates {
		return r.create(ctx, s, at, c, ask)
	}
	return r.other(ctx, s, at, c, ask)
}

// unknownEnd is when a bill is taken for over whose last day nobody says.
const unknownEnd = 365 * 24 * time.Hour

// create takes a create to the side that may make the bill.
func (r *Router) create(ctx context.Context, s *settings, at situation, c Call, ask Ask) (Way, error) {
	d := at.create()
	if d.ask {
		other := s.sides[1-d.side]
		switch ask(ctx, other) {
		case Present:
			if err := r.found(ctx, c, other); err != nil {
				return Way{}, outOfReach(err)
			}
			d = decision{side: 1 - d.side, reason: ByProbe}
		case Unclear:
			return Way{}, &Refused{Reason: "unclear", Text: "it is not known whether the bill has been made at the other backend"}
		case Absent:
		}
	}
	if !c.Until.After(r.now()) {
		c.Until = r.now().Add(unknownEnd)
	}
	done := r.metrics.timed("own")
	create, err := r.store.Own(ctx, c.Partner, c.Bill, s.sides[d.side], r.now(), c.Until)
	done()
	switch {
	case errors.Is(err, store.ErrBill): // no backend takes such an id: let it say so
		return Way{Upstream: s.sides[d.side], Reason: d.reason}, nil
	case err != nil:
		return Way{}, outOfReach(err)
	case create.State == store.Owned || create.Open > 1 || create.Upstream != s.sides[d.side]: // the bill was there, or another create was faster
		d.reason = ByOwner
		if _, ok := s.side(create.Upstream); !ok { // through a replica with other sides: nothing goes out here
			_, err := r.store.Settle(ctx, create, store.NotSent, r.now())
			return Way{}, &Refused{Reason: "stranger", Text: strange, Cause: err}
		}
	}
	return Way{Upstream: create.Upstream, Reason: d.reason, create: &create}, nil
}

// other takes any other operation to the bill's owner.
func (r *Router) other(ctx context.Context, s *settings, at situation, c Call, ask Ask) (Way, error) {
	d := at.other()
	if !d.ask {
		return Way{Upstream: s.sides[d.side], Reason: d.reason}, nil
	}
	found := r.askBoth(ctx, s, ask, d.side, c.Writes)
	way := Way{Upstream: s.sides[d.side], Reason: ByProbe}
	switch found {
	case [2]Finding{Absent, Absent}:
		way.Nowhere = true
		return way, nil
	case [2]Finding{Present, Present}:
		r.metrics.doubled.Inc()
		r.log.Error("a bill is at both upstreams", "partner", c.Partner[:12], "operation", c.Operation)
		if c.Writes {
			return Way{}, &Refused{Reason: "both", Text: "the bill is at both backends: somebody must decide"}
		}
		return way, nil
	case [2]Finding{Present, Absent}:
		way.Upstream = s.sides[OldSide]
	case [2]Finding{Absent, Present}:
		way.Upstream = s.sides[NewSide]
	default:
		// A read of a bill that is at both would be answered by the preferred side, too: what the other one would have said
		// makes no difference to it.
		if !c.Writes && found[d.side] == Present {
			way.Unsure = true // what it says now may be something else than a moment ago
			return way, nil
		}
		return Way{}, &Refused{Reason: "unclear", Text: "it is not known at which backend the bill is"}
	}
	switch err := r.found(ctx, c, way.Upstream); {
	case err == nil, errors.Is(err, store.ErrBill):
		return way, nil
	default:
		return Way{}, outOfReach(err)
	}
}

// aside is how long a read that the preferred side can answer waits for the other one to say whose the bill is.
const aside = 250 * time.Millisecond

// askBoth asks both sides at once. For a read it waits for the side that is not preferred a little only, if the
// preferred one has the bill: that one answers it in any case.
func (r *Router) askBoth(ctx context.Context, s *settings, ask Ask, preferred Side, writes bool) (found [2]Finding) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		side  Side
		found Finding
	}
	answers := make(chan answer, 2) // nobody may wait for the second
	for side, upstream := range s.sides {
		go func() {
			found := Unclear
			defer func() {
				// A panic must not end the process, which has partners to answer. Its value may hold what an answer says.
				if panicked := recover(); panicked != nil {
					found = Unclear
					r.log.Error("panic in a question", "type", fmt.Sprintf("%T", panicked), "stack", string(debug.Stack()))
				}
				answers <- answer{Side(side), found}
			}()
			found = ask(ctx, upstream)
		}()
	}
	first := <-answers
	found[first.side] = first.found
	var late <-chan time.Time
	if !writes && first.side == preferred && first.found == Present {
		timer := time.NewTimer(aside)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case second := <-answers:
		found[second.side] = second.found
	case <-late:
	}
	return found
}

func (r *Router) found(ctx context.Context, c Call, upstream string) error {
	defer r.metrics.timed("found")()
	_, err := r.store.Found(ctx, c.Partner, c.Bill, upstream, r.now())
	return err
}

// blind decides without the ledger.
func (r *Router) blind(s *settings, at situation, c Call, err error) (Way, error) {
	if c.Writes {
		return Way{}, outOfReach(err)
	}
	d := at.byStage()
	return Way{Upstream: s.sides[d.side], Reason: d.reason, Unsure: true}, nil
}

func outOfReach(err error) *Refused {
	return &Refused{Reason: "store", Text: "it cannot be noted just now at which backend the bill is", Cause: err}
}

// Settle notes how a create ended, after a way that Route gave. Of any other way it notes nothing.
func (r *Router) Settle(ctx context.Context, w Way, outcome store.Outcome) error {
	if w.create == nil {
		return nil
	}
	defer r.metrics.timed("settle")()
	_, err := r.store.Settle(ctx, *w.create, outcome, r.now())
	if errors.Is(err, store.ErrOtherOwner) {
		r.metrics.doubled.Inc()
	}
	return err
}

// Saw notes that a partner was seen: that a call of it was taken by an upstream.
func (r *Router) Saw(ctx context.Context, partner string) error {
	if _, known := r.noted.Load(partner); known || r.store == nil || partner == "" {
		return nil
	}
	if err := r.store.Seen(ctx, partner, r.now()); err != nil {
		return err
	}
	r.noted.Store(partner, nil)
	return nil
}

// isSettled tells whether a partner has been seen through us for so long that nothing is under way past us.
func (r *Router) isSettled(ctx context.Context, s *settings, partner string) (bool, error) {
	if _, known := r.settled.Load(partner); known || r.store == nil {
		return true, nil
	}
	first, err := r.store.FirstSeen(ctx, partner)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	r.noted.Store(partner, nil)
	r.tally.Know(partner)
	if r.now().Sub(first) < time.Duration(s.config.Settle) {
		return false, nil
	}
	if r.current.Load() == s { // else the settling time may be another
		r.settled.Store(partner, nil)
	}
	return true, nil
}

// position is where a partner stands.
func (r *Router) position(s *settings, d *decisions, partner string) Position {
	if p, ok := d.of[partner]; ok {
		return p
	}
	if d.initial != nil {
		return *d.initial
	}
	return Position{Stage: Stage(s.config.Default)}
}

func (s *settings) side(upstream string) (Side, bool) {
	for side, name := range s.sides {
		if name == upstream {
			return Side(side), true
		}
	}
	return 0, false
}

// New makes a router that works by the config, which has a rollout.
func New(ctx context.Context, c *config.Config, o Options) (*Router, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Router{store: o.Store, log: o.Logger, now: o.Now, flushing: make(chan struct{}, 1)}
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
	return r.flush(ctx)
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
