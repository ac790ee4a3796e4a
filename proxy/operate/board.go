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
	Partner string `json:"partner"`
	Name    string `json:"name,omitempty"`
	StageSetting
	Default bool            `json:"by_default"` // it has no stage of its own
	Settled bool            `json:"settled"`    // its settling period is over
	Traffic Traffic         `json:"traffic"`
	Ruling  evidence.Ruling `json:"ruling,omitempty"` // of all its verdicts together; none if nothing was counted
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

// A placed partner is one with its stage.
type placed struct {
	id   partner.ID
	name string
	seen time.Time
	at   StageSetting
	own  bool
}

// byName orders partners: those with a name first.
func byName(a, b placed) int {
	if (a.name == "") != (b.name == "") {
		return strings.Compare(b.name, a.name)
	}
	return cmp.Or(strings.Compare(strings.ToLower(a.name), strings.ToLower(b.name)), strings.Compare(string(a.id), string(b.id)))
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
	all, err := o.placed(ctx, only)
	if err != nil {
		return answer, err
	}
	if err := o.Rollout.Counts().FlushSoon(ctx); err != nil {
		return answer, err
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

// placed are the partners that were seen or have a stage of their own, by stage; or only one partner.
func (o *Operator) placed(ctx context.Context, only partner.ID) (map[rollout.Stage][]placed, error) {
	decided, err := o.Store.Rollout(ctx)
	if err != nil {
		return nil, err
	}
	seen, err := o.Store.SeenPartners(ctx, store.AllPartners)
	if err != nil {
		return nil, err
	}
	stages, all := o.stages(decided), map[rollout.Stage][]placed{}
	add := func(id partner.ID, first time.Time) {
		if only != "" && id != only {
			return
		}
		at, own := stageOf(stages, id)
		all[at.Stage] = append(all[at.Stage], placed{id, o.name(id), first, at, own})
	}
	known := make(map[partner.ID]bool, len(seen))
	for _, one := range seen {
		known[one.Partner] = true
		add(one.Partner, one.First)
	}
	for id := range stages {
		if id != "" && !known[id] {
			add(id, time.Time{})
		}
	}
	for _, column := range all {
		slices.SortFunc(column, byName)
	}
	return all, nil
}

// column is a page of the partners of a stage.
func (o *Operator) column(ctx context.Context, stage rollout.Stage, all []placed, after partner.ID, limit int) (Column, error) {
	c := Column{Stage: stage, Number: len(all), Partners: []Card{}}
	if after != "" {
		last := placed{id: after + "g", name: o.name(after)} // after all that look alike
		at, _ := slices.BinarySearchFunc(all, last, byName)
		all = all[at:]
	}
	if len(all) > limit {
		last := all[limit-1].id.Short()
		for limit < len(all) && all[limit].id.Short() == last { // they look alike
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

func (o *Operator) card(ctx context.Context, one placed) (Card, error) {
	card := Card{
		Partner: one.id.Short(), Name: one.name, StageSetting: one.at, Default: !one.own,
		Settled: !one.seen.IsZero() && o.Now().Sub(one.seen) >= time.Duration(o.Rollout.Settings().Config.Settle),
	}
	counted, err := o.Rollout.Counts().InStore(ctx, store.AllPartners.Of(one.id))
	if err != nil {
		return card, err
	}
	card.Traffic = trafficOf(counted, o.Now())
	card.Ruling = evidence.Together(evidence.Verdicts(counted, o.Rollout.Counts().Limits()))
	return card, nil
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
