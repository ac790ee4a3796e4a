package rollout

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// A Move is a change of the stage of a partner, or of all without a stage of their own.
type Move struct {
	Partner  partner.ID // "" for the default
	From, To Position
}

// Concerns reports whether the move changes the stage of a partner.
func (m Move) Concerns(decided store.Rollout, partner partner.ID) bool {
	if m.Partner != "" {
		return partner == m.Partner
	}
	return !slices.ContainsFunc(decided.Stages, func(s store.Stage) bool { return s.Partner == partner })
}

// advances reports whether more goes to the new backend after the move, or less can go back.
func (m Move) advances() bool {
	return m.To.percentage() > 0 && (m.To.percentage() > m.From.percentage() || m.To.Stage.later(m.From.Stage))
}

// recent is how long a call counts that a backend cannot carry. Many partners bill once a month.
const recent = 35 * 24 * time.Hour

// PreconditionsWithin bounds the search for blocking reasons: an operator may be waiting for the kill switch.
const PreconditionsWithin = 3 * time.Second

// Facts are what the reasons against moves depend on, of one partner or of all. Each is read once, when it is needed
// for the first time: for the moves of many partners as for that of one. Bills are read for each move to drained alone,
// as there can be millions.
type Facts struct {
	*Router
	Settings *Settings
	Decided  store.Rollout

	Seen     func() ([]store.SeenPartner, error)
	Counted  func() ([]evidence.Count, error)
	verdicts func() (map[partner.ID][]evidence.Verdict, error)
	bills    func(partner.ID) ([]store.Bills, error)
	marked   func() ([]evidence.Count, error)
}

// Facts returns those of one partner, or of all for "". Each may take as long as within, but bills of all partners
// together as long as for one move.
func (r *Router) Facts(ctx context.Context, decided store.Rollout, only partner.ID, within time.Duration) *Facts {
	in := store.AllPartners.Of(only)
	f := &Facts{Router: r, Settings: r.Settings(), Decided: decided, marked: once(ctx, within, r.counts.Marked)}
	f.Seen = once(ctx, within, func(ctx context.Context) ([]store.SeenPartner, error) {
		return r.store.SeenPartners(ctx, in)
	})
	f.Counted = once(ctx, within, func(ctx context.Context) ([]evidence.Count, error) {
		return r.counts.Of(ctx, only)
	})
	began := sync.OnceValue(time.Now)
	f.bills = func(id partner.ID) ([]store.Bills, error) {
		ctx, cancel := context.WithDeadline(ctx, began().Add(PreconditionsWithin/2))
		defer cancel()
		return r.OpenBills(ctx, store.AllPartners.Of(id))
	}
	f.verdicts = sync.OnceValues(func() (map[partner.ID][]evidence.Verdict, error) {
		counted, err := f.Counted()
		by := map[partner.ID][]evidence.Verdict{}
		for _, v := range evidence.Verdicts(counted, r.counts.Limits()) {
			by[v.Partner] = append(by[v.Partner], v)
		}
		return by, err
	})
	return f
}

// once reads something when it is called for the first time.
func once[T any](
	ctx context.Context, within time.Duration, read func(context.Context) (T, error),
) func() (T, error) {
	return sync.OnceValues(func() (T, error) {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		return read(ctx)
	})
}

// Against returns the reasons against a move. A check that cannot be made is a reason, too.
func (f *Facts) Against(m Move) (all []BlockingReason) {
	for _, check := range []func(Move) ([]BlockingReason, error){
		f.unsettled, f.undrained, f.unproven, f.atBackends,
	} {
		found, err := check(m)
		all = append(all, found...)
		if err != nil {
			all = append(all, unchecked(err)...)
		}
	}
	return all
}

// own returns the verdicts of a partner, with an error those that are known.
func (f *Facts) own(id partner.ID) ([]evidence.Verdict, error) {
	by, err := f.verdicts()
	counted, _ := f.Counted() // the error is that of the verdicts
	return by[id], cmp.Or(err, evidence.Missing(counted, func(other partner.ID) bool { return other == id }))
}

// Ruling is that of the verdicts that the move of a partner needs, "" if it needs none. reasons are those against it:
// with one about verdicts it is not PASS.
func (f *Facts) Ruling(m Move, reasons []BlockingReason) (r evidence.Ruling) {
	if !m.advances() {
		return ""
	}
	own, err := f.own(m.Partner) // an error is a reason
	needed := m.needed(own)
	r = evidence.Together(slices.DeleteFunc(slices.Clone(own), func(v evidence.Verdict) bool {
		return v.Ruling != evidence.Fail && !needed(v)
	}))
	lacking := slices.ContainsFunc(reasons, func(reason BlockingReason) bool {
		return reason.Kind == Unproven || reason.Kind == Unpaid
	})
	if (lacking || err != nil) && r != evidence.Fail {
		return evidence.Inconclusive
	}
	return r
}

// Failed returns the verdicts FAIL of a partner, with an error also those that are known.
func (f *Facts) Failed(id partner.ID) ([]evidence.Verdict, error) {
	own, err := f.own(id)
	return slices.DeleteFunc(slices.Clone(own), func(v evidence.Verdict) bool {
		return v.Ruling != evidence.Fail
	}), err
}

// Evidence returns the verdicts of a partner.
func (f *Facts) Evidence(id partner.ID) []evidence.Verdict {
	by, _ := f.verdicts() // an error is a reason against each move
	return by[id]
}

// Money returns the exact fields that differ, of all partners. What cannot be read is a reason against each move.
func (f *Facts) Money() []evidence.Note {
	counted, _ := f.marked()
	return f.money(counted, "")
}

// reasonsOf returns reasons of one kind. Their number is bounded.
func reasonsOf(kind ReasonKind, notes ...evidence.Note) (all []BlockingReason) {
	const most = 10
	if left := len(notes) - most; left > 0 {
		notes = append(slices.Clone(notes[:most]), evidence.Say("more_reasons", left))
	}
	for _, note := range notes {
		all = append(all, BlockingReason{kind, note})
	}
	return all
}

func unchecked(err error) []BlockingReason {
	return reasonsOf(Unchecked, evidence.Say("unchecked", err))
}

// unsettled: calls that the partner sent to the old backend without the gateway may still be under way. For a move of
// the default, each partner's settling period is checked when it calls.
func (f *Facts) unsettled(m Move) ([]BlockingReason, error) {
	s := f.Settings
	if m.Partner == "" || m.To.percentage() == 0 || s.Config.Bills == config.Shared {
		return nil, nil
	}
	all, err := f.Seen()
	if err != nil {
		return nil, err
	}
	want, old := time.Duration(s.Config.Settle), s.Backends[evidence.Old]
	at, known := slices.BinarySearchFunc(all, m.Partner, func(one store.SeenPartner, id partner.ID) int {
		return cmp.Compare(one.Partner, id)
	})
	if !known {
		return reasonsOf(Unsettled, evidence.Say("unseen", old, want)), nil
	}
	if seen := age(f.store, f.now(), all[at].First); seen < want {
		return reasonsOf(Unsettled, evidence.Say("unsettled", seen, want, old)), nil
	}
	return nil, nil
}

// undrained: the old backend has bills that may be open. By a wrong clock, bills may seem to be over.
func (f *Facts) undrained(m Move) (all []BlockingReason, err error) {
	if m.To.Stage != StageDrained {
		return nil, nil
	}
	if clock := f.store.Clock(f.now()); clock.Stepped() {
		all = reasonsOf(WrongClock, evidence.Say("clock", clock.StoreTime.Add(clock.Offset), clock.StoreTime))
	}
	old, open := f.Settings.Backends[evidence.Old], 0
	bills, err := f.bills(m.Partner)
	for _, b := range bills {
		if b.Upstream == old && m.Concerns(f.Decided, b.Partner) {
			open += b.Open()
		}
	}
	if err == nil && open > 0 {
		all = append(all, reasonsOf(Undrained, evidence.Say("open_bills", old, open))...)
	}
	return all, err
}

// unproven: a later stage needs a PASS. Before canary, with separate bills, there is nothing to compare yet. If all that a PASS lacks is paid bills, the reason is another: an operator who overrides it declares
// that the partner's bills are not paid.
func (f *Facts) unproven(m Move) ([]BlockingReason, error) {
	if !m.advances() {
		return nil, nil
	}
	by, err := f.verdicts()
	counted, _ := f.Counted() // the error is that of the verdicts
	missing := evidence.Missing(counted, func(id partner.ID) bool { return m.Concerns(f.Decided, id) })
	if err := cmp.Or(err, missing); err != nil {
		return nil, err
	}
	partners := []partner.ID{m.Partner}
	if m.Partner == "" {
		seen, err := f.Seen()
		if err != nil {
			return nil, err
		}
		partners = nil
		for _, one := range seen {
			if m.Concerns(f.Decided, one.Partner) {
				partners = append(partners, one.Partner)
			}
		}
	}
	var lacks [2][]evidence.Note
	for i := range lacks {
		for _, one := range partners {
			if why := m.lacksPass(by[one], f.Settings.Config, i == 1); why.Kind != "" {
				lacks[i] = append(lacks[i], evidence.Say("of_partner", f.Settings.Label(one), why))
			}
		}
	}
	if len(partners) == 0 { // there is no evidence
		if why := m.lacksPass(nil, f.Settings.Config, false); why.Kind != "" {
			lacks[0] = []evidence.Note{evidence.Say("no_partner", why)}
		}
	}
	return append(reasonsOf(Unproven, lacks[0]...), reasonsOf(Unpaid, lacks[1]...)...), nil
}

// first reports whether new bills begin to be created at the new backend.
func (m Move) first() bool { return m.From.percentage() == 0 && m.To.Stage == StageCanary }

// needed returns whether the move needs a verdict, of those of one partner: before the first bill at the new backend
// those of reads, and later those of creates.
func (m Move) needed(own []evidence.Verdict) func(evidence.Verdict) bool {
	creates := map[string]bool{}
	for _, v := range own {
		creates[v.Operation] = creates[v.Operation] || v.Evidence == evidence.ByReadBack
	}
	return func(v evidence.Verdict) bool {
		if m.first() {
			return v.Evidence == evidence.ByShadow
		}
		return creates[v.Operation]
	}
}

// lacksPass returns why the verdicts of one partner do not allow a move (README.md, "The report"),
// zero if they do.
func (m Move) lacksPass(own []evidence.Verdict, c *config.Rollout, unpaid bool) evidence.Note {
	isNeeded, first := m.needed(own), m.first()
	// In stage new no bill is created at the old backend any more: the codes of the calls cannot be compared.
	uncomparable := func(v evidence.Verdict) bool {
		return m.From.Stage == StageNew && v.CallStats != nil && v.Ruling == evidence.Inconclusive &&
			v.Calls[evidence.Old] < c.Verdict.Comparisons &&
			(!isNeeded(v) || v.Calls[evidence.New] >= c.Verdict.Comparisons)
	}
	raised := !first && m.To.Stage == StageCanary
	bare := first && c.Bills == config.Separate // there is nothing to compare yet
	var against []evidence.Verdict
	proved := false
	for _, v := range own {
		needed := isNeeded(v)
		proved = proved || needed
		switch {
		case bare && v.Ruling != evidence.Fail:
		case v.Unpaid != unpaid, uncomparable(v):
		case v.Ruling == evidence.Pass, v.Few && (!needed || raised), v.Ruling == evidence.Inconclusive && raised:
		default:
			against = append(against, v)
		}
	}
	switch {
	case len(against) > 0:
		return evidence.Say("list", against)
	case proved || raised || bare || unpaid:
		return evidence.Note{}
	case first:
		return evidence.Say("no_read")
	}
	return evidence.Say("no_create")
}

// atBackends: an exact field of another partner differed. It is a mistake of a backend, which this partner may meet
// too, however rare it is. That of the partner itself is a FAIL of its own verdict. Also recent calls that cannot be
// carried by the backend that will get more of them.
func (f *Facts) atBackends(m Move) (all []BlockingReason, err error) {
	before, after := m.From.percentage(), m.To.percentage()
	if !m.advances() && before == after {
		return nil, nil
	}
	counted, err := f.marked()
	if err != nil {
		return nil, err
	}
	var money, lacking []evidence.Note
	if m.advances() {
		money = f.money(counted, m.Partner)
	}
	if backend := evidence.Old; before != after {
		if before < after {
			backend = evidence.New
		}
		lacking = f.lacking(f.Settings, counted, backend, func(partner partner.ID) bool { return m.Concerns(f.Decided, partner) })
	}
	all = append(reasonsOf(MoneyElsewhere, money...), reasonsOf(Uncarried, lacking...)...)
	return all, evidence.Missing(counted, func(id partner.ID) bool { // there may be an exact field that differs
		return m.advances() || m.Concerns(f.Decided, id)
	})
}

// money returns the exact fields that differ, but for those of one partner.
func (f *Facts) money(counted []evidence.Count, but partner.ID) (all []evidence.Note) {
	for _, n := range counted {
		if n.Partner == but {
			continue
		}
		for _, path := range n.ExactFields() {
			d := n.Fields[path]
			all = append(all, evidence.Say("money", f.Settings.Label(n.Partner), path, n.Operation, d.Count,
				d.Old, d.New, d.Bill, d.Request, d.At))
		}
	}
	return all
}

// AgainstStop are the blocking reasons of the kill switch, with an error those that are known. It does not wait for
// counts to be stored.
func (r *Router) AgainstStop(ctx context.Context, within time.Duration) (all []BlockingReason, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	decided, err := r.store.Rollout(ctx)
	if err != nil {
		return nil, err
	}
	counted, err := r.counts.Marked(ctx)
	if err != nil {
		return nil, err
	}
	s := r.Settings()
	at := s.Positions(decided)
	moves := func(id partner.ID) bool { return at(id).percentage() > 0 }
	lacking := r.lacking(s, counted, evidence.Old, moves)
	all = reasonsOf(Uncarried, lacking...)
	if !decided.Restored.At.IsZero() && s.Config.Bills == config.Separate {
		restored := evidence.Say("restored", s.Backends[evidence.New], s.Backends[evidence.Old])
		all = append(all, reasonsOf(FromStore, restored)...)
	}
	return all, evidence.Missing(counted, moves)
}

// AgainstBegin are the blocking reasons of Begin: bills of the new backend in the ledger.
func (r *Router) AgainstBegin(ctx context.Context) []BlockingReason {
	bills, err := r.OpenBills(ctx, store.AllPartners)
	if err != nil {
		return unchecked(err)
	}
	found, name := 0, r.Settings().Backends[evidence.New]
	for _, b := range bills {
		if b.Upstream == name {
			found += b.Pending + b.Owned
		}
	}
	if found == 0 {
		return nil
	}
	return reasonsOf(AtNew, evidence.Say("bills_at_new", found, name))
}

// AgainstReset are the blocking reasons of a reset: verdicts that are FAIL, and counts that cannot be read.
func (r *Router) AgainstReset(ctx context.Context, partner partner.ID) []BlockingReason {
	ctx, cancel := context.WithTimeout(ctx, PreconditionsWithin)
	defer cancel()
	counted, err := r.counts.Of(ctx, partner)
	if err != nil {
		return unchecked(err)
	}
	var failed []evidence.Note
	for _, v := range evidence.Verdicts(counted, r.counts.Limits()) {
		if v.Ruling == evidence.Fail {
			failed = append(failed, evidence.Say("of_partner", r.Settings().Label(v.Partner), v))
		}
	}
	all := reasonsOf(Unproven, failed...)
	for _, n := range counted {
		if n.Unread != nil {
			all = append(all, unchecked(n.Unread)...)
		}
	}
	return all
}

// lacking are the recent calls of the concerned partners that a backend cannot carry.
func (r *Router) lacking(
	s *Settings, counted []evidence.Count, backend evidence.Backend, concerned func(partner.ID) bool,
) (all []evidence.Note) {
	for _, n := range counted {
		if !concerned(n.Partner) {
			continue
		}
		for _, why := range slices.Sorted(maps.Keys(n.Unsupported[backend])) {
			if lack := n.Unsupported[backend][why]; age(r.store, r.now(), lack.Last) < recent {
				all = append(all, evidence.Say("uncarried", s.Label(n.Partner), s.Backends[backend],
					n.Operation, why, lack.Count, lack.Last))
			}
		}
	}
	return all
}
