package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// A BlockingReason is a reason against a change. Its kind is for programs, its text for people.
type BlockingReason struct {
	Kind ReasonKind    `json:"kind"`
	Text string        `json:"text"` // the words of Note; package operate adds them
	Note evidence.Note `json:"-"`
}

// A ReasonKind is the kind of a blocking reason.
type ReasonKind string

// The kinds of reasons. README.md describes them.
const (
	Unsettled      ReasonKind = "settling"        // the settling period of the partner is not over
	Unproven       ReasonKind = "verdict"         // a verdict that the stage needs is not PASS
	Unpaid         ReasonKind = "paid"            // too few of the bills that were compared are paid
	Uncarried      ReasonKind = "calls"           // the backend cannot carry calls that the partner makes
	Undrained      ReasonKind = "open_bills"      // bills at the old backend may be open
	WrongClock     ReasonKind = "clock"           // the clock differs from that of the store
	MoneyElsewhere ReasonKind = "money_elsewhere" // an exact field of another partner differs at the same backend
	FromStore      ReasonKind = "restored"        // the store was restored from a backup
	AtNew          ReasonKind = "bills_at_new"    // the ledger of a new store has bills at the new backend
	// a backend does not have the bill that gets an owner, or cannot be read
	NotAtBoth ReasonKind = "not_at_both"
	// a newer callback of the bill was delivered, or waits, when one is replayed
	Newer     ReasonKind = "newer"
	Unchecked ReasonKind = "unchecked" // a precondition could not be checked
)

// ReasonKinds are all of them.
var ReasonKinds = []ReasonKind{
	Unsettled, Unproven, Unpaid, MoneyElsewhere, Uncarried, Undrained, WrongClock, FromStore, AtNew, NotAtBoth,
	Newer, Unchecked,
}

// KindsOf returns the kinds of reasons, each once.
func KindsOf(reasons []BlockingReason) (kinds []ReasonKind) {
	for _, reason := range reasons {
		if !slices.Contains(kinds, reason.Kind) {
			kinds = append(kinds, reason.Kind)
		}
	}
	return kinds
}

// JoinKinds separates kinds by commas.
func JoinKinds(kinds []ReasonKind) string {
	names := make([]string, len(kinds))
	for i, kind := range kinds {
		names[i] = string(kind)
	}
	return strings.Join(names, ",")
}

// A Blocked config cannot take effect, for reasons against its default stage.
type Blocked struct {
	From, To string // the default stages
	Reasons  []BlockingReason
}

// Error names the kinds of the reasons. Package operate has their words.
func (b *Blocked) Error() string {
	return fmt.Sprintf("rollout.default is %s, was %s: not changed, for the reasons %s", b.To, b.From,
		JoinKinds(KindsOf(b.Reasons)))
}

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

// Preconditions find the reasons that block the changes of operators, by one config.
type Preconditions struct {
	*Router
	settings *Settings
}

// Preconditions returns those of the config in force.
func (r *Router) Preconditions() *Preconditions { return &Preconditions{r, r.current.Load()} }

// AgainstMove returns the reasons against a move. A check that cannot be made is a reason, too.
func (p *Preconditions) AgainstMove(ctx context.Context, decided store.Rollout, m Move) (all []BlockingReason) {
	for _, check := range []func(context.Context, store.Rollout, Move) ([]BlockingReason, error){
		p.unsettled, p.undrained, p.unproven, p.atBackends,
	} {
		ctx, cancel := context.WithTimeout(ctx, PreconditionsWithin/2)
		found, err := check(ctx, decided, m)
		cancel()
		if err != nil {
			found = unchecked(err)
		}
		all = append(all, found...)
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
		all = append(all, BlockingReason{Kind: kind, Note: note})
	}
	return all
}

func unchecked(err error) []BlockingReason {
	return reasonsOf(Unchecked, evidence.Say("unchecked", err))
}

// unsettled: calls that the partner sent to the old backend without the gateway may still be under way. For a move of
// the default, each partner's settling period is checked when it calls.
func (p *Preconditions) unsettled(ctx context.Context, _ store.Rollout, m Move) ([]BlockingReason, error) {
	s := p.settings
	if m.Partner == "" || m.To.percentage() == 0 || s.Config.Bills == config.Shared {
		return nil, nil
	}
	first, err := p.store.FirstSeen(ctx, m.Partner)
	seen, want, old := age(p.store, p.now(), first), time.Duration(s.Config.Settle), s.Backends[evidence.Old]
	switch {
	case errors.Is(err, store.ErrNotFound):
		return reasonsOf(Unsettled, evidence.Say("unseen", old, want)), nil
	case err != nil || seen >= want:
		return nil, err
	}
	return reasonsOf(Unsettled, evidence.Say("unsettled", seen, want, old)), nil
}

// undrained: the old backend has bills that may be open. By a wrong clock, bills may seem to be over.
func (p *Preconditions) undrained(
	ctx context.Context, decided store.Rollout, m Move,
) (all []BlockingReason, err error) {
	if m.To.Stage != StageDrained {
		return nil, nil
	}
	if clock := p.store.Clock(p.now()); clock.Stepped() {
		all = reasonsOf(WrongClock, evidence.Say("clock", clock.StoreTime.Add(clock.Offset), clock.StoreTime))
	}
	old, open := p.settings.Backends[evidence.Old], 0
	bills, err := p.OpenBills(ctx, store.AllPartners.Of(m.Partner))
	for _, b := range bills {
		if b.Upstream == old && m.Concerns(decided, b.Partner) {
			open += b.Pending + b.Owned - b.Over - b.Ended
		}
	}
	switch {
	case err != nil:
		all = append(all, unchecked(err)...)
	case open > 0:
		all = append(all, reasonsOf(Undrained, evidence.Say("open_bills", old, open))...)
	}
	return all, nil
}

// unproven: a later stage needs a PASS. Before canary, with separate bills and without a copy, there is nothing to
// compare yet. If all that a PASS lacks is paid bills, the reason is another: an operator who overrides it declares
// that the partner's bills are not paid.
func (p *Preconditions) unproven(ctx context.Context, decided store.Rollout, m Move) ([]BlockingReason, error) {
	if !m.advances() {
		return nil, nil
	}
	counted, err := p.counts.Of(ctx, m.Partner)
	if err != nil {
		return nil, err
	}
	partners := []partner.ID{m.Partner}
	if m.Partner == "" {
		seen, err := p.store.SeenPartners(ctx, store.AllPartners)
		if err != nil {
			return nil, err
		}
		partners = nil
		for _, one := range seen {
			if m.Concerns(decided, one.Partner) {
				partners = append(partners, one.Partner)
			}
		}
	}
	by := map[partner.ID][]evidence.Verdict{}
	for _, v := range evidence.Verdicts(counted, p.counts.Limits()) {
		by[v.Partner] = append(by[v.Partner], v)
	}
	var lacks [2][]evidence.Note
	for i := range lacks {
		for _, one := range partners {
			if why := m.lacksPass(by[one], p.settings.Config, i == 1); why.Kind != "" {
				lacks[i] = append(lacks[i], evidence.Say("of_partner", p.settings.Label(one), why))
			}
		}
	}
	if len(partners) == 0 { // there is no evidence
		if why := m.lacksPass(nil, p.settings.Config, false); why.Kind != "" {
			lacks[0] = []evidence.Note{evidence.Say("no_partner", why)}
		}
	}
	return append(reasonsOf(Unproven, lacks[0]...), reasonsOf(Unpaid, lacks[1]...)...), nil
}

// lacksPass returns why the verdicts of one partner do not allow a move (README.md, "Which verdicts a stage needs"),
// zero if they do.
func (m Move) lacksPass(own []evidence.Verdict, c *config.Rollout, unpaid bool) evidence.Note {
	creates := map[string]bool{}
	for _, v := range own {
		creates[v.Operation] = creates[v.Operation] || v.Evidence == evidence.ByReadBack
	}
	// In stage new no bill is created at the old backend any more: the codes of the calls cannot be compared.
	uncomparable := func(v evidence.Verdict) bool {
		return m.From.Stage == StageNew && v.CallStats != nil && v.Ruling == evidence.Inconclusive &&
			v.Calls[evidence.Old] < c.Verdict.Comparisons &&
			(!creates[v.Operation] || v.Calls[evidence.New] >= c.Verdict.Comparisons)
	}
	first := m.From.percentage() == 0 && m.To.Stage == StageCanary
	raised := !first && m.To.Stage == StageCanary
	bare := first && !c.Comparable() // there is nothing to compare yet
	var against []evidence.Verdict
	proved := false
	for _, v := range own {
		needed := first && v.Evidence == evidence.ByShadow || !first && creates[v.Operation]
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
func (p *Preconditions) atBackends(ctx context.Context, decided store.Rollout, m Move) ([]BlockingReason, error) {
	before, after := m.From.percentage(), m.To.percentage()
	if !m.advances() && before == after {
		return nil, nil
	}
	counted, err := p.counts.Marked(ctx)
	if err != nil {
		return nil, err
	}
	var money, lacking []evidence.Note
	for _, n := range counted.Counts {
		if n.Partner == m.Partner || !m.advances() {
			continue
		}
		for _, path := range n.ExactFields() {
			f := n.Fields[path]
			money = append(money, evidence.Say("money", p.settings.Label(n.Partner), path, n.Operation, f.Count,
				f.Old, f.New, f.Bill, f.Request, f.At))
		}
	}
	if backend := evidence.Old; before != after {
		if before < after {
			backend = evidence.New
		}
		lacking = p.lacking(counted, backend, func(partner partner.ID) bool { return m.Concerns(decided, partner) })
	}
	return append(reasonsOf(MoneyElsewhere, money...), reasonsOf(Uncarried, lacking...)...), nil
}

// AgainstStop are the blocking reasons of the kill switch. It does not wait for counts to be stored.
func (p *Preconditions) AgainstStop(ctx context.Context, within time.Duration) (all []BlockingReason, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	decided, err := p.store.Rollout(ctx)
	if err != nil {
		return nil, err
	}
	counted, err := p.counts.Marked(ctx)
	if err != nil {
		return nil, err
	}
	s, at := p.settings, p.settings.positions(decided)
	lacking := p.lacking(counted, evidence.Old, func(partner partner.ID) bool { return at(partner).percentage() > 0 })
	all = reasonsOf(Uncarried, lacking...)
	if !decided.Restored.At.IsZero() && s.Config.Bills == config.Separate {
		restored := evidence.Say("restored", s.Backends[evidence.New], s.Backends[evidence.Old])
		all = append(all, reasonsOf(FromStore, restored)...)
	}
	return all, nil
}

// AgainstBegin are the blocking reasons of Begin: bills of the new backend in the ledger.
func (p *Preconditions) AgainstBegin(ctx context.Context) []BlockingReason {
	bills, err := p.OpenBills(ctx, store.AllPartners)
	if err != nil {
		return unchecked(err)
	}
	found, name := 0, p.settings.Backends[evidence.New]
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

// AgainstReset are the blocking reasons of a reset: verdicts that are FAIL.
func (p *Preconditions) AgainstReset(ctx context.Context, partner partner.ID) []BlockingReason {
	counted, err := p.counts.Of(ctx, partner)
	if err != nil {
		return unchecked(err)
	}
	var failed []evidence.Note
	for _, v := range evidence.Verdicts(counted, p.counts.Limits()) {
		if v.Ruling == evidence.Fail {
			failed = append(failed, evidence.Say("of_partner", p.settings.Label(v.Partner), v))
		}
	}
	return reasonsOf(Unproven, failed...)
}

// lacking are the recent calls of the concerned partners that a backend cannot carry.
func (p *Preconditions) lacking(
	counted evidence.Snapshot, backend evidence.Backend, concerned func(partner.ID) bool,
) (all []evidence.Note) {
	for _, n := range counted.Counts {
		if !concerned(n.Partner) {
			continue
		}
		for _, lack := range evidence.UnsupportedOf(n.Backends[backend]) {
			if age(p.store, p.now(), lack.Last) < recent {
				all = append(all, evidence.Say("uncarried", p.settings.Label(n.Partner), p.settings.Backends[backend],
					n.Operation, lack.Why, lack.Count, lack.Last))
			}
		}
	}
	return all
}
