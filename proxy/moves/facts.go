// Package moves has the reasons against moving a partner, and decides what waves do. It reads nothing and changes
// nothing:
//
//	needs := move.Needs()                             // what the caller reads into facts
//	reasons := facts.Against(move)                    // those that an operator must name to override them
//	view := moves.Look(plan, w, partners, facts)      // what each partner of a wave waits for
//	step, ok := view.Forward()                        // the next step that nothing blocks, if one may be made now
//	back := view.Back()                               // the steps that take partners back, because a verdict is FAIL
//
// A wave never overrides a reason. Package operate reads the facts and makes the moves.
package moves

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// Facts are what the reasons against moves and the steps of waves depend on, as they were read at one moment. The
// caller reads what it asks about; see [Move.Needs].
type Facts struct {
	Settings *routing.Settings
	Decided  store.Rollout
	Now      time.Time
	Clock    store.Clock // of Now

	Seen    Known[[]store.SeenPartner] // sorted by partner
	Counted Known[[]evidence.Count]    // see Count
	Marked  Known[[]evidence.Count]
	Bills   map[partner.ID]Known[[]store.Bills] // by the partner of a move to drained

	Verdicts map[partner.ID][]evidence.Verdict // of Counted

	// Of waves alone.

	Open [2]bool             // whether the breakers of the backends are open
	Of   map[partner.ID]bool // whose evidence is looked at; nil for all
}

// A Known is what was read, or why it could not be. The zero value was not read, and holds back what depends on it.
type Known[T any] struct {
	Is   T
	err  error
	read bool
}

// As returns what a read returned.
func As[T any](is T, err error) Known[T] { return Known[T]{is, err, true} }

// Err returns why it is not known, or nil.
func (k Known[T]) Err() error {
	if !k.read {
		return errors.New("it was not read")
	}
	return k.err
}

// Needs are the parts of Facts that something depends on.
type Needs struct{ Seen, Counted, Marked bool }

// Needs returns what the reasons against the move depend on, beside the bills of a move to drained.
func (m Move) Needs() Needs {
	return Needs{
		Seen: m.To.AtNew() > 0, Counted: m.advances(), Marked: m.advances() || m.From.AtNew() != m.To.AtNew(),
	}
}

// Count sets what was counted, and the verdicts on it.
func (f *Facts) Count(counted []evidence.Count, err error, limits evidence.Limits) {
	f.Counted, f.Verdicts = As(counted, err), map[partner.ID][]evidence.Verdict{}
	for _, v := range evidence.Verdicts(counted, limits) {
		f.Verdicts[v.Partner] = append(f.Verdicts[v.Partner], v)
	}
}

// NoAnswer reports whether the verdicts FAIL of a partner are only about calls without an answer, as in an outage.
func (f *Facts) NoAnswer(id partner.ID) bool {
	failed, err := f.Failed(id)
	answered := func(v evidence.Verdict) bool { return !v.NoAnswer }
	return err == nil && len(failed) > 0 && !slices.ContainsFunc(failed, answered)
}

// age returns the time since a time in the store. While the machine's clock differs too much from the store's, it is
// by the store's.
func (f *Facts) age(of time.Time) time.Duration {
	if f.Clock.Stepped() {
		return f.Clock.StoreTime.Sub(of)
	}
	return f.Now.Sub(of)
}

// uncounted is why verdicts on some partners are missing, or nil.
func (f *Facts) uncounted(of func(partner.ID) bool) error {
	return cmp.Or(f.Counted.Err(), evidence.Missing(f.Counted.Is, of))
}

// Failed returns the verdicts FAIL of a partner, with an error also those that are known.
func (f *Facts) Failed(id partner.ID) ([]evidence.Verdict, error) {
	return slices.DeleteFunc(slices.Clone(f.Verdicts[id]), func(v evidence.Verdict) bool {
		return v.Ruling != evidence.Fail
	}), f.uncounted(func(other partner.ID) bool { return other == id })
}

// Ruling is that of the verdicts that the move of a partner needs, "" if it needs none. reasons are those against it:
// with one about verdicts it is not PASS.
func (f *Facts) Ruling(m Move, reasons []BlockingReason) evidence.Ruling {
	if !m.advances() {
		return ""
	}
	own := f.Verdicts[m.Partner]
	needed := m.needed(own)
	r := evidence.Together(slices.DeleteFunc(slices.Clone(own), func(v evidence.Verdict) bool {
		return v.Ruling != evidence.Fail && !needed(v)
	}))
	_, unknown := f.Failed(m.Partner) // the error is a reason
	lacking := slices.ContainsFunc(reasons, func(reason BlockingReason) bool {
		return reason.Kind == Unproven || reason.Kind == Unpaid
	})
	if (lacking || unknown != nil) && r != evidence.Fail {
		return evidence.Inconclusive
	}
	return r
}
