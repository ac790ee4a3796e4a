package operate

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// A Board has the partners in columns, one for each stage.
type Board struct {
	Columns []Column `json:"columns"`
}

// A Column has a page of the partners of a stage, those with names first, in the order of their names.
type Column struct {
	Stage    rollout.Stage `json:"stage"`
	Number   int           `json:"number"` // of all partners of the stage that were seen or have a stage of their own
	Partners []Card        `json:"partners"`
	Next     string        `json:"next,omitempty"` // there are more: the value of after for the next page
}

// A Card is a partner on the board.
type Card struct {
	PartnerStatus                 // without its bills
	Traffic       Traffic         `json:"traffic"`
	Ruling        evidence.Ruling `json:"ruling,omitempty"` // of all its verdicts together; none if nothing was counted
}

// Traffic is what a partner does.
type Traffic struct {
	Since *time.Time `json:"since,omitempty"` // since when calls are counted
	Calls int        `json:"calls"`           // since then, at both backends
	Bills int        `json:"bills"`           // that were created in the last day
	AtNew int        `json:"at_new"`          // of these, at the new backend
}

// Share is the percentage of the new bills of the last day that the new backend got, -1 if there were none.
func (t Traffic) Share() int {
	if t.Bills == 0 {
		return -1
	}
	return (200*t.AtNew + t.Bills) / (2 * t.Bills)
}

const (
	cardsMost = 500 // of a page of one column
	cardsEach = 20  // of each column, if all are asked for
)

// byName orders partners: those with a name first.
func byName(a, b PartnerStatus) int {
	if (a.Name == "") != (b.Name == "") {
		return cmp.Compare(b.Name, a.Name)
	}
	return cmp.Or(cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), cmp.Compare(a.ID, b.ID))
}

// A BoardPage is a page of the partners of a stage, or without a stage the first of each.
type BoardPage struct {
	Page
	Stage rollout.Stage `json:"stage,omitzero"`
}

// Board returns the partners by stage, with traffic and verdict.
func (o *Operator) Board(ctx context.Context, p BoardPage) (answer Board, err error) {
	if err := o.needStore(); err != nil {
		return answer, err
	}
	wanted, limit := rollout.Stages, cardsEach
	if p.Stage != "" {
		if !slices.Contains(rollout.Stages, p.Stage) {
			return answer, badRequest("stage must be one of %v, but is %q", rollout.Stages, p.Stage)
		}
		wanted, limit = []rollout.Stage{p.Stage}, cardsMost/5
	}
	if p.Most != nil {
		if limit, err = p.within(cardsMost); err != nil {
			return answer, err
		}
	}
	after, ok := partner.Parse(p.After)
	if p.After != "" && (!ok || len(wanted) > 1) {
		return answer, badRequest("after is the next of the page before, and needs a stage")
	}
	only, err := p.one(ctx, o)
	if err != nil {
		return answer, err
	}
	decided, err := o.Store.Rollout(ctx)
	if err != nil {
		return answer, err
	}
	in := store.AllPartners.Of(only)
	seen, err := o.Store.SeenPartners(ctx, in)
	if err == nil {
		err = o.Rollout.Counts().FlushSoon(ctx)
	}
	if err != nil {
		return answer, err
	}
	all := map[rollout.Stage][]PartnerStatus{}
	for _, one := range o.statuses(o.stages(decided), "", in, seen, nil) {
		all[one.Stage] = append(all[one.Stage], one)
	}
	for _, stage := range wanted {
		column, err := o.column(ctx, stage, all[stage], after, limit)
		if err != nil {
			return answer, err
		}
		answer.Columns = append(answer.Columns, column)
	}
	return answer, nil
}

// column is a page of the partners of a stage.
func (o *Operator) column(
	ctx context.Context, stage rollout.Stage, all []PartnerStatus, after partner.ID, limit int,
) (Column, error) {
	c := Column{Stage: stage, Number: len(all), Partners: []Card{}}
	slices.SortFunc(all, byName)
	if after != "" {
		last := PartnerStatus{ID: after + "g", Name: o.name(after)} // after all that look alike
		at, _ := slices.BinarySearchFunc(all, last, byName)
		all = all[at:]
	}
	if len(all) > limit {
		last := all[limit-1].Partner
		for limit < len(all) && all[limit].Partner == last { // they look alike
			limit++
		}
		if limit < len(all) {
			c.Next = last
		}
		all = all[:limit]
	}
	for _, one := range all {
		card, err := o.card(ctx, one)
		if err != nil {
			return c, err
		}
		c.Partners = append(c.Partners, card)
	}
	return c, nil
}

func (o *Operator) card(ctx context.Context, one PartnerStatus) (Card, error) {
	counted, err := o.Rollout.Counts().InStore(ctx, store.AllPartners.Of(one.ID))
	ruling := evidence.Together(evidence.Verdicts(counted, o.Rollout.Counts().Limits()))
	return Card{one, trafficOf(counted, o.Now()), ruling}, err
}

// trafficOf adds up the counts of one partner.
func trafficOf(counted evidence.Snapshot, now time.Time) (t Traffic) {
	for _, n := range counted.Counts {
		if t.Since == nil || n.Since.Before(*t.Since) {
			t.Since = &n.Since
		}
		t.Calls += n.Backends[evidence.Old].Number + n.Backends[evidence.New].Number
		for _, bills := range n.Recent.InLastDay(now) {
			t.Bills += bills
		}
		t.AtNew += n.RecentNew.InLastDay(now)[evidence.OtherMerchants]
	}
	return t
}
