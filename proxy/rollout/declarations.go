package rollout

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/store"
	"billbridge/translate/wording"
)

// stop turns the kill switch on, unless there are blocking reasons and no force: calls that the old backend cannot carry. Reasons
// that cannot be looked up do not block. The stop takes effect here at once, also if it cannot be stored; then it is stored later.
func (r *Router) stop(ctx context.Context, query string) (c Changed, err error) {
	q, c, err := r.parseChange(query, store.Stopped, "preview")
	if err != nil {
		return c, err
	}
	if q.preview {
		return r.previewStop(ctx, c)
	}
	within := preconditionsWithin
	if len(q.force.names) > 0 { // the reasons do not matter
		within /= 6
	}
	reasons, err := r.reasonsAgainstStop(ctx, within)
	if err != nil { // the kill switch must work without the store, too
		r.log.Error("the calls that the old backend cannot carry could not be looked up before the stop", "error", err.Error())
	}
	if err := c.override(reasons, q.force); err != nil {
		ctx, cancel := context.WithTimeout(ctx, preconditionsWithin/6)
		defer cancel()
		if decided, unread := r.store.Rollout(ctx); unread == nil && !decided.Stopped.At.IsZero() {
			return r.alreadyStopped(ctx, decided.Stopped) // it is on already: the reasons do not matter
		}
		return c, err
	}
	ours := &pendingStop{store.Declaration{By: c.By, At: c.At}, joined(c.Overridden)}
	if !r.stopping.CompareAndSwap(nil, ours) {
		if first := r.stopping.Load(); first != nil {
			ours = first
		}
	}
	ctx, cancel := withNewTimeout(ctx)
	defer cancel()
	err = r.store.Stop(ctx, ours.By, ours.At, ours.overridden)
	var was *store.AlreadyStopped
	switch {
	case errors.As(err, &was):
		// If it is equal to ours, it is ours: an earlier attempt was stored, but its answer was lost.
		if was.By != c.By || was.At.UnixMilli() != c.At.UnixMilli() {
			return r.alreadyStopped(ctx, was.Declaration)
		}
	case err != nil:
		r.log.Error("the rollout is stopped on this gateway, but that cannot be stored; retrying every second", "by", ours.By, "error", err.Error())
		c.By, c.At, c.Already = ours.By, ours.At, !ours.At.Equal(c.At)
		c.Unstored = err.Error()
		return c, nil
	}
	c.By, c.At = ours.By, ours.At // perhaps an earlier stop that could not be stored until now
	return c, r.changed(ctx, &c)
}

// A pendingStop is a kill switch that could not be stored yet.
type pendingStop struct {
	store.Declaration
	overridden string
}

// previewStop shows a stop: the first one if the rollout is stopped already, else the reasons against it. As the stop itself, it needs no
// store.
func (r *Router) previewStop(ctx context.Context, c Changed) (Changed, error) {
	read, cancel := context.WithTimeout(ctx, preconditionsWithin/2)
	defer cancel()
	decided, err := r.store.Rollout(read)
	first := decided.Stopped
	if pending := r.stopping.Load(); pending != nil {
		first = pending.Declaration
	}
	if !first.At.IsZero() {
		c.By, c.At, c.Already = first.By, first.At, true
		return c, nil
	}
	reasons, unread := r.reasonsAgainstStop(ctx, preconditionsWithin/2)
	c.Reasons = append([]BlockingReason{}, reasons...)
	switch {
	case err != nil:
		c.WarningParts = wording.Of("the store cannot be read, so reasons against the stop are not known. The stop takes effect on this gateway at once, and on others when the store has recorded it")
		c.Warning = c.WarningParts.String()
	case unread != nil:
		c.Warning = "reasons against the stop could not be looked up: " + unread.Error()
	}
	return c, nil
}

// alreadyStopped answers a stop while the kill switch is on: with the first stop, which stays. Another replica may have made it.
func (r *Router) alreadyStopped(ctx context.Context, first store.Declaration) (Changed, error) {
	err := r.follow(context.WithoutCancel(ctx))
	if err != nil {
		err = fmt.Errorf("the rollout is stopped already, but not yet on this gateway, which could not read it: %w", err)
	}
	return Changed{Revision: r.decided.Load().revision, Action: string(store.Stopped), By: first.By, At: first.At, Already: true}, err
}

// resume turns the kill switch off, also if it could not be stored.
func (r *Router) resume(ctx context.Context, query string) (Changed, error) {
	q, c, err := r.parseChange(query, store.Resumed, "preview")
	if err != nil {
		return c, err
	}
	if q.preview {
		decided, err := r.store.Rollout(ctx)
		if err == nil && decided.Stopped.At.IsZero() && r.stopping.Load() == nil {
			err = errNotStopped
		}
		c.Reasons = []BlockingReason{}
		return c, err
	}
	return r.declared(ctx, q.params, store.Resumed, func(ctx context.Context, by string, at time.Time) error {
		r.following.Lock() // follow may be about to store the stop
		defer r.following.Unlock()
		pending := r.stopping.Load()
		err := r.store.Resume(ctx, by, at)
		if errors.Is(err, store.ErrState) && pending == nil {
			return errNotStopped
		}
		if err == nil || errors.Is(err, store.ErrState) {
			r.stopping.CompareAndSwap(pending, nil)
			return nil
		}
		return err
	})
}

var errNotStopped = &operatorError{http.StatusConflict, "Not changed: the rollout is not stopped."}

// restored declares that the store was restored from a backup.
func (r *Router) restored(ctx context.Context, query string) (Changed, error) {
	return r.declare(ctx, query, store.Restored, func(ctx context.Context, by string, at time.Time) error { return r.store.Restored(ctx, by, at) })
}

// moved declares that an upstream will get another address.
func (r *Router) moved(ctx context.Context, query string) (c Changed, err error) {
	q, err := parseQuery(query, "upstream", "by")
	if err != nil {
		return c, err
	}
	name := q["upstream"]
	if !slices.Contains(r.current.Load().upstreams, name) {
		return c, badRequest("there is no upstream %q in the config: the upstreams are %s", name, strings.Join(r.current.Load().upstreams, ", "))
	}
	delete(q, "upstream")
	c, err = r.declared(ctx, q, store.Moved, func(ctx context.Context, by string, at time.Time) error { return r.store.AllowMove(ctx, name, by, at) })
	c.Subject = name
	return c, err
}

// begin declares that the new backend has no bills of partners except those in the ledger. Bills at the new backend in the ledger are
// a blocking reason: on a new store they were found there, unless a stage was set before.
func (r *Router) begin(ctx context.Context, query string) (c Changed, err error) {
	q, c, err := r.parseChange(query, store.Begun)
	if err != nil {
		return c, err
	}
	decided, err := r.store.Rollout(ctx)
	switch {
	case err != nil:
		return c, err
	case !decided.Begun.At.IsZero():
		return c, &operatorError{http.StatusConflict, fmt.Sprintf("Not changed: the rollout was begun at %s by %s.", decided.Begun.At.UTC().Format(time.RFC3339), decided.Begun.By)}
	}
	if err := c.override(r.reasonsAgainstBegin(ctx), q.force); err != nil {
		return c, err
	}
	ctx, cancel := withNewTimeout(ctx)
	defer cancel()
	if err := r.store.Begin(ctx, c.By, c.At, joined(c.Overridden)); err != nil {
		return c, err
	}
	return c, r.changed(ctx, &c)
}

// declare makes a change that takes no other argument than who makes it.
func (r *Router) declare(ctx context.Context, query string, action store.Action, change func(ctx context.Context, by string, at time.Time) error) (c Changed, err error) {
	q, err := parseQuery(query, "by")
	if err != nil {
		return c, err
	}
	return r.declared(ctx, q, action, change)
}

func (r *Router) declared(ctx context.Context, q params, action store.Action, change func(ctx context.Context, by string, at time.Time) error) (c Changed, err error) {
	c = Changed{Action: string(action), At: r.now()}
	if c.By, err = q.by(); err != nil {
		return c, err
	}
	if err := r.requireStore(); err != nil {
		return c, err
	}
	if err := change(ctx, c.By, c.At); err != nil {
		return c, err
	}
	return c, r.changed(ctx, &c)
}
