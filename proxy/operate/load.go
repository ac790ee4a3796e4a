package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"billbridge/config"
	"billbridge/proxy/moves"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// A reader reads what decisions depend on.
type reader struct {
	store    *store.Store
	rollout  *routing.Router
	scanning chan struct{} // holds one
}

func newReader(s *store.Store, r *routing.Router) reader {
	return reader{s, r, make(chan struct{}, 1)}
}

// beginScan waits until no other scan is running: a read of a large part of the ledger. Several at a time would leave
// SQLite no reader for the calls of partners. The caller must call end after its own.
func (r reader) beginScan(ctx context.Context) (end func(), err error) {
	select {
	case r.scanning <- struct{}{}:
		return func() { <-r.scanning }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// openBills counts the bills of the partners of a range.
func (r reader) openBills(ctx context.Context, in store.Range) ([]store.Bills, error) {
	end, err := r.beginScan(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return r.store.OpenBillsIn(ctx, in, r.store.Clock(r.rollout.Now()).StoreTime) // a wrong clock ends no bill
}

// facts reads what is needed of one partner, or of all for "". Each read may take as long as within.
func (r reader) facts(
	ctx context.Context, decided store.Rollout, only partner.ID, within time.Duration, needs moves.Needs,
) *moves.Facts {
	now, counts := r.rollout.Now(), r.rollout.Counts()
	f := &moves.Facts{Settings: r.rollout.Settings(), Decided: decided, Now: now}
	if r.store != nil {
		f.Clock = r.store.Clock(now)
	}
	read := func(needed bool, do func(context.Context)) {
		if needed {
			ctx, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			do(ctx)
		}
	}
	read(needs.Seen, func(ctx context.Context) {
		f.Seen = moves.As(r.store.SeenPartners(ctx, store.AllPartners.Of(only)))
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
// millions.
func (r reader) undrained(ctx context.Context, f *moves.Facts, of ...moves.Move) {
	ctx, cancel := context.WithTimeout(ctx, preconditionsWithin/2)
	defer cancel()
	f.Bills = map[partner.ID]moves.Known[[]store.Bills]{}
	for _, m := range of {
		if m.To.Stage == routing.StageDrained {
			f.Bills[m.Partner] = moves.As(r.openBills(ctx, store.AllPartners.Of(m.Partner)))
		}
	}
}

// against returns the facts of a move, and the reasons against it.
func (r reader) against(ctx context.Context, decided store.Rollout, m moves.Move) []moves.BlockingReason {
	f := r.facts(ctx, decided, m.Partner, preconditionsWithin/2, m.Needs())
	r.undrained(ctx, f, m)
	return f.Against(m)
}

// hasDefault reports whether a config has a default stage whose changes need the store.
func (r reader) hasDefault(c *config.Config) bool {
	return r.store != nil && r.rollout != nil && c.Rollout != nil
}

// CheckDefault returns why the default stage of a config cannot take effect, nil if it can: a changed rollout.default
// moves all partners without a stage of their own, and needs the same preconditions as that move by an operator. If
// there are reasons against it, the error is a [*moves.Blocked]. It writes nothing.
func (r reader) CheckDefault(ctx context.Context, c *config.Config) error {
	if !r.hasDefault(c) {
		return nil
	}
	decided, err := r.store.Rollout(ctx)
	if err != nil {
		return fmt.Errorf("rollout.default cannot be checked: %w", err)
	}
	b := &moves.Blocked{From: decided.ConfigDefault, To: c.Rollout.Default}
	set := slices.ContainsFunc(decided.Stages, func(s store.Stage) bool { return s.Partner == "" })
	if b.From == "" || b.From == b.To || set {
		return nil
	}
	b.Reasons = r.against(ctx, decided, moves.Move{From: routing.At(b.From, 0), To: routing.At(b.To, 0)})
	if len(b.Reasons) == 0 {
		return nil
	}
	return b
}

// AcceptDefault records the default stage of a config that takes effect, for the next CheckDefault.
func (r reader) AcceptDefault(ctx context.Context, c *config.Config) error {
	if !r.hasDefault(c) {
		return nil
	}
	return r.store.SetConfigDefault(ctx, c.Rollout.Default, r.rollout.Now())
}

// StartDefault checks the default stage of the config at the start. If there are reasons against it, the one of the
// config that ran last stays, as at a reload, because a gateway that does not start serves no partner.
func StartDefault(ctx context.Context, s *store.Store, r *routing.Router, c *config.Config) error {
	reads := newReader(s, r)
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
