package operate

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// A PartnerState is what a partner needs.
type PartnerState string

// The states. Each partner is in the first of them that is true.
const (
	Wrong    PartnerState = "fail"    // its verdict is FAIL: the answers of the backends are not the same
	NoAnswer PartnerState = "outage"  // its verdict is FAIL, only because calls had no answer
	Person   PartnerState = "person"  // its wave waits for a person
	Ready    PartnerState = "ready"   // nothing blocks its next stage
	Waiting  PartnerState = "waiting" // something blocks its next stage
	Last     PartnerState = "last"    // it is in the last stage
)

// PartnerStates are all states, the most urgent first.
var PartnerStates = []PartnerState{Wrong, NoAnswer, Person, Ready, Waiting, Last}

// A PartnerQuery selects partners. They are sorted by what needs a person, and by their names.
type PartnerQuery struct {
	PartnerRef
	Stage routing.Stage `json:"stage,omitzero"`
	State PartnerState  `json:"state,omitzero"`
	After int           `json:"after,omitzero,string"` // the next of the page before
	Limit
}

// A PartnerList is a page of the partners that a query selects.
type PartnerList struct {
	All    int `json:"all"`    // partners that were seen or have a stage of their own
	Number int `json:"number"` // of these, that the query selects
	// of those that the query selects but for their state, how many are in each state
	States   map[PartnerState]int `json:"states"`
	Partners []PartnerRow         `json:"partners"`
	Next     int                  `json:"next,omitempty"` // there are more: the value of after for the next page
}

// A PartnerRow is a partner, what it does, and what its next stage waits for.
type PartnerRow struct {
	PartnerStatus         // without its bills
	Traffic       Traffic `json:"traffic"`
	Step          Step    `json:"next,omitzero"`  // zero in the last stage
	Wave          string  `json:"wave,omitempty"` // that has not ended and that it is in
	// why the wave waits for a person
	Waits evidence.Note `json:"waits,omitzero"`
	State PartnerState  `json:"state"`
}

// state returns the state of a partner.
func (r PartnerRow) state(facts *moves.Facts) PartnerState {
	switch failed, _ := facts.Failed(r.ID); {
	case len(failed) > 0 && facts.NoAnswer(r.ID):
		return NoAnswer
	case len(failed) > 0:
		return Wrong
	case r.Waits.Kind != "":
		return Person
	case r.Step.Stage == "":
		return Last
	case len(r.Step.Reasons) > 0:
		return Waiting
	}
	return Ready
}

// A Step is the next stage of a partner.
type Step struct {
	StageSetting                        // without By and At
	Ruling       evidence.Ruling        `json:"verdict,omitempty"` // of the verdicts that it needs; "" if it needs none
	Reasons      []moves.BlockingReason `json:"reasons"`
}

// Kinds are the kinds of the reasons against it.
func (s Step) Kinds() []moves.ReasonKind { return moves.KindsOf(s.Reasons) }

// Traffic is what a partner does.
type Traffic struct {
	Since *time.Time `json:"since,omitempty"` // since when the evidence is counted
	Last  *time.Time `json:"last,omitempty"`  // the last call that was counted, to some seconds
	Bills int        `json:"bills"`           // that were created since then
	AtNew int        `json:"at_new"`          // of these, at the new backend
}

// Share is the percentage of the new bills that the new backend got, -1 if there were none.
func (t Traffic) Share() int {
	if t.Bills == 0 {
		return -1
	}
	return (200*t.AtNew + t.Bills) / (2 * t.Bills)
}

// add adds the counts of an operation, of which a code says that it succeeded.
func (t *Traffic) add(n evidence.Count, success string) {
	if t.Since == nil || n.Since.Before(*t.Since) {
		t.Since = &n.Since
	}
	if t.Last == nil || n.Last.After(*t.Last) {
		t.Last = known(n.Last)
	}
	if n.Creates {
		t.AtNew += n.Codes[success][evidence.New]
		t.Bills += n.Codes[success][evidence.Old] + n.Codes[success][evidence.New]
	}
}

// byNeed orders partners: those that need a person first, and then those with a name.
func byNeed(a, b PartnerRow) int {
	urgent := func(r PartnerRow) int {
		return min(slices.Index(PartnerStates, r.State), slices.Index(PartnerStates, Ready))
	}
	if urgent(a) != urgent(b) {
		return cmp.Compare(urgent(a), urgent(b))
	}
	if (a.Name == "") != (b.Name == "") {
		return cmp.Compare(b.Name, a.Name)
	}
	return cmp.Or(cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), cmp.Compare(a.ID, b.ID))
}

// Partners returns a page of the partners, each with its traffic and its next stage.
func (o *Operator) Partners(ctx context.Context, q PartnerQuery) (answer PartnerList, err error) {
	limit, err := q.get()
	switch err := cmp.Or(err, o.needStore()); {
	case err != nil:
		return answer, err
	case q.Stage != "" && !slices.Contains(routing.Stages, q.Stage):
		return answer, badRequest("stage must be one of %v, but is %q", routing.Stages, q.Stage)
	case q.State != "" && !slices.Contains(PartnerStates, q.State):
		return answer, badRequest("state must be one of %v, but is %q", PartnerStates, q.State)
	case q.After < 0:
		return answer, badRequest("after must be next of the previous page")
	}
	only, err := q.one(ctx, o.core)
	if err != nil {
		return answer, err
	}
	rows, err := o.partnerRows(ctx, only)
	if err != nil {
		return answer, err
	}
	answer.All = len(rows)
	rows = slices.DeleteFunc(rows, func(r PartnerRow) bool { return q.Stage != "" && q.Stage != r.Stage })
	answer.States = map[PartnerState]int{}
	for _, r := range rows {
		answer.States[r.State]++
	}
	rows = slices.DeleteFunc(rows, func(r PartnerRow) bool { return q.State != "" && q.State != r.State })
	slices.SortFunc(rows, byNeed)
	answer.Number = len(rows)
	rows = rows[min(q.After, len(rows)):]
	if len(rows) > limit {
		rows, answer.Next = rows[:limit], q.After+limit
	}
	answer.Partners = rows
	return answer, nil
}

// partnerRows returns one partner, or all for "". What is known of them is read once for all of them.
func (o *Operator) partnerRows(ctx context.Context, only partner.ID) ([]PartnerRow, error) {
	decided, err := o.Store.Rollout(ctx)
	if err != nil {
		return nil, err
	}
	facts := o.facts(ctx, decided, only, storeTimeout/2, moves.Needs{Seen: true, Counted: true, Marked: true})
	if err := cmp.Or(facts.Seen.Err(), facts.Counted.Err()); err != nil {
		return nil, err
	}
	traffic := map[partner.ID]Traffic{}
	for _, n := range facts.Counted.Is {
		t := traffic[n.Partner]
		t.add(n, o.Rollout.Counts().Limits().Success)
		traffic[n.Partner] = t
	}
	waves, err := o.Store.InWaves(ctx)
	if err != nil {
		return nil, err
	}
	waits, err := o.waiting(ctx, facts)
	if err != nil {
		return nil, err
	}
	rows, next, at := []PartnerRow{}, map[partner.ID]moves.Move{}, facts.Settings.Positions(decided)
	for _, one := range o.statuses(decided, only, store.AllPartners.Of(only), facts.Seen.Is, nil) {
		rows = append(rows, PartnerRow{PartnerStatus: one, Traffic: traffic[one.ID], Wave: waves[one.ID]})
		if to, more := at(one.ID).Next(facts.Settings.Config.Bills); more {
			next[one.ID] = moves.Move{Partner: one.ID, From: at(one.ID), To: to}
		}
	}
	o.undrained(ctx, facts, slices.Collect(maps.Values(next))...)
	for i := range rows {
		if m, more := next[rows[i].ID]; more {
			reasons := facts.Against(m)
			rows[i].Step = Step{setting(m.To), facts.Ruling(m, reasons), list(reasons)}
		}
		rows[i].Waits = waits[rows[i].ID]
		rows[i].State = rows[i].state(facts)
	}
	return rows, nil
}
