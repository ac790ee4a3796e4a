package relay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"
	"billbridge/translate/billing"
)

const (
	// lookEvery is how often the store is asked for bills whose read is due.
	lookEvery = 5 * time.Second
	// lookWithin bounds a read and what is recorded of it. It is less than the time of a claim.
	lookWithin = 30 * time.Second
	// lookOver is how long after its last day an unpaid bill is read for the last time.
	lookOver = 24 * time.Hour
)

// Shown is what a read of a bill has shown.
type Shown struct {
	State    string // of the bill, as its upstream writes it
	Means    string // what the state means; "" if the read did not show the bill
	Absent   bool   // there is no such bill
	Callback []byte // the callback that reports the state, in the upstream's form
}

// ReadBill reads a bill at the upstream that has a callback address.
type ReadBill func(context.Context, store.Address) Shown

// What a look can show.
const (
	unchanged = "unchanged" // the bill is unpaid, or its state is reported, or missing as before
	moved     = "moved"     // its state is not reported yet: it is read again after 30 minutes
	lost      = "missing"   // a second read has shown the same, and no callback has come
	noBill    = "absent"
	unclear   = "unclear" // the read has not shown the bill
	elsewhere = "elsewhere"
)

var looksShow = []string{unchanged, moved, lost, noBill, unclear, elsewhere}

// RunLooks reads bills whose callbacks may be lost, until ctx ends, as callbacks.reconcile says. It sends nothing else
// to upstreams. Several gateways share the work. A bill of a partner whose key no gateway knows is read when the
// partner has called.
func (r *Relay) RunLooks(ctx context.Context, knows func(partner.ID) bool, read ReadBill) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		r.LookDue(ctx, knows, read)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// LookDue makes reads that are due, one at a time, for lookEvery: of each partner one in turn, so that one with many
// bills does not hold up the others.
func (r *Relay) LookDue(ctx context.Context, knows func(partner.ID) bool, read ReadBill) {
	if r.current.Load().callbacks.Reconcile == nil {
		return
	}
	partners, err := r.store.DueLooks(ctx, r.now())
	r.lookFailed(ctx, err)
	// Not longer: other partners may be due by then.
	for until := time.Now().Add(lookEvery); len(partners) > 0 && time.Now().Before(until); {
		partners = slices.DeleteFunc(partners, func(id partner.ID) (done bool) {
			config := r.current.Load().callbacks.Reconcile
			if ctx.Err() != nil || config == nil || !knows(id) {
				return true
			}
			more, err := r.look(ctx, id, read)
			r.lookFailed(ctx, err)
			if more {
				select {
				case <-ctx.Done():
				case <-time.After(time.Second / time.Duration(config.Rate)):
				}
			}
			return !more
		})
	}
}

// lookFailed logs an error of a look.
func (r *Relay) lookFailed(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		r.storeLog.Error("a bill whose callback may be lost cannot be read; the gateway tries again",
			"error", err.Error())
	}
}

// look reads the bill of a partner that has been due for longest. more is false if there is none, or after an error.
func (r *Relay) look(ctx context.Context, id partner.ID, read ReadBill) (more bool, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			more, err = false, fmt.Errorf("panic: %v", panicked)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	s := r.current.Load()
	l, at, err := r.store.ClaimLook(ctx, id, r.now())
	if err != nil || at.IsZero() || s.callbacks.Reconcile == nil {
		return false, err
	}
	owner, err := r.store.Bill(ctx, id, l.Bill)
	if err != nil {
		return false, err
	}
	shown, result, next := Shown{}, elsewhere, s.nextLook(l.Created, at)
	if at.After(l.Created.Add(s.callbacks.Retention / 2)) { // long before its callbacks are removed
		return true, r.store.EndLook(ctx, l, time.Time{})
	}
	if owner.State == ledger.Unrecorded || owner.Upstream == l.Upstream || owner.OfOther(l.Merchant) {
		within, cancel := context.WithTimeout(ctx, lookWithin/2)
		shown, result = read(within, l.Address), unclear
		cancel()
	}
	if err := ctx.Err(); err != nil { // the gateway ends, and another one reads the bill after the claim
		return false, err
	}
	switch {
	case shown.Absent:
		result = noBill
	case billing.Unpaid(s.config.Table, shown.Means):
		l, result = store.Look{Address: l.Address, Shown: shown.Means}, unchanged
		if !l.Until.IsZero() && at.After(l.Until.Add(lookOver)) {
			next = time.Time{}
		}
	case shown.Means != "":
		if result, next, err = r.compare(ctx, s, &l, shown, at, next); err != nil {
			return false, err
		}
	case !l.Since.IsZero() && l.Missing.IsZero():
		next = at.Add(s.callbacks.Reconcile.After)
	}
	r.metrics.looks.WithLabelValues(result).Inc()
	return true, r.store.EndLook(ctx, l, next)
}

// compare compares the state that a read at a time has shown, which has moved, with the callbacks of the bill. It
// returns what that shows, and when the next read is.
func (r *Relay) compare(
	ctx context.Context, s *settings, l *store.Look, shown Shown, at, next time.Time,
) (result string, _ time.Time, err error) {
	config, final := s.callbacks.Reconcile, billing.Final(s.config.Table, shown.Means)
	told, tells, err := r.store.Told(ctx, subject(l.Address, l.Bill), l.Merchant, s.later(shown.Means), l.Upstream,
		shown.Means)
	before := *l
	*l = store.Look{Address: l.Address, Shown: shown.Means}
	switch {
	case err != nil:
		return "", next, err
	// Not every upstream reports cancels. A callback of one that does not would be invented.
	case told, final && !tells:
		if final {
			next = time.Time{}
		}
		return unchanged, next, nil
	case before.Shown != shown.Means || before.Since.IsZero():
		l.Since = at
		return moved, at.Add(time.Duration(config.After)), nil
	case at.Sub(before.Since) < time.Duration(config.After):
		*l = before
		return moved, before.Since.Add(time.Duration(config.After)), nil
	}
	*l, result = before, unchanged
	if l.Missing.IsZero() {
		l.Missing, result = at, lost
	}
	log := r.log.With("upstream", l.Upstream, "partner", l.Partner.Short(), "bill", billing.MaskBill(l.Bill),
		"bill_state", shown.State, "since", l.Since)
	if result == lost {
		log.Warn("the callback of a bill is missing: two reads have shown the state, and no callback reported it")
	}
	if !config.Deliver {
		return result, next, nil
	}
	made, why, err := r.make(ctx, s, l.Address, shown)
	if l.Why = why; made != "" {
		log.Warn("a callback was made from a read, in place of the missing one", "callback", made)
	}
	return result, next, err
}

// make stores the callback of a read for delivery, and returns its id. It is "" if a callback of the bill has reported
// the state in the meantime, or if the read lacks what a callback needs: then why says so.
func (r *Relay) make(ctx context.Context, s *settings, a store.Address, shown Shown) (id, why string, err error) {
	state, err := r.store.Rollout(ctx)
	upstream := s.config.Upstreams.Find(a.Upstream)
	switch {
	case err != nil:
		return "", "", err
	case !a.Created.After(state.Restored.At): // the store may lack a callback that was delivered
		return "", "restored", nil
	case upstream == nil:
		return "", "upstream", nil
	}
	in := inbound{relay: r, s: s, form: upstream.Form, address: a}
	c, notice, refused := in.callback("", shown.Callback)
	switch {
	case refused != nil:
		return "", refused.reason, nil
	case len(notice.Report.Defaulted) > 0: // no read has shown this value
		return "", "default", nil
	case c.Says != shown.Means:
		return "", "state", nil
	}
	for _, role := range s.rows.IdentifiedBy() {
		if len(notice.Values[role]) == 0 {
			return "", "no_" + role, nil
		}
	}
	c.ID = store.MadePrefix + random()
	fresh, ended, err := r.store.Accept(ctx, c, s.callbacks.Window)
	if err != nil || !fresh {
		return "", "", err
	}
	r.superseded(ended)
	r.Wake()
	return c.ID, "", nil
}

// nextLook is when a bill is read after a read or a callback: the newer it is, the more often.
func (s *settings) nextLook(created, now time.Time) time.Time {
	if s.callbacks.Reconcile == nil { // if it is switched on, the bill is read
		return now
	}
	return now.Add(max(s.callbacks.Reconcile.Every, now.Sub(created)/4))
}

// later are the states after which a callback with a state is no news, the state among them. Of an unknown one these
// are all.
func (s *settings) later(means string) string {
	return strings.Join(billing.Later(s.config.Table, means), " ")
}
