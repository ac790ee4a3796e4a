package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// Stop turns the kill switch on, unless there are blocking reasons and no force: calls that the old backend cannot
// carry. Reasons that cannot be looked up do not block. The stop takes effect here at once, also if it cannot be
// stored; then it is stored later.
func (o *Operator) Stop(ctx context.Context, s Switch) (c Change, err error) {
	if c, err = o.begin(s.Decision, store.Stopped, s.Preview); err != nil {
		return c, err
	}
	within := preconditionsWithin
	switch {
	case s.Preview:
		within /= 2
	case len(s.Force) > 0 && !s.Force.bare(): // the reasons do not matter
		within /= 6
	}
	read, done := context.WithTimeout(ctx, within)
	defer done()
	var reasons []moves.BlockingReason
	decided, unread := o.Store.Rollout(read)
	unchecked := unread
	if unread == nil {
		reasons, unchecked = o.facts(read, decided, "", within, moves.Needs{Marked: true}).AgainstStop()
	}
	if s.Preview {
		return o.previewStop(c, decided.Stopped, reasons, unread, unchecked), nil
	}
	if unchecked != nil { // the kill switch must work without the store, too
		o.Logger.Error(
			"the calls that the old backend cannot carry could not be looked up before the stop",
			"error", unchecked.Error(),
		)
	}
	if err := c.override(reasons, s.Force); err != nil {
		if !decided.Stopped.At.IsZero() {
			return o.alreadyStopped(ctx, decided.Stopped) // it is on already: the reasons do not matter
		}
		return c, err
	}
	ctx, cancel := withNewTimeout(ctx)
	defer cancel()
	ours, err := o.Rollout.Stop(ctx, c.inStore(store.Change{}))
	var was *store.AlreadyStopped
	switch {
	case errors.As(err, &was):
		// If it is equal to ours, it is ours: an earlier attempt was stored, but its answer was lost.
		if was.By != c.By || was.At.UnixMilli() != c.At.UnixMilli() {
			return o.alreadyStopped(ctx, was.Declaration)
		}
	case err != nil:
		o.Logger.Error("the rollout is stopped on this gateway, but that cannot be stored; retrying every second",
			"by", ours.By, "error", err.Error())
		c.By, c.At, c.Reason, c.Already = ours.By, ours.At, ours.Reason, !ours.At.Equal(c.At)
		c.Unstored = err.Error()
		return c, nil
	}
	c.By, c.At, c.Reason = ours.By, ours.At, ours.Reason // perhaps an earlier stop that could not be stored until now
	return o.changed(ctx, c)
}

// previewStop shows a stop: the first one if the rollout is stopped already, else the reasons against it. As the stop
// itself, it needs no store.
func (o *Operator) previewStop(
	c Change, first store.Declaration, reasons []moves.BlockingReason, unread, unchecked error,
) Change {
	if pending := o.Rollout.Stopping(); pending != nil {
		first = *pending
	}
	if !first.At.IsZero() {
		c.By, c.At, c.Reason, c.Already = first.By, first.At, first.Reason, true
		return c
	}
	c.Reasons = list(reasons)
	switch {
	case unread != nil:
		c.Warning = evidence.Say("stop_unread")
	case unchecked != nil:
		c.Warning = evidence.Say("stop_unchecked", unchecked)
	}
	return c
}

// alreadyStopped answers a stop while the kill switch is on: with the first stop, which stays. Another replica may
// have made it.
func (o *core) alreadyStopped(ctx context.Context, first store.Declaration) (Change, error) {
	err := o.Rollout.Follow(context.WithoutCancel(ctx))
	if err != nil {
		err = fmt.Errorf(
			"the rollout is stopped already, but not yet on this gateway, which could not read it: %w", err,
		)
	}
	return Change{
		Revision: o.Rollout.Revision(), Action: string(store.Stopped), By: first.By, At: first.At,
		Reason: first.Reason, Already: true,
	}, err
}

var errNotStopped = conflict("Not changed: the rollout is not stopped.")

// Resume turns the kill switch off, also if it could not be stored.
func (o *Operator) Resume(ctx context.Context, s Switch) (Change, error) {
	if !s.Preview {
		c, err := o.declare(ctx, s.Author, store.Change{Action: store.Resumed})
		if errors.Is(err, store.ErrState) {
			err = errNotStopped
		}
		return c, err
	}
	c, err := o.begin(s.Decision, store.Resumed, true)
	if err != nil {
		return c, err
	}
	decided, err := o.Store.Rollout(ctx)
	if err == nil && decided.Stopped.At.IsZero() && o.Rollout.Stopping() == nil {
		err = errNotStopped
	}
	c.Reasons = []moves.BlockingReason{}
	return c, err
}

// Restored declares that the store was restored from a backup.
func (o *Operator) Restored(ctx context.Context, a Author) (Change, error) {
	return o.declare(ctx, a, store.Change{Action: store.Restored})
}

// A MovedUpstream will get another address.
type MovedUpstream struct {
	Author
	Upstream string `json:"upstream"`
}

// Moved declares that an upstream will get another address.
func (o *Operator) Moved(ctx context.Context, m MovedUpstream) (Change, error) {
	var names []string
	for _, u := range o.Config().Upstreams {
		names = append(names, u.Name)
	}
	if !slices.Contains(names, m.Upstream) {
		return Change{}, badRequest(
			"there is no upstream %q in the config: the upstreams are %s", m.Upstream, strings.Join(names, ", "),
		)
	}
	c, err := o.declare(ctx, m.Author, store.Change{Action: store.Moved, Subject: m.Upstream})
	c.Subject = m.Upstream
	return c, err
}

// declare makes a change that has no reasons against it.
func (o *core) declare(ctx context.Context, a Author, of store.Change) (Change, error) {
	c, err := o.begin(Decision{Author: a}, of.Action, false)
	if err != nil {
		return c, err
	}
	return o.commit(ctx, c, nil, nil, of)
}

// Begin declares that the new backend has no bills of partners except those in the ledger. Bills at the new backend
// in the ledger are a blocking reason: on a new store they were found there, unless a stage was set before.
func (o *Operator) Begin(ctx context.Context, d Decision) (c Change, err error) {
	if c, err = o.begin(d, store.Begun, false); err != nil {
		return c, err
	}
	decided, err := o.Store.Rollout(ctx)
	switch {
	case err != nil:
		return c, err
	case !decided.Begun.At.IsZero():
		return c, conflict(
			"Not changed: the rollout was begun at %s by %s.",
			decided.Begun.At.UTC().Format(time.RFC3339), decided.Begun.By,
		)
	}
	bills, err := o.openBills(ctx, store.AllPartners)
	return o.commit(ctx, c, moves.AgainstBegin(o.Rollout.Settings(), bills, err), d.Force, store.Change{})
}

// A Reset removes the counts of a partner, or of All, after the cause of a FAIL was fixed.
type Reset struct {
	Decision
	PartnerRef
}

// Reset removes counts. Verdicts that are FAIL are a blocking reason.
func (o *Operator) Reset(ctx context.Context, r Reset) (c Change, err error) {
	if c, err = o.begin(r.Decision, store.Reset, false); err != nil {
		return c, err
	}
	id := partner.ID("")
	if r.Partner != All {
		id, err = o.named(ctx, r.Partner)
		if err == nil && id == "" || r.Partner == "" {
			err = badRequest("partner is missing: name one, or %s", All)
		}
		if err != nil {
			return c, err
		}
	}
	c.about(o.core, id, All)
	facts := o.facts(ctx, store.Rollout{}, id, preconditionsWithin, moves.Needs{Counted: true})
	return o.commit(ctx, c, facts.AgainstReset(), r.Force, store.Change{
		Partner: id, Evidence: evidenceOn(id, facts),
	})
}

// A Clock compares the machine's clock, or PostgreSQL's, with the store's.
type Clock struct {
	Store   time.Time `json:"store"`
	Offset  float64   `json:"offset_seconds"` // by which the machine's is ahead
	Stepped bool      `json:"stepped"`        // they differ so much that old rows are not removed
}

// Machine returns the time by the machine's clock, or PostgreSQL's.
func (c Clock) Machine() time.Time {
	return c.Store.Add(time.Duration(c.Offset * float64(time.Second)))
}

// Clock returns the clocks.
func (o storeVerbs) Clock(context.Context, struct{}) (Clock, error) {
	c := o.Store.Clock(o.Now())
	return Clock{c.StoreTime.Truncate(time.Millisecond).UTC(), c.Offset.Seconds(), c.Stepped()}, nil
}

// ConfirmClock declares that the machine's clock, or PostgreSQL's, is right.
func (o storeVerbs) ConfirmClock(ctx context.Context, a Author) (Clock, error) {
	if err := a.check(); err != nil {
		return Clock{}, err
	}
	if err := o.Store.ConfirmClock(ctx, a.author(), o.Now()); err != nil {
		return Clock{}, fmt.Errorf("not confirmed: %w", err)
	}
	o.Logger.Warn("the clock was confirmed", "by", a.By)
	if o.Tick != nil {
		o.Tick(ctx)
	}
	return o.Clock(ctx, struct{}{})
}

// A Reading is an attempt to read the config. If it was refused, the last good config stays.
type Reading struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"` // "" if it is in force
}

// NoteReading keeps the result of an attempt to read the config.
func (o *Operator) NoteReading(err error) {
	last := &Reading{At: o.Now()}
	if err != nil {
		last.Error = Explain(err).Error()
	}
	o.reading.Store(last)
}

// LastReading returns the result of the last attempt to read the config.
func (o *Operator) LastReading() Reading { return *o.reading.Load() }
