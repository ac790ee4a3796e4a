package operate

import (
	"context"
	"slices"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// A Report is what an operator reads before a partner gets a later stage.
type Report struct {
	Version    string             `json:"version"`  // of the program
	Backends   []Backend          `json:"backends"` // old and new, by the config
	Table      string             `json:"table"`    // the version of the table in the comparisons
	Since      time.Time          `json:"since"`    // when counting started
	Until      time.Time          `json:"until"`
	Limits     evidence.Limits    `json:"limits"`
	Ignored    []string           `json:"ignored,omitempty"` // fields that may differ, by the config
	Assumption string             `json:"assumption"`
	Partners   []PartnerStatus    `json:"partners"`
	Uncounted  evidence.Note      `json:"uncounted,omitzero"` // why the numbers of bills are missing
	Verdicts   []evidence.Verdict `json:"verdicts"`           // each partner by its short hash
	Calls      int                `json:"calls"`              // that were counted, at both backends
	Next       *Change            `json:"next,omitempty"`     // the next stage of one partner, unless it is in the last
	// about these partners and about all, the oldest first
	Decisions []Change `json:"decisions"`
}

// newReport makes the report of what was counted until a time.
func newReport(counted []evidence.Count, limits evidence.Limits, until time.Time, partners []PartnerStatus) Report {
	r := Report{
		Until: until.UTC().Truncate(time.Second), Limits: limits, Assumption: evidence.Assumption,
		Partners: list(partners), Verdicts: evidence.Verdicts(counted, limits),
	}
	r.Since = r.Until
	for i := range r.Verdicts {
		r.Verdicts[i].Partner = partner.ID(r.Verdicts[i].Partner.Short())
	}
	for _, n := range counted {
		if n.Since.Before(r.Since) {
			r.Since = n.Since
		}
		r.Calls += n.Calls[evidence.Old] + n.Calls[evidence.New]
	}
	return r
}

// A ReportQuery selects a report.
type ReportQuery struct {
	PartnerRef
	VerdictFilter
}

// Report returns what was compared and counted, of one partner or of all, and the next stage of one. With a verdict it
// has the verdicts of that kind alone, and their partners.
func (o *Operator) Report(ctx context.Context, q ReportQuery) (answer Report, err error) {
	if err = q.check(); err == nil {
		answer, err = o.Evidence(ctx, q.PartnerRef)
	}
	if err != nil {
		return answer, err
	}
	if answer.only(q.Verdict); q.Partner == "" {
		return answer, nil
	}
	next, wrong := o.Move(ctx, Move{Switch: Switch{Preview: true}, PartnerRef: q.PartnerRef, Do: Next})
	if wrong == nil {
		answer.Next = &next
	}
	return answer, nil
}

// A VerdictFilter selects partners that have a verdict, on whichever operation. "" selects all.
type VerdictFilter struct {
	Verdict evidence.Ruling `json:"verdict,omitzero"`
}

func (f VerdictFilter) check() error {
	if f.Verdict != "" && !slices.Contains(evidence.Rulings, f.Verdict) {
		return badRequest("verdict must be one of %v, but is %q", evidence.Rulings, f.Verdict)
	}
	return nil
}

// partners returns the partners that the filter selects, sorted.
func (f VerdictFilter) partners(verdicts []evidence.Verdict) (ids []partner.ID) {
	for _, v := range verdicts {
		if v.Ruling == f.Verdict {
			ids = append(ids, v.Partner)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// only leaves the verdicts of a kind and their partners, all for "".
func (r *Report) only(verdict evidence.Ruling) {
	if verdict == "" {
		return
	}
	ids := VerdictFilter{verdict}.partners(r.Verdicts) // short ones
	r.Verdicts = slices.DeleteFunc(r.Verdicts, func(v evidence.Verdict) bool { return v.Ruling != verdict })
	r.Partners = slices.DeleteFunc(r.Partners, func(p PartnerStatus) bool {
		return !slices.Contains(ids, partner.ID(p.Partner))
	})
}

// Evidence returns a report without the next stage, whose preconditions take time.
func (o *Operator) Evidence(ctx context.Context, p PartnerRef) (answer Report, err error) {
	only, err := p.one(ctx, o.core)
	if err != nil {
		return answer, err
	}
	decided, err := o.decided(ctx)
	if err != nil {
		return answer, err
	}
	partners, uncounted, err := o.partnerStatuses(ctx, decided, only, store.AllPartners.Of(only))
	if err != nil {
		return answer, err
	}
	within, cancel := context.WithTimeout(ctx, storeTimeout/2)
	defer cancel()
	counted, err := o.Rollout.Counts().Of(within, only)
	if err != nil {
		return answer, err
	}
	answer = newReport(counted, o.Rollout.Counts().Limits(), o.Now(), partners)
	for i := range answer.Verdicts {
		answer.Verdicts[i].Name = o.who(answer.Verdicts[i].Partner).Name
	}
	answer.Uncounted, answer.Ignored = uncounted, o.Rollout.Settings().Config.Shadow.Ignore
	answer.Version, answer.Table = o.Version, o.Rollout.Counts().Table()
	for _, name := range o.Rollout.Settings().Backends {
		b := Backend{Name: name}
		if u := o.Config().Upstreams.Find(name); u != nil { // as ever, but for the moment of a reload
			b.URL = u.Address.String()
		}
		answer.Backends = append(answer.Backends, b)
	}
	answer.Decisions, err = o.decisions(ctx, only)
	return answer, err
}

// ofRollout are the actions that decide about the rollout.
var ofRollout = []store.Action{
	store.Staged, store.Stopped, store.Resumed, store.Restored, store.Reset, store.Begun, store.Moved, store.Assigned,
	store.KeyAdded, store.ClockConfirmed, store.OutcomeDismissed, store.WaveChanged,
}

// decisions returns what was decided about the rollout of one partner, or of all.
func (o *Operator) decisions(ctx context.Context, only partner.ID) ([]Change, error) {
	if o.Store == nil {
		return []Change{}, nil
	}
	all, err := o.entries(ctx, store.AuditFilter{
		Partner: only, Shared: true, Limit: listedMost, Actions: ofRollout,
	})
	slices.Reverse(all)
	return all, err
}
