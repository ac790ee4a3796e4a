package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"
	"billbridge/translate/wording"

	"billbridge/config"
	"billbridge/proxy/store"
)

// A move is a change of the stage of a partner, or of all without a stage of their own.
type move struct {
	partner  partner.ID // "" for the default
	from, to position
}

// recent is how long a call counts that a backend cannot carry. Many partners bill once a month.
const recent = 35 * 24 * time.Hour

// preconditionsWithin bounds the search for blocking reasons: an operator may be waiting for the kill switch.
const preconditionsWithin = 3 * time.Second

// blockingReasons are the reasons against a move. A check that cannot be made is a reason, too.
func (r *Router) blockingReasons(ctx context.Context, decided store.Rollout, m move) (all []BlockingReason) {
	for _, check := range []struct {
		kind ReasonKind
		find func(context.Context, store.Rollout, move) ([]wording.Text, error)
	}{
		{Unsettled, r.unsettled},
		{WrongClock, r.wrongClock},
		{Undrained, r.undrained},
		{Unproven, r.unproven},
		{Unpaid, r.unpaid},
		{MoneyElsewhere, r.moneyElsewhere},
		{Uncarried, r.uncarried},
	} {
		ctx, cancel := context.WithTimeout(ctx, preconditionsWithin/2)
		found, err := check.find(ctx, decided, m)
		cancel()
		if err != nil {
			all = append(all, BlockingReason{Kind: Unchecked, Text: "a precondition could not be checked: " + err.Error()})
			continue
		}
		all = append(all, reasonsOf(check.kind, found)...)
	}
	return all
}

// percentage is how much of what a partner creates goes to the new backend.
func (p position) percentage() int {
	switch p.stage {
	case StageCanary:
		return p.percent
	case StageNew, StageDrained:
		return 100
	case StageOld, StageShadow:
	}
	return 0
}

// unsettled: calls that the partner sent to the old backend without the gateway may still be under way. For a move of the default, each
// partner's settling period is checked when it calls.
func (r *Router) unsettled(ctx context.Context, _ store.Rollout, m move) ([]wording.Text, error) {
	s := r.current.Load()
	if m.partner == "" || m.to.percentage() == 0 || s.config.Bills == config.Shared {
		return nil, nil
	}
	first, err := r.store.FirstSeen(ctx, m.partner)
	seen, want := time.Duration(0), time.Duration(s.config.Settle)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return []wording.Text{wording.Of("no call of the partner was seen yet. It can leave %v %v after its first call: until then calls that it sent there without the gateway may still be under way",
			s.backends[evidence.Old], short(want))}, nil
	case err != nil:
		return nil, err
	}
	if seen = r.age(first); seen < want {
		return []wording.Text{wording.Of("the first call of the partner was seen %v ago, and the settling period is %v: calls that it sent to %v without the gateway may still be under way",
			short(seen), short(want), s.backends[evidence.Old])}, nil
	}
	return nil, nil
}

// wrongClock: by a wrong clock, bills may seem to be over.
func (r *Router) wrongClock(_ context.Context, _ store.Rollout, m move) ([]wording.Text, error) {
	clock := ClockOf(r.store.Clock(r.now()))
	if m.to.stage != StageDrained || !clock.Stepped {
		return nil, nil
	}
	return []wording.Text{wording.Of("the clock shows %v and that of the store %v, so it is not certain which bills are over. "+
		"If the clock is right: billbridge store clock --confirm", clock.Machine().UTC().Format(time.RFC3339), clock.Store.Format(time.RFC3339))}, nil
}

// undrained: the old backend has bills that may be open.
func (r *Router) undrained(ctx context.Context, decided store.Rollout, m move) ([]wording.Text, error) {
	if m.to.stage != StageDrained {
		return nil, nil
	}
	old := r.current.Load().backends[evidence.Old]
	bills, err := r.openBills(ctx, m.partner)
	if err != nil {
		return nil, err
	}
	open := 0
	for _, b := range bills {
		if b.Upstream == old && m.concerns(decided, b.Partner) {
			open += b.Pending + b.Owned - b.Over - b.Ended
		}
	}
	if open == 0 {
		return nil, nil
	}
	list := "billbridge bills list --owner old --open"
	if m.partner != "" {
		list += " --partner " + m.partner.Short()
	}
	return []wording.Text{wording.Of("bills that may still be open at %v: %v, which are not past their last day and were not seen destroyed or cancelled. "+
		"Known bills keep working; bills that the ledger does not know will not be looked up at %v. To list them: %v", old, open, old, list)}, nil
}

// concerns reports whether a move changes the stage of a partner.
func (m move) concerns(decided store.Rollout, partner partner.ID) bool {
	if m.partner != "" {
		return partner == m.partner
	}
	return !slices.ContainsFunc(decided.Stages, func(s store.Stage) bool { return s.Partner == partner })
}

// unproven: a later stage needs a PASS. Before canary, with separate bills and without a copy, there is nothing to compare yet.
func (r *Router) unproven(ctx context.Context, decided store.Rollout, m move) ([]wording.Text, error) {
	return r.lacksVerdicts(ctx, decided, m, false)
}

// unpaid: all that a PASS lacks is paid bills. An operator who overrides this reason declares that the partner's bills are not paid.
func (r *Router) unpaid(ctx context.Context, decided store.Rollout, m move) ([]wording.Text, error) {
	return r.lacksVerdicts(ctx, decided, m, true)
}

// lacksVerdicts are the verdicts that a move lacks: those that lack paid bills alone, or the others.
func (r *Router) lacksVerdicts(ctx context.Context, decided store.Rollout, m move, unpaid bool) ([]wording.Text, error) {
	if !m.advances() {
		return nil, nil
	}
	s := r.current.Load()
	counted, err := r.counted(ctx, m.partner)
	if err != nil {
		return nil, err
	}
	partners := []partner.ID{m.partner}
	if m.partner == "" {
		seen, err := r.store.SeenPartners(ctx)
		if err != nil {
			return nil, err
		}
		partners = nil
		for _, one := range seen {
			if m.concerns(decided, one.Partner) {
				partners = append(partners, one.Partner)
			}
		}
	}
	verdicts := evidence.Verdicts(counted, r.limits())
	var all []wording.Text
	if len(partners) == 0 { // there is no evidence
		if why := m.lacksPass(nil, s.config, unpaid); why != nil {
			all = append(all, wording.Of("no partner without a stage of its own was seen yet: ").And(why))
		}
	}
	for _, partner := range partners {
		own := slices.DeleteFunc(slices.Clone(verdicts), func(v evidence.Verdict) bool { return v.Partner != partner })
		if why := m.lacksPass(own, s.config, unpaid); why != nil {
			all = append(all, wording.Of("%v: ", r.label(partner)).And(why))
		}
	}
	return shortened(all), nil
}

// advances reports whether more goes to the new backend after the move, or less can go back.
func (m move) advances() bool {
	return m.to.percentage() > 0 && (m.to.percentage() > m.from.percentage() || m.to.stage.later(m.from.stage))
}

// moneyElsewhere: an exact field of another partner differed. It is a mistake of a backend, which this partner may meet too, however rare
// it is. That of the partner itself is a FAIL of its own verdict.
func (r *Router) moneyElsewhere(ctx context.Context, _ store.Rollout, m move) (all []wording.Text, err error) {
	if !m.advances() {
		return nil, nil
	}
	counted, err := r.markedCounts(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range counted.Counts {
		if n.Partner == m.partner {
			continue
		}
		for _, path := range n.ExactFields() {
			f := n.Fields[path]
			all = append(all, wording.Of("%v: %v of %v differs in %v: old %v, new %v (bill %v, request %v, at %v). "+
				"If the cause is fixed: billbridge rollout reset --partner %v --force verdict", r.label(n.Partner), path, n.Operation, f.Count, f.Old, f.New,
				f.Bill, f.Request, f.At.UTC().Format(time.RFC3339), n.Partner.Short()))
		}
	}
	return shortened(all), nil
}

// lacksPass is why the verdicts of one partner do not allow a move (README.md, "Which verdicts a stage needs"), nil if they do.
func (m move) lacksPass(own []evidence.Verdict, c *config.Rollout, unpaid bool) wording.Text {
	creates := map[string]bool{}
	for _, v := range own {
		creates[v.Operation] = creates[v.Operation] || v.Evidence == evidence.ByReadBack
	}
	// In stage new no bill is created at the old backend any more: the codes of the calls cannot be compared.
	uncomparable := func(v evidence.Verdict) bool {
		return m.from.stage == StageNew && v.CallStats != nil && v.Ruling == evidence.Inconclusive &&
			v.Calls[evidence.Old] < c.Verdict.Comparisons && (!creates[v.Operation] || v.Calls[evidence.New] >= c.Verdict.Comparisons)
	}
	first := m.from.percentage() == 0 && m.to.stage == StageCanary
	raised := !first && m.to.stage == StageCanary
	bare := first && !c.Comparable() // there is nothing to compare yet
	var against []wording.Text
	proved := false
	for _, v := range own {
		needed := first && v.Evidence == evidence.ByShadow || !first && creates[v.Operation]
		proved = proved || needed
		switch {
		case bare && v.Ruling != evidence.Fail:
		case v.Unpaid != unpaid, uncomparable(v):
		case v.Ruling == evidence.Pass, v.Few && (!needed || raised), v.Ruling == evidence.Inconclusive && raised:
		default:
			against = append(against, v.InWords())
		}
	}
	switch {
	case len(against) > 0:
		return wording.Join(against, "; ")
	case proved || raised || bare || unpaid:
		return nil
	case first:
		return wording.Of("no read was compared yet in stage shadow")
	}
	return wording.Of("no bill was created at the new backend by canary and read back yet")
}

// warning is what an operator should know about a move without blocking reasons.
func (r *Router) warning(m move) wording.Text {
	s := r.current.Load()
	if m.to.stage != StageShadow || s.config.Comparable() {
		return nil
	}
	return wording.Of("with bills: separate, shadow compares nothing unless %[2]v gets a copy of the bills of %[1]v. "+
		"If it does, set rollout.copy: true. Without a copy go on to canary, whose new bills are read back", s.backends[evidence.Old], s.backends[evidence.New])
}

// uncarried: recent calls that cannot be carried by the backend that will get more of them.
func (r *Router) uncarried(ctx context.Context, decided store.Rollout, m move) ([]wording.Text, error) {
	backend := evidence.Old
	switch before, after := m.from.percentage(), m.to.percentage(); {
	case before == after:
		return nil, nil
	case before < after:
		backend = evidence.New
	}
	counted, err := r.ofAllTables(ctx, store.AllPartners.Of(m.partner))
	if err != nil {
		return nil, err
	}
	return r.lacking(counted, backend, func(partner partner.ID) bool { return m.concerns(decided, partner) }), nil
}

// reasonsAgainstStop are the blocking reasons of the kill switch. It does not wait for counts to be stored.
func (r *Router) reasonsAgainstStop(ctx context.Context, within time.Duration) (all []BlockingReason, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	decided, err := r.store.Rollout(ctx)
	var counted evidence.Snapshot
	if err == nil {
		counted, err = r.markedCounts(ctx)
	}
	if err != nil {
		return nil, err
	}
	s := r.current.Load()
	stages := s.stages(decided)
	all = reasonsOf(Uncarried, r.lacking(counted, evidence.Old, func(partner partner.ID) bool {
		at, _ := stageOf(stages, partner)
		return at.position().percentage() > 0
	}))
	if !decided.Restored.At.IsZero() && s.config.Bills == config.Separate {
		all = append(all, reasonsOf(FromStore, []wording.Text{wording.Of("the store was restored from a backup: a bill that was created at %v after that backup, and is sent again, will be created at %v too, because %[1]v is not probed while stopped",
			s.backends[evidence.New], s.backends[evidence.Old])})...)
	}
	return all, nil
}

// reasonsAgainstBegin are the blocking reasons of Begin: bills of the new backend in the ledger.
func (r *Router) reasonsAgainstBegin(ctx context.Context) []BlockingReason {
	bills, err := r.openBills(ctx, "")
	if err != nil {
		return []BlockingReason{{Kind: Unchecked, Text: "the bills of the new backend could not be counted: " + err.Error()}}
	}
	found, name := 0, r.current.Load().backends[evidence.New]
	for _, b := range bills {
		if b.Upstream == name {
			found += b.Pending + b.Owned
		}
	}
	if found == 0 {
		return nil
	}
	text := fmt.Sprintf("the ledger is new and already has %d bills at %s. Unless they were created by a stage that was set since, "+
		"%[2]s has older bills of partners, and bills that the ledger does not know would be created twice", found, name)
	return []BlockingReason{{Kind: AtNew, Text: text}}
}

// Check is why a config cannot take effect, nil if it can: a changed rollout.default moves all partners without a stage of their
// own, and needs the same preconditions as that move by [Router.Operator].
func (r *Router) Check(ctx context.Context, c *config.Config) error {
	if r.store == nil || c.Rollout == nil {
		return nil
	}
	decided, err := r.store.Rollout(ctx)
	if err != nil {
		return fmt.Errorf("rollout.default cannot be checked: %w", err)
	}
	from, to := decided.ConfigDefault, c.Rollout.Default
	set := slices.ContainsFunc(decided.Stages, func(s store.Stage) bool { return s.Partner == "" })
	if from == "" || from == to || set {
		return nil
	}
	reasons := r.blockingReasons(ctx, decided, move{"", position{stage: Stage(from)}, position{stage: Stage(to)}})
	if len(reasons) == 0 {
		return nil
	}
	kinds, lines := listed(reasons)
	return fmt.Errorf("rollout.default is %[1]s, was %[2]s: not changed. To change it anyway, run billbridge rollout set --default "+
		"--stage %[1]s --force %[3]s while the config says %[2]s. Reasons:%[4]s", to, from, joined(kinds), lines)
}

// Accept records the default stage of a config that takes effect, for the next Check.
func (r *Router) Accept(ctx context.Context, c *config.Config) error {
	if r.store == nil || c.Rollout == nil {
		return nil
	}
	return r.store.SetConfigDefault(ctx, c.Rollout.Default)
}

// reasonsAgainstReset are the blocking reasons of a reset: verdicts that are FAIL.
func (r *Router) reasonsAgainstReset(ctx context.Context, partner partner.ID) []BlockingReason {
	counted, err := r.counted(ctx, partner)
	if err != nil {
		return []BlockingReason{{Kind: Unchecked, Text: "the verdicts could not be looked up: " + err.Error()}}
	}
	var failed []wording.Text
	for _, v := range evidence.Verdicts(counted, r.limits()) {
		if v.Ruling == evidence.Fail {
			failed = append(failed, wording.Of("%v: ", r.label(v.Partner)).And(v.InWords()))
		}
	}
	return reasonsOf(Unproven, shortened(failed))
}

// lacking are the recent calls of the concerned partners that a backend cannot carry, in words for the operator.
func (r *Router) lacking(counted evidence.Snapshot, backend evidence.Backend, concerned func(partner partner.ID) bool) []wording.Text {
	var all []wording.Text
	for _, n := range counted.Counts {
		if !concerned(n.Partner) {
			continue
		}
		for _, lack := range evidence.UnsupportedOf(n.Backends[backend]) {
			if r.age(lack.Last) < recent {
				all = append(all, wording.Of("%v: %v cannot carry %v: %v (calls: %v, the last at %v)", r.label(n.Partner), r.current.Load().backends[backend], n.Operation, lack.Why,
					lack.Count, lack.Last.UTC().Format(time.RFC3339)))
			}
		}
	}
	return shortened(all)
}

// shortened bounds the number of reasons.
func shortened(all []wording.Text) []wording.Text {
	const most = 10
	if len(all) <= most {
		return all
	}
	return append(slices.Clone(all[:most]), wording.Of("%v more reasons of this kind", len(all)-most))
}
