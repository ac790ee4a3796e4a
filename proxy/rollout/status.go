package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
	"billbridge/translate/wording"
)

// A Status is the state of a rollout, as the operator sees it.
type Status struct {
	Old          string       `json:"old"` // the two upstreams
	New          string       `json:"new"`
	Bills        string       `json:"bills"`
	Split        string       `json:"split"`  // what canary takes a percentage of
	Settle       string       `json:"settle"` // the settling period: how long a partner must have been seen before it leaves the old backend
	Stopped      *Declared    `json:"stopped,omitempty"`
	Unstored     bool         `json:"unstored,omitempty"` // it is stopped on this gateway only, because the stop could not be stored yet
	Restored     *Declared    `json:"restored,omitempty"`
	Begun        *Declared    `json:"begun,omitempty"`         // nil before: both backends are probed for every bill that the store does not know
	Started      *time.Time   `json:"started,omitempty"`       // before it has begun: since when the rollout runs on this store
	RefusedUntil *time.Time   `json:"refused_until,omitempty"` // until then creates that depend on "no such bill" are refused
	Default      StageSetting `json:"default"`

	Backends []Backend     `json:"backends,omitempty"` // all upstreams that the store knows
	Clock    *Clock        `json:"clock,omitempty"`
	Store    string        `json:"store,omitempty"`  // why it cannot be written to
	Reload   *FailedReload `json:"reload,omitempty"` // the last one, if it was refused

	Failing   int             `json:"failing_partners,omitempty"` // partners with a verdict FAIL, when the metrics were last computed
	Uncounted string          `json:"uncounted,omitempty"`        // why the numbers of bills are missing
	Partners  []PartnerStatus `json:"partners"`                   // a page of those that were seen, have a stage of their own or a bill in the ledger
	Next      string          `json:"next,omitempty"`             // there are more partners: the value of after for the next page

	UncountedParts wording.Text `json:"uncounted_parts,omitempty"` // the parts of Uncounted, for translations
}

// Declared is who declared something, and when.
type Declared struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// A Backend is an upstream as the store knows it.
type Backend struct {
	Name    string    `json:"name"`
	URL     string    `json:"url"`
	MayMove *Declared `json:"may_move,omitempty"` // it may get another address within a day
}

// A Clock compares the machine's clock, or PostgreSQL's, with the store's.
type Clock struct {
	Store   time.Time `json:"store"`
	Offset  float64   `json:"offset_seconds"` // by which the machine's is ahead
	Stepped bool      `json:"stepped"`        // they differ so much that old rows are not removed
}

// Machine is the time by the machine's clock, or PostgreSQL's.
func (c Clock) Machine() time.Time {
	return c.Store.Add(time.Duration(c.Offset * float64(time.Second)))
}

// ClockOf is a clock as the operator sees it.
func ClockOf(c store.Clock) Clock {
	return Clock{c.StoreTime.Truncate(time.Millisecond).UTC(), c.Offset.Seconds(), c.Stepped()}
}

// A FailedReload is a reload whose config was refused. The last good config stays.
type FailedReload struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

// NoteReload keeps the error of a reload for the status, until one succeeds.
func (r *Router) NoteReload(err error) {
	if err == nil {
		r.reload.Store(nil)
		return
	}
	r.reload.Store(&FailedReload{r.now(), err.Error()})
}

// A StageSetting is a stage that was set, or that of the config, which has no By and At.
type StageSetting struct {
	Stage   Stage      `json:"stage"`
	Percent *int       `json:"percent,omitempty"` // of canary
	By      string     `json:"by,omitempty"`
	At      *time.Time `json:"at,omitempty"`
	Forced  bool       `json:"forced,omitempty"`
	Effect  *Effect    `json:"effect,omitempty"` // of canary
}

// position is the same as a position.
func (p StageSetting) position() position {
	at := position{stage: p.Stage, forced: p.Forced}
	if p.Percent != nil {
		at.percent = *p.Percent
	}
	return at
}

// String is the stage and its percentage, for people.
func (p StageSetting) String() string { return InWords(string(p.Stage), p.Percent) }

// InWords is a stage and its percentage, if it has one, for people.
func InWords(stage string, percent *int) string {
	if percent == nil {
		return stage
	}
	return fmt.Sprintf("%s %d%%", stage, *percent)
}

// A PartnerStatus is what is known of a partner: its stage and its bills.
type PartnerStatus struct {
	Partner string `json:"partner"`
	Name    string `json:"name,omitempty"`
	StageSetting
	Default bool         `json:"by_default"` // it has no stage of its own
	Seen    *time.Time   `json:"seen,omitempty"`
	Settled bool         `json:"settled"` // its settling period is over
	Bills   []BillCounts `json:"bills,omitempty"`
}

// BillCounts are the numbers of bills that an upstream has of a partner, by the ledger: without those created before the gateway was in use.
type BillCounts struct {
	Upstream string `json:"upstream"`
	Pending  int    `json:"pending"`
	Owned    int    `json:"owned"`
	Over     int    `json:"over"`  // of Pending and Owned: past their last day
	Ended    int    `json:"ended"` // of Pending and Owned, and not Over: seen destroyed or cancelled
	Released int    `json:"released"`
}

// Open is how many of them may still be open.
func (h BillCounts) Open() int { return h.Pending + h.Owned - h.Over - h.Ended }

// Changed is a change of the rollout.
type Changed struct {
	Revision    int64            `json:"revision"`
	Action      string           `json:"action"`
	By          string           `json:"by"`
	At          time.Time        `json:"at"`
	Partner     string           `json:"partner,omitempty"` // "default" for all without a stage of their own
	Name        string           `json:"name,omitempty"`    // of the partner
	From        string           `json:"from,omitempty"`    // in the audit log, left out if the partner had no stage of its own
	FromPercent *int             `json:"from_percent,omitempty"`
	To          string           `json:"to,omitempty"`
	ToPercent   *int             `json:"to_percent,omitempty"`
	Forced      bool             `json:"forced,omitempty"`
	Overridden  []ReasonKind     `json:"overridden,omitempty"` // the kinds of the reasons that were overridden, if Forced
	Already     bool             `json:"already,omitempty"`    // nothing was changed: this is the earlier change
	Effect      *Effect          `json:"effect,omitempty"`     // of canary
	Warning     string           `json:"warning,omitempty"`    // what the operator should know of the change
	Subject     string           `json:"subject,omitempty"`    // the bill that was assigned, the upstream that may move
	Preview     bool             `json:"preview,omitempty"`    // nothing was changed: this is what would change
	Reasons     []BlockingReason `json:"reasons,omitzero"`     // against the change, of a preview
	Unstored    string           `json:"unstored,omitempty"`   // why a stop could not be stored: it is in effect on this gateway alone

	WarningParts wording.Text `json:"warning_parts,omitempty"` // the parts of Warning, for translations; none if Warning has an error
}

func (r *Router) status(ctx context.Context, query string) (answer Status, err error) {
	q, err := parseQuery(query, "partner", "after", "limit")
	if err != nil {
		return answer, err
	}
	only, err := r.oneOrAll(ctx, q)
	if err != nil {
		return answer, err
	}
	limit, err := q.limit(listedMost)
	if err != nil {
		return answer, err
	}
	after, given := partner.Parse(q["after"])
	if _, wanted := q["after"]; wanted && !given {
		return answer, badRequest("after is the next of the page before")
	}
	s := r.current.Load()
	answer = Status{Old: s.backends[evidence.Old], New: s.backends[evidence.New], Bills: string(s.config.Bills), Split: string(s.config.Split), Settle: short(time.Duration(s.config.Settle))}
	decided, err := r.all(ctx)
	if err != nil {
		return Status{}, err
	}
	answer.Stopped, answer.Restored, answer.Begun = declared(decided.Stopped), declared(decided.Restored), declared(decided.Begun)
	if pending := r.stopping.Load(); pending != nil && answer.Stopped == nil {
		answer.Stopped, answer.Unstored = declared(pending.Declaration), true
	}
	answer.Reload, answer.Failing = r.reload.Load(), int(r.failing.Load())
	if err := r.certainty(ctx, s, decided, &answer); err != nil {
		return Status{}, err
	}
	answer.Default = s.stages(decided)[""]
	answer.Default.Effect = r.effect(ctx, decided, move{to: answer.Default.position()})
	in := store.AllPartners
	if only == "" {
		if in, answer.Next, err = r.page(ctx, s.stages(decided), after, limit); err != nil {
			return Status{}, err
		}
	}
	answer.Partners, answer.UncountedParts, err = r.partnerStatuses(ctx, decided, only, in)
	answer.Uncounted = answer.UncountedParts.String()
	return answer, err
}

// certainty adds what the ledger depends on: whether it is complete, the addresses of the upstreams, and the clock.
func (r *Router) certainty(ctx context.Context, s *settings, decided store.Rollout, answer *Status) error {
	if r.store == nil {
		return nil
	}
	if !decided.Started.IsZero() {
		answer.Started = &decided.Started
	}
	if d := r.decided.Load(); !d.since.IsZero() && !r.absentCounts(s, d) {
		until := d.counted.Add(time.Duration(s.config.Settle))
		answer.RefusedUntil = &until
	}
	known, err := r.store.Upstreams(ctx)
	if err != nil {
		return err
	}
	for _, u := range known {
		answer.Backends = append(answer.Backends, Backend{u.Name, u.URL, declared(u.MayMove)})
	}
	clock := ClockOf(r.store.Clock(r.now()))
	answer.Clock = &clock
	if err := r.store.Ping(ctx); err != nil {
		answer.Store = err.Error()
	}
	return nil
}

// all is the state of the rollout in the store, empty without a store.
func (r *Router) all(ctx context.Context) (store.Rollout, error) {
	if r.store == nil {
		return store.Rollout{}, nil
	}
	return r.store.Rollout(ctx)
}

// partnerStatuses are those of one partner, or for "" of those in a range. uncounted is why the numbers of bills are missing.
func (r *Router) partnerStatuses(ctx context.Context, decided store.Rollout, only partner.ID, in store.Range) (answer []PartnerStatus, uncounted wording.Text, err error) {
	s := r.current.Load()
	stages := s.stages(decided)
	seen, bills, err := r.known(ctx, only, in)
	switch {
	case errors.Is(err, errUncounted):
		uncounted = tooLarge
	case err != nil:
		return nil, nil, err
	}
	all := map[partner.ID]*PartnerStatus{}
	of := func(partner partner.ID) *PartnerStatus {
		one := all[partner]
		if one == nil {
			one = &PartnerStatus{Partner: partner.Short(), Name: s.names.Name(string(partner))}
			all[partner] = one
		}
		return one
	}
	for _, sight := range seen {
		one := of(sight.Partner)
		one.Seen, one.Settled = &sight.First, r.now().Sub(sight.First) >= time.Duration(s.config.Settle)
	}
	for _, b := range bills {
		one := of(b.Partner)
		one.Bills = append(one.Bills, BillCounts{b.Upstream, b.Pending, b.Owned, b.Over, b.Ended, b.Released})
	}
	if only != "" {
		of(only) // also if nothing is known of it
	} else {
		for partner := range stages {
			if partner != "" && in.Has(partner) {
				of(partner)
			}
		}
	}
	counted, known := r.forEffects(ctx, stages, in.Of(only))
	answer = []PartnerStatus{}
	for id, one := range all {
		placed, own := stageOf(stages, id)
		one.StageSetting, one.Default = placed, !own
		if known {
			one.Effect = s.effect(placed.position(), counted[id], r.now(), func(partner.ID) bool { return true })
		}
		answer = append(answer, *one)
	}
	slices.SortFunc(answer, func(a, b PartnerStatus) int { return strings.Compare(a.Partner, b.Partner) })
	return answer, uncounted, nil
}

// forEffects is what was counted lately of the partners of a range, by partner. ok is false if no stage is canary, or if it takes too long.
func (r *Router) forEffects(ctx context.Context, stages map[partner.ID]StageSetting, in store.Range) (counted map[partner.ID]evidence.Snapshot, ok bool) {
	if !slices.ContainsFunc(slices.Collect(maps.Values(stages)), func(p StageSetting) bool { return p.Stage == StageCanary }) {
		return nil, false
	}
	all, ok := r.forEffect(ctx, in)
	counted = map[partner.ID]evidence.Snapshot{}
	for _, n := range all.Counts {
		own := counted[n.Partner]
		own.Counts = append(own.Counts, n)
		counted[n.Partner] = own
	}
	return counted, ok
}

// stageOf is the stage of a partner; own is false if it is the default.
func stageOf(stages map[partner.ID]StageSetting, id partner.ID) (placed StageSetting, own bool) {
	if placed, own = stages[id]; !own {
		placed = stages[""]
	}
	return placed, own
}

// stages are the stages that partners have of their own, and at "" the default.
func (s *settings) stages(decided store.Rollout) map[partner.ID]StageSetting {
	all := map[partner.ID]StageSetting{"": {Stage: Stage(s.config.Default), Percent: percentOf(Stage(s.config.Default), 0)}}
	for _, stage := range decided.Stages {
		all[stage.Partner] = StageSetting{Stage(stage.Stage), percentOf(Stage(stage.Stage), stage.Percent), stage.By, &stage.At, stage.Forced, nil}
	}
	return all
}

// percentOf is the percentage of canary, nil for other stages.
func percentOf(stage Stage, percent int) *int {
	if stage != StageCanary {
		return nil
	}
	return &percent
}

func declared(d store.Declaration) *Declared {
	if d.At.IsZero() {
		return nil
	}
	return &Declared{d.By, d.At}
}

// auditedMost is the most entries of the audit log in one answer.
const auditedMost = 10_000

func (r *Router) audit(ctx context.Context, query string) ([]Changed, error) {
	q, err := parseQuery(query, "partner", "limit")
	if err != nil {
		return nil, err
	}
	limit, err := q.limit(auditedMost)
	if err != nil {
		return nil, err
	}
	if err := r.requireStore(); err != nil {
		return nil, err
	}
	only, err := r.oneOrAll(ctx, q)
	if err != nil {
		return nil, err
	}
	read := func() ([]store.Change, error) { return r.store.Audit(ctx, limit) }
	if only != "" {
		read = func() ([]store.Change, error) { return r.store.AuditOf(ctx, only, limit) }
	}
	log, err := read()
	if err != nil {
		return nil, err
	}
	answer := make([]Changed, len(log))
	for i, c := range log {
		answer[i] = Changed{Revision: c.Revision, Action: string(c.Action), By: c.By, At: c.At, Forced: c.Forced, Subject: c.Subject}
		for name := range strings.SplitSeq(c.Overridden, ",") {
			if name != "" {
				answer[i].Overridden = append(answer[i].Overridden, ReasonKind(name))
			}
		}
		if c.Forced && c.Action == store.Assigned { // its only kind of reason
			answer[i].Overridden = []ReasonKind{NotAtBoth}
		}
		switch {
		case c.Partner != "":
			answer[i].Partner, answer[i].Name = c.Partner.Short(), r.name(c.Partner)
		case c.Action == store.Staged:
			answer[i].Partner = forDefault
		case c.Action == store.Reset:
			answer[i].Partner = forAll
		}
		answer[i].From, answer[i].FromPercent = c.From, percentOf(Stage(c.From), c.FromPercent)
		answer[i].To, answer[i].ToPercent = c.To, percentOf(Stage(c.To), c.ToPercent)
	}
	return answer, nil
}
