package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// scan reads a large part of the ledger when no other scan is running. Several at a time would leave SQLite no reader
// for the calls of partners.
func (o *core) scan(ctx context.Context, read func() error) error {
	select {
	case o.scanning <- struct{}{}:
		defer func() { <-o.scanning }()
		return read()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// openBills counts the bills of the partners of a range.
func (o *core) openBills(ctx context.Context, in store.Range) (bills []store.Bills, err error) {
	err = o.scan(ctx, func() (err error) {
		// By the clock of the store: a wrong clock ends no bill.
		bills, err = o.Store.OpenBillsIn(ctx, in, o.Store.Clock(o.Rollout.Now()).StoreTime)
		return err
	})
	return bills, err
}

// facts reads what is needed of one partner, or of all for "". Each read may take as long as within.
func (o *core) facts(
	ctx context.Context, decided store.Rollout, only partner.ID, within time.Duration, needs moves.Needs,
) *moves.Facts {
	now, counts := o.Rollout.Now(), o.Rollout.Counts()
	f := &moves.Facts{Settings: o.Rollout.Settings(), Decided: decided, Now: now}
	if o.Store != nil {
		f.Clock = o.Store.Clock(now)
	}
	read := func(needed bool, do func(context.Context)) {
		if needed {
			ctx, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			do(ctx)
		}
	}
	read(needs.Seen, func(ctx context.Context) {
		f.Seen = moves.As(o.Store.SeenPartners(ctx, store.AllPartners.Of(only)))
	})
	read(needs.Counted, func(ctx context.Context) {
		counted, err := counts.Of(ctx, only)
		f.Count(counted, err, counts.Limits())
	})
	read(needs.Marked, func(ctx context.Context) { f.Marked = moves.As(counts.Marked(ctx)) })
	return f
}

// preconditionsWithin bounds the search for blocking reasons: an operator may be waiting for the kill switch.
const preconditionsWithin = 3 * time.Second

// undrained reads the bills for the moves to drained: for all of them together as long as for one, as there can be
// millions. If these are many of the partners, it reads the bills of all at once: a query for each would take longer.
func (o *core) undrained(ctx context.Context, f *moves.Facts, of ...moves.Move) {
	ctx, cancel := context.WithTimeout(ctx, preconditionsWithin/2)
	defer cancel()
	f.Bills = map[partner.ID]moves.Known[[]store.Bills]{}
	of = slices.DeleteFunc(of, func(m moves.Move) bool { return m.To.Stage != routing.StageDrained })
	if len(of) > 10 && len(of) > len(f.Seen.Is)/5 {
		bills, err := o.openBills(ctx, store.AllPartners)
		by := map[partner.ID][]store.Bills{}
		for _, b := range bills {
			by[b.Partner] = append(by[b.Partner], b)
		}
		for _, m := range of {
			f.Bills[m.Partner] = moves.As(by[m.Partner], err)
		}
		return
	}
	for _, m := range of {
		f.Bills[m.Partner] = moves.As(o.openBills(ctx, store.AllPartners.Of(m.Partner)))
	}
}

// factsOf returns the facts of a move: what the reasons against it depend on, and the evidence on its partner.
func (o *core) factsOf(ctx context.Context, decided store.Rollout, m moves.Move) *moves.Facts {
	needs := m.Needs()
	needs.Counted = needs.Counted || m.Partner != ""
	f := o.facts(ctx, decided, m.Partner, preconditionsWithin/2, needs)
	o.undrained(ctx, f, m)
	return f
}

// evidenceOn returns the verdicts on a partner, for the audit log.
func evidenceOn(id partner.ID, f *moves.Facts) string {
	const most = 4000
	if _, err := f.Failed(id); err != nil && id != "" {
		return "not read"
	}
	text := evidence.Say("list", f.Verdicts[id]).String()
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + " …"
	}
	return text
}

// hasDefault reports whether a config has a default stage whose changes need the store.
func (o *core) hasDefault(c *config.Config) bool {
	return o.Store != nil && o.Rollout != nil && c.Rollout != nil
}

// CheckDefault returns why the default stage of a config cannot take effect, nil if it can: a changed rollout.default
// moves all partners without a stage of their own, and needs the same preconditions as that move by an operator. If
// there are reasons against it, the error is a [*moves.Blocked]. It writes nothing.
func (o *core) CheckDefault(ctx context.Context, c *config.Config) error {
	if !o.hasDefault(c) {
		return nil
	}
	decided, err := o.Store.Rollout(ctx)
	if err != nil {
		return fmt.Errorf("rollout.default cannot be checked: %w", err)
	}
	b := &moves.Blocked{From: decided.ConfigDefault, To: c.Rollout.Default}
	set := slices.ContainsFunc(decided.Stages, func(s store.Stage) bool { return s.Partner == "" })
	if b.From == "" || b.From == b.To || set {
		return nil
	}
	m := moves.Move{From: routing.At(b.From, 0), To: routing.At(b.To, 0)}
	b.Reasons = o.factsOf(ctx, decided, m).Against(m)
	if len(b.Reasons) == 0 {
		return nil
	}
	return b
}

// AcceptDefault records the default stage of a config that takes effect, for the next CheckDefault.
func (o *core) AcceptDefault(ctx context.Context, c *config.Config) error {
	if !o.hasDefault(c) {
		return nil
	}
	return o.Store.SetConfigDefault(ctx, c.Rollout.Default, o.Rollout.Now())
}

// StartDefault checks the default stage of the config at the start. If there are reasons against it, the one of the
// config that ran last stays, as at a reload, because a gateway that does not start serves no partner.
func StartDefault(ctx context.Context, s *store.Store, r *routing.Router, c *config.Config) error {
	reads := newCore(Options{Store: s, Rollout: r})
	err := reads.CheckDefault(ctx, c)
	if blocked, ok := errors.AsType[*moves.Blocked](err); ok {
		r.KeepDefault(c, blocked.From, blocked)
		return nil
	}
	if err == nil {
		err = reads.AcceptDefault(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("rollout: %w", err)
	}
	return nil
}
