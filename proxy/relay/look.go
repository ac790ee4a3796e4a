package relay

import (
	"context"
	"strings"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/store"
	"billbridge/translate/billing"
)

// lookOver is how long after its last day an unpaid bill is read for the last time.
const lookOver = 24 * time.Hour

// Shown is what a read of a bill has shown.
type Shown struct {
	State    string // of the bill, as its upstream writes it
	Means    string // what the state means; "" if the read did not show the bill, or there was none
	Callback []byte // the callback that reports the state, in the upstream's form
}

// MayShow reports whether a read for a look may show its bill, by what the ledger has: else it is at another upstream.
func MayShow(b ledger.Bill, l store.Look) bool {
	return b.State == ledger.Unrecorded || b.Upstream == l.Upstream || b.OfOther(l.Merchant)
}

// Looked records what a read for a look, which was claimed at a time, has shown, and plans the next one. If the state
// has moved, it is compared with the callbacks of the bill.
func (r *Relay) Looked(ctx context.Context, l store.Look, at time.Time, shown Shown) (err error) {
	s := r.current.Load()
	if s.callbacks.Reconcile == nil { // since the claim
		return nil
	}
	next := s.nextLook(l.Created, at)
	switch {
	case billing.Unpaid(s.config.Table, shown.Means):
		l = store.Look{Address: l.Address, Shown: shown.Means}
		if !l.Until.IsZero() && at.After(l.Until.Add(lookOver)) {
			next = time.Time{}
		}
	case shown.Means != "":
		next, err = r.compare(ctx, s, &l, shown, at, next)
	case !l.Since.IsZero() && l.Missing.IsZero():
		next = at.Add(s.callbacks.Reconcile.After)
	}
	if err != nil {
		return err
	}
	return r.store.EndLook(ctx, l, next)
}

// compare compares the state that a read at a time has shown, which has moved, with the callbacks of the bill. It
// returns when the next read is.
func (r *Relay) compare(
	ctx context.Context, s *settings, l *store.Look, shown Shown, at, next time.Time,
) (time.Time, error) {
	config, final := s.callbacks.Reconcile, billing.Final(s.config.Table, shown.Means)
	reported, reports, err := r.store.Told(ctx, subject(l.Address, l.Bill), l.Merchant, s.later(shown.Means),
		l.Upstream, shown.Means)
	before := *l
	*l = store.Look{Address: l.Address, Shown: shown.Means, Since: at}
	switch {
	case err != nil:
		return next, err
	// Not every upstream reports cancels. A callback of one that does not would be invented.
	case reported, final && !reports:
		if l.Since = (time.Time{}); final {
			next = time.Time{}
		}
		return next, nil
	case before.Shown == shown.Means && !before.Since.IsZero():
		*l = before
	}
	if second := l.Since.Add(config.After); at.Before(second) {
		return second, nil
	}
	log := r.log.With("upstream", l.Upstream, "partner", l.Partner.Short(), "bill", billing.MaskBill(l.Bill),
		"bill_state", shown.State, "since", l.Since)
	if l.Missing.IsZero() {
		l.Missing = at
		log.Warn("the callback of a bill is missing: two reads have shown the state, and no callback reported it")
	}
	if !config.Deliver {
		return next, nil
	}
	made, why, err := r.make(ctx, s, l.Address, shown)
	if l.Why = why; made != "" {
		log.Warn("a callback was made from a read, in place of the missing one", "callback", made)
	}
	return next, err
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
	got, err := r.store.Accept(ctx, c, s.callbacks.Window)
	if err != nil || !got.Fresh {
		return "", "", err
	}
	r.superseded(got.Ended)
	r.Wake()
	return c.ID, "", nil
}

// nextLook is when a bill is read after a read or a callback: the newer it is, the more often, and zero, which is no
// more, long before its callbacks are removed.
func (s *settings) nextLook(created, now time.Time) time.Time {
	if s.callbacks.Reconcile == nil { // if it is switched on, the bill is read
		return now
	}
	next := now.Add(max(s.callbacks.Reconcile.Every, now.Sub(created)/4))
	if next.After(created.Add(s.callbacks.Retention / 2)) {
		return time.Time{}
	}
	return next
}

// later are the states after which a callback with a state is no news, the state among them. Of an unknown one these
// are all.
func (s *settings) later(means string) string {
	return strings.Join(s.config.Table.States(billing.State).After(means), " ")
}
