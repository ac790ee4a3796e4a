package routing

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// A follower follows the decisions of operators, made here and on other replicas.
type follower struct {
	store    *store.Store
	log      *slog.Logger
	now      func() time.Time
	metrics  *metrics
	decided  atomic.Pointer[decisions]
	stopping atomic.Pointer[store.Change] // a kill switch that was turned on here and could not be stored yet
	recorded sync.Map                     // partners that are recorded as seen: partner.ID

	following sync.Mutex // only one Follow at a time: an earlier read must not replace a later one
}

// decisions are those of operators, as of one revision.
type decisions struct {
	revision   int64
	generation int64 // of the store, see store.Generation
	stopped    bool
	restored   time.Time
	unbegun    bool // the store is new, and Begin was not called
	// when the ledger became incomplete: the later of the restore and the start of the rollout on a new store
	since   time.Time
	counted time.Time // the same by the clock of this process, which no step changes
	// the default at ""; without it, that of the config holds
	of map[partner.ID]Position
}

func newDecisions(decided store.Rollout) *decisions {
	d := &decisions{
		revision: decided.Revision, stopped: !decided.Stopped.At.IsZero(), restored: decided.Restored.At,
		unbegun: decided.Begun.At.IsZero() && !decided.Started.IsZero(), of: map[partner.ID]Position{},
	}
	for _, s := range decided.Stages {
		p := At(s.Stage, s.Percent)
		p.Forced = s.Forced && s.Partner != "" // a forced default does not force partners that come later
		d.of[s.Partner] = p
	}
	return d
}

// Revision returns the revision of the decisions that this replica follows.
func (r *follower) Revision() int64 { return r.decided.Load().revision }

// Follow reads the decisions if their revision has changed. It is called after a decision, and at intervals.
func (r *follower) Follow(ctx context.Context) error {
	if r.store == nil {
		return nil
	}
	r.following.Lock()
	defer r.following.Unlock()
	return r.readDecisions(ctx)
}

// followTo is Follow, unless the decisions are of this generation of the store: of many calls that wait for them one
// reads them.
func (r *follower) followTo(ctx context.Context, generation int64) error {
	r.following.Lock()
	defer r.following.Unlock()
	if r.decided.Load().generation == generation {
		return nil
	}
	return r.readDecisions(ctx)
}

// readDecisions reads the decisions, if their revision or the generation of the store has changed.
func (r *follower) readDecisions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	pending := r.stopping.Load()
	if pending != nil {
		if err := r.store.Change(ctx, *pending); err != nil && !errors.Is(err, store.ErrState) {
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
	d := newDecisions(decided)
	d.generation = generation
	r.countSettling(d, decided.Started)
	if generation != known.generation {
		r.recorded.Clear() // the store may lack that they were seen
	}
	if decided.Restored.By == store.ByFailOver && !decided.Restored.At.Equal(known.restored) {
		r.failedOver(known, d, decided.Restored.At)
	}
	r.decided.Store(d)
	if d.stopped {
		r.stopping.CompareAndSwap(pending, nil)
	}
	r.metrics.begun.Set(map[bool]float64{false: 1}[d.unbegun])
	return nil
}

// failedOver reports that the store lacks acknowledged writes, or may lack some. A kill switch that it lacks is
// turned on again: that it was turned off at another gateway in the last second is less likely, and an operator can
// turn it off again.
func (r *follower) failedOver(known, d *decisions, at time.Time) {
	stages := 0
	for id, p := range known.of {
		if d.of[id] != p {
			stages++
		}
	}
	r.log.Error("the store lacks acknowledged writes, or it is not certain that it has them: "+
		"from now on both backends are probed for bills that are not in the ledger, "+
		"as after billbridge rollout restored. See billbridge audit",
		"at", at, "stages_that_were_others", stages, "kill_switch_was_lost", known.stopped && !d.stopped)
	if known.stopped && !d.stopped {
		d.stopped = true
		r.stopping.CompareAndSwap(nil, &store.Change{Action: store.Stopped, By: store.ByFailOver, At: r.now()})
	}
}

// countSettling sets the beginning of the settling period of an incomplete ledger. A wrong clock can only make the
// period longer.
func (r *follower) countSettling(d *decisions, started time.Time) {
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
