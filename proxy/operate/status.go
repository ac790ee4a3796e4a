package operate

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// A Status is the state of a rollout, as the operator sees it.
type Status struct {
	Old   string `json:"old"` // the two upstreams
	New   string `json:"new"`
	Bills string `json:"bills"`
	// the settling period: how long a partner must have been seen before it leaves the old backend
	Settle string `json:"settle"`
	Declarations
	Default StageSetting `json:"default"`

	Backends []Backend `json:"backends,omitempty"` // all upstreams that the store knows
	Clock    *Clock    `json:"clock,omitempty"`
	Store    string    `json:"store,omitempty"`    // why it cannot be written to
	Gateways []Gateway `json:"gateways,omitempty"` // that use it; not with one partner

	// how many partners are in each stage; not with one partner
	Stages []StageCount `json:"stages,omitempty"`
	// partners with a verdict FAIL, when the metrics were last computed
	Failing   int           `json:"failing_partners,omitempty"`
	Uncounted evidence.Note `json:"uncounted,omitzero"` // why the numbers of bills are missing
	// a page of those that were seen, have a stage of their own or a bill in the ledger
	Partners []PartnerStatus `json:"partners"`
	// there are more partners: the value of after for the next page
	Next string `json:"next,omitempty"`
}

// Declarations are what operators have declared of the rollout.
type Declarations struct {
	Stopped *Declared `json:"stopped,omitempty"`
	// it is stopped on this gateway only, because the stop could not be stored yet
	Unstored bool      `json:"unstored,omitempty"`
	Restored *Declared `json:"restored,omitempty"`
	// nil before: both backends are probed for every bill that the store does not know
	Begun *Declared `json:"begun,omitempty"`
	// before it has begun: since when the rollout runs on this store
	Started *time.Time `json:"started,omitempty"`
	// until then creates that depend on "no such bill" are refused
	RefusedUntil *time.Time `json:"refused_until,omitempty"`
}

// Declared is who declared something, and when.
type Declared = store.Declaration

// A Backend is an upstream as the store knows it.
type Backend struct {
	Name    string    `json:"name"`
	URL     string    `json:"url"`
	MayMove *Declared `json:"may_move,omitempty"` // it may get another address within a day
}

// A StageSetting is a stage that was set, or that of the config, which has no By and At.
type StageSetting struct {
	Stage   routing.Stage `json:"stage"`
	Percent *int          `json:"percent,omitempty"` // of canary
	By      string        `json:"by,omitempty"`
	At      *time.Time    `json:"at,omitempty"`
	Forced  bool          `json:"forced,omitempty"`
}

// String is the stage and its percentage, for people.
func (p StageSetting) String() string { return InWords(string(p.Stage), p.Percent) }

// A PartnerStatus is what is known of a partner: its stage and its bills.
type PartnerStatus struct {
	Who
	Keys []string `json:"keys,omitempty"` // the first digits of its keys, if it has several; only of one partner
	StageSetting
	Default bool       `json:"by_default"` // it has no stage of its own
	Seen    *time.Time `json:"seen,omitempty"`
	Settled bool       `json:"settled"` // its settling period is over
	// when its settling period will be over; nil if it is, or if no call was seen yet
	SettlesAt *time.Time    `json:"settles_at,omitempty"`
	Bills     []store.Bills `json:"bills,omitempty"`
}

// A Page is a part of a list of partners.
type Page struct {
	PartnerRef
	VerdictFilter
	After string `json:"after,omitzero"` // the next of the page before
	Limit
}

// Status returns the state of the rollout, with a page of its partners.
func (o *Operator) Status(ctx context.Context, p Page) (answer Status, err error) {
	only, err := p.one(ctx, o.core)
	if err != nil {
		return answer, err
	}
	limit, err := p.get()
	if err = cmp.Or(err, p.check()); err != nil {
		return answer, err
	}
	after, given := partner.Parse(p.After)
	if p.After != "" && !given {
		return answer, badRequest("after must be next of the previous page")
	}
	s := o.Rollout.Settings()
	answer = Status{
		Old: s.Backends[evidence.Old], New: s.Backends[evidence.New],
		Bills:  string(s.Config.Bills),
		Settle: s.Config.Settle.String(), Failing: len(o.Rollout.Failing()),
	}
	decided, err := o.decided(ctx)
	if err != nil {
		return Status{}, err
	}
	answer.Stopped, answer.Restored = declared(decided.Stopped), declared(decided.Restored)
	answer.Begun = declared(decided.Begun)
	if pending := o.Rollout.Stopping(); pending != nil && answer.Stopped == nil {
		answer.Stopped, answer.Unstored = declared(*pending), true
	}
	if err := o.certainty(ctx, decided, &answer); err != nil {
		return Status{}, err
	}
	answer.Default = o.stages(decided)[""]
	in, among := store.AllPartners.Of(only), []partner.ID(nil)
	if p.Verdict != "" {
		counted, err := o.Rollout.Counts().Of(ctx, only)
		if err != nil {
			return Status{}, err
		}
		among = append([]partner.ID{}, p.partners(evidence.Verdicts(counted, o.Rollout.Counts().Limits()))...)
	}
	if only == "" {
		if answer.Gateways, err = o.Gateways(ctx, struct{}{}); err != nil {
			return Status{}, err
		}
		if answer.Stages, err = o.StageCounts(ctx, struct{}{}); err != nil {
			return Status{}, err
		}
		if in, answer.Next, err = o.page(ctx, among, after, limit); err != nil {
			return Status{}, err
		}
	}
	answer.Partners, answer.Uncounted, err = o.partnerStatuses(ctx, decided, only, in)
	answer.Partners = slices.DeleteFunc(answer.Partners, func(one PartnerStatus) bool {
		_, selected := slices.BinarySearch(among, one.ID)
		return among != nil && !selected
	})
	return answer, err
}

// certainty adds what the ledger depends on: whether it is complete, the addresses of the upstreams, and the clock.
func (o *Operator) certainty(ctx context.Context, decided store.Rollout, answer *Status) error {
	if o.Store == nil {
		return nil
	}
	if !decided.Started.IsZero() {
		answer.Started = &decided.Started
	}
	answer.RefusedUntil = o.Rollout.RefusedUntil()
	known, err := o.Store.Upstreams(ctx)
	if err != nil {
		return err
	}
	for _, u := range known {
		answer.Backends = append(answer.Backends, Backend{u.Name, u.URL, declared(u.MayMove)})
	}
	clock, err := o.Clock(ctx, struct{}{})
	answer.Clock = &clock
	if lost := o.Store.Ping(ctx); lost != nil {
		answer.Store = lost.Error()
	}
	return err
}

// decided returns the state of the rollout in the store, empty without a store.
func (o *core) decided(ctx context.Context) (store.Rollout, error) {
	if o.Store == nil {
		return store.Rollout{}, nil
	}
	return o.Store.Rollout(ctx)
}

// page returns the range of the first limit partners after one, among those of a list, sorted, or among all for nil.
// next is the last of them, "" if there are no more.
func (o *Operator) page(
	ctx context.Context, among []partner.ID, after partner.ID, limit int,
) (in store.Range, next string, err error) {
	in = store.AllPartners
	if after != "" {
		in = store.After(after)
	}
	if o.Store == nil {
		return in, "", nil
	}
	ids := slices.DeleteFunc(slices.Clone(among), func(id partner.ID) bool { return !in.Has(id) })
	if among == nil {
		ids, err = o.Store.PartnersIn(ctx, in, limit+1)
	}
	if err != nil || len(ids) <= limit {
		return in, "", err
	}
	last := partner.ID(ids[limit-1].Short()) // with all that look alike
	return in.Through(last), string(last), nil
}

// partnerStatuses returns those of one partner, or for "" of those in a range. uncounted is why the numbers of bills
// are missing.
func (o *Operator) partnerStatuses(
	ctx context.Context, decided store.Rollout, only partner.ID, in store.Range,
) (all []PartnerStatus, uncounted evidence.Note, err error) {
	var seen []store.SeenPartner
	var bills []store.Bills
	if o.Store != nil {
		if seen, err = o.Store.SeenPartners(ctx, in); err != nil {
			return nil, uncounted, err
		}
		count, cancel := context.WithTimeout(ctx, storeTimeout/2)
		defer cancel()
		bills, err = o.openBills(count, in)
		switch {
		case err != nil && ctx.Err() == nil && count.Err() != nil: // it takes longer than an operator waits
			uncounted = evidence.Say("too_large", storeTimeout/2)
		case err != nil:
			return nil, uncounted, err
		}
	}
	return o.statuses(decided, only, in, seen, bills), uncounted, nil
}

// statuses returns the partners that were seen, have bills, or have a stage of their own: one of them, also if nothing
// is known of it, or for "" those in a range, sorted.
func (o *Operator) statuses(
	decided store.Rollout, only partner.ID, in store.Range, seen []store.SeenPartner, bills []store.Bills,
) []PartnerStatus {
	all, stages := map[partner.ID]*PartnerStatus{}, o.stages(decided)
	of := func(id partner.ID) *PartnerStatus {
		if all[id] == nil {
			placed, own := stages[id]
			if !own {
				placed = stages[""]
			}
			all[id] = &PartnerStatus{Who: o.who(id), StageSetting: placed, Default: !own}
		}
		return all[id]
	}
	for _, sight := range seen {
		one, until := of(sight.Partner), o.settles(sight.First)
		if one.Seen, one.Settled = &sight.First, !o.Now().Before(until); !one.Settled {
			one.SettlesAt = &until
		}
	}
	for _, b := range bills {
		one := of(b.Partner)
		one.Bills = append(one.Bills, b)
	}
	for id := range stages {
		if id != "" && in.Has(id) {
			of(id)
		}
	}
	if only != "" {
		one := of(only)
		for i, key := range o.furtherKeys(only) {
			if i == 0 {
				one.Keys = []string{one.Partner}
			}
			one.Keys = append(one.Keys, key.Short())
		}
	}
	list := []PartnerStatus{}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		list = append(list, *all[id])
	}
	return list
}

// settles is when the settling period of a partner is over.
func (o *core) settles(firstSeen time.Time) time.Time {
	return firstSeen.Add(time.Duration(o.Rollout.Settings().Config.Settle))
}

// stages returns the stages that partners have of their own, and at "" the default.
func (o *core) stages(decided store.Rollout) map[partner.ID]StageSetting {
	all := map[partner.ID]StageSetting{"": {Stage: routing.Stage(o.Rollout.Settings().Config.Default)}}
	for _, s := range decided.Stages {
		at := setting(routing.At(s.Stage, s.Percent))
		at.By, at.At, at.Forced = s.By, &s.At, s.Forced
		all[s.Partner] = at
	}
	return all
}

// setting returns a position as a stage that nobody has set.
func setting(p routing.Position) StageSetting {
	return StageSetting{Stage: p.Stage, Percent: percentOf(p)}
}

// percentOf returns the percentage of canary, nil for other stages.
func percentOf(p routing.Position) *int {
	if p.Stage != routing.StageCanary {
		return nil
	}
	return &p.Percent
}
