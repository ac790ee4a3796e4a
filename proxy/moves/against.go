package moves

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"billbridge/config"
	"billbridge/proxy/evidence"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// A Move is a change of the stage of a partner, or of all without a stage of their own.
type Move struct {
	Partner  partner.ID // "" for the default
	From, To routing.Position
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
	return m.To.AtNew() > 0 && (m.To.AtNew() > m.From.AtNew() || m.To.Stage.Later(m.From.Stage))
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
	if m.Partner == "" || m.To.AtNew() == 0 || s.Config.Bills == config.Shared {
		return nil, nil
	}
	all, err := f.Seen.Is, f.Seen.Err()
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
	if seen := f.age(all[at].First); seen < want {
		return reasonsOf(Unsettled, evidence.Say("unsettled", seen, want, old)), nil
	}
	return nil, nil
}

// undrained: the old backend has bills that may be open. By a wrong clock, bills may seem to be over.
func (f *Facts) undrained(m Move) (all []BlockingReason, err error) {
	if m.To.Stage != routing.StageDrained {
		return nil, nil
	}
	if f.Clock.Stepped() {
		all = reasonsOf(WrongClock, evidence.Say("clock", f.Clock.StoreTime.Add(f.Clock.Offset), f.Clock.StoreTime))
	}
	old, open := f.Settings.Backends[evidence.Old], 0
	bills := f.Bills[m.Partner]
	for _, b := range bills.Is {
		if b.Upstream == old && m.Concerns(f.Decided, b.Partner) {
			open += b.Open()
		}
	}
	if bills.Err() == nil && open > 0 {
		all = append(all, reasonsOf(Undrained, evidence.Say("open_bills", old, open))...)
	}
	return all, bills.Err()
}

// unproven: a later stage needs a PASS. Before canary, with separate bills, there is nothing to compare yet. If all
// that a PASS lacks is paid bills, the reason is another: an operator who overrides it declares that the partner's
// bills are not paid.
func (f *Facts) unproven(m Move) ([]BlockingReason, error) {
	if !m.advances() {
		return nil, nil
	}
	concerned := func(id partner.ID) bool { return m.Concerns(f.Decided, id) }
	if err := f.uncounted(concerned); err != nil {
		return nil, err
	}
	partners := []partner.ID{m.Partner}
	if m.Partner == "" {
		if f.Seen.Err() != nil {
			return nil, f.Seen.Err()
		}
		partners = nil
		for _, one := range f.Seen.Is {
			if concerned(one.Partner) {
				partners = append(partners, one.Partner)
			}
		}
	}
	var lacks [2][]evidence.Note
	for i := range lacks {
		for _, one := range partners {
			if why := m.lacksPass(f.Verdicts[one], f.Settings.Config, i == 1); why.Kind != "" {
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
func (m Move) first() bool { return m.From.AtNew() == 0 && m.To.Stage == routing.StageCanary }

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
		return m.From.Stage == routing.StageNew && v.CallStats != nil && v.Ruling == evidence.Inconclusive &&
			v.Calls[evidence.Old] < c.Verdict.Comparisons &&
			(!isNeeded(v) || v.Calls[evidence.New] >= c.Verdict.Comparisons)
	}
	raised := !first && m.To.Stage == routing.StageCanary
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
	before, after := m.From.AtNew(), m.To.AtNew()
	if !m.advances() && before == after {
		return nil, nil
	}
	if f.Marked.Err() != nil {
		return nil, f.Marked.Err()
	}
	concerned := func(id partner.ID) bool { return m.Concerns(f.Decided, id) }
	if m.advances() {
		all = reasonsOf(MoneyElsewhere, f.money(m.Partner)...)
	}
	if backend := evidence.Old; before != after {
		if before < after {
			backend = evidence.New
		}
		all = append(all, reasonsOf(Uncarried, f.lacking(backend, concerned)...)...)
	}
	return all, evidence.Missing(f.Marked.Is, func(id partner.ID) bool { // there may be an exact field that differs
		return m.advances() || concerned(id)
	})
}

// money returns the exact fields that differ, but for those of one partner.
func (f *Facts) money(but partner.ID) (all []evidence.Note) {
	for _, n := range f.Marked.Is {
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

// AgainstStop are the blocking reasons of the kill switch, with an error those that are known. It needs what is marked.
func (f *Facts) AgainstStop() (all []BlockingReason, err error) {
	if f.Marked.Err() != nil {
		return nil, f.Marked.Err()
	}
	at := f.Settings.Positions(f.Decided)
	moves := func(id partner.ID) bool { return at(id).AtNew() > 0 }
	all = reasonsOf(Uncarried, f.lacking(evidence.Old, moves)...)
	if !f.Decided.Restored.At.IsZero() && f.Settings.Config.Bills == config.Separate {
		restored := evidence.Say("restored", f.Settings.Backends[evidence.New], f.Settings.Backends[evidence.Old])
		all = append(all, reasonsOf(FromStore, restored)...)
	}
	return all, evidence.Missing(f.Marked.Is, moves)
}

// AgainstBegin are the blocking reasons of the declaration that the rollout begins: bills of the new backend in the
// ledger.
func AgainstBegin(s *routing.Settings, bills []store.Bills, unread error) []BlockingReason {
	if unread != nil {
		return unchecked(unread)
	}
	found, name := 0, s.Backends[evidence.New]
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
func (f *Facts) AgainstReset() []BlockingReason {
	if f.Counted.Err() != nil {
		return unchecked(f.Counted.Err())
	}
	var failed []evidence.Note
	for _, id := range slices.Sorted(maps.Keys(f.Verdicts)) {
		for _, v := range f.Verdicts[id] {
			if v.Ruling == evidence.Fail {
				failed = append(failed, evidence.Say("of_partner", f.Settings.Label(id), v))
			}
		}
	}
	all := reasonsOf(Unproven, failed...)
	for _, n := range f.Counted.Is {
		if n.Unread != nil {
			all = append(all, unchecked(n.Unread)...)
		}
	}
	return all
}

// lacking are the recent calls of the concerned partners that a backend cannot carry.
func (f *Facts) lacking(backend evidence.Backend, concerned func(partner.ID) bool) (all []evidence.Note) {
	for _, n := range f.Marked.Is {
		if !concerned(n.Partner) {
			continue
		}
		for _, why := range slices.Sorted(maps.Keys(n.Unsupported[backend])) {
			if lack := n.Unsupported[backend][why]; f.age(lack.Last) < routing.Recent {
				all = append(all, evidence.Say("uncarried", f.Settings.Label(n.Partner), f.Settings.Backends[backend],
					n.Operation, why, lack.Count, lack.Last))
			}
		}
	}
	return all
}
