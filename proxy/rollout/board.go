package rollout

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// A Board has the partners in columns, one for each stage.
type Board struct {
	Columns []Column `json:"columns"`
}

// A Column has a page of the partners of a stage, those with names first, in the order of their names.
type Column struct {
	Stage    Stage  `json:"stage"`
	Number   int    `json:"number"` // of all partners of the stage that were seen or have a stage of their own
	Partners []Card `json:"partners"`
	Next     string `json:"next,omitempty"` // there are more: the value of after for the next page
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

// board is for GET /rollout/board.
func (r *Router) board(ctx context.Context, query string) (answer Board, err error) {
	q, err := parseQuery(query, "partner", "stage", "after", "limit")
	if err != nil {
		return answer, err
	}
	if err := r.requireStore(); err != nil {
		return answer, err
	}
	wanted, limit := Stages, cardsEach
	if word, given := q["stage"]; given {
		one, err := parseStage(word)
		if err != nil {
			return answer, badRequest("%s", err)
		}
		wanted, limit = []Stage{one}, cardsMost/5
	}
	if _, given := q["limit"]; given {
		if limit, err = q.limit(cardsMost); err != nil {
			return answer, err
		}
	}
	after, ok := partner.Parse(q["after"])
	if _, given := q["after"]; given && (!ok || len(wanted) > 1) {
		return answer, badRequest("after is the next of the page before, and needs a stage")
	}
	only, err := r.oneOrAll(ctx, q)
	if err != nil {
		return answer, err
	}
	all, err := r.placed(ctx, only)
	if err != nil {
		return answer, err
	}
	keep, cancel := context.WithTimeout(ctx, keepWithin)
	defer cancel()
	if err := r.flush(keep); err != nil {
		return answer, err
	}
	for _, stage := range wanted {
		column, err := r.column(ctx, stage, all[stage], after, limit)
		if err != nil {
			return answer, err
		}
		answer.Columns = append(answer.Columns, column)
	}
	return answer, nil
}

// placed are the partners that were seen or have a stage of their own, by stage; or only one partner.
func (r *Router) placed(ctx context.Context, only partner.ID) (map[Stage][]placed, error) {
	decided, err := r.store.Rollout(ctx)
	if err != nil {
		return nil, err
	}
	seen, err := r.store.SeenPartners(ctx)
	if err != nil {
		return nil, err
	}
	s := r.current.Load()
	stages, all := s.stages(decided), map[Stage][]placed{}
	add := func(id partner.ID, first time.Time) {
		if only != "" && id != only {
			return
		}
		at, own := stageOf(stages, id)
		all[at.Stage] = append(all[at.Stage], placed{id, s.names.Name(string(id)), first, at, own})
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
func (r *Router) column(ctx context.Context, stage Stage, all []placed, after partner.ID, limit int) (Column, error) {
	c := Column{Stage: stage, Number: len(all), Partners: []Card{}}
	if after != "" {
		last := placed{id: after + "g", name: r.name(after)} // after all that look alike
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
		card, err := r.card(ctx, one)
		if err != nil {
			return c, err
		}
		c.Partners = append(c.Partners, card)
	}
	return c, nil
}

func (r *Router) card(ctx context.Context, one placed) (Card, error) {
	card := Card{
		Partner: one.id.Short(), Name: one.name, StageSetting: one.at, Default: !one.own,
		Settled: !one.seen.IsZero() && r.now().Sub(one.seen) >= time.Duration(r.current.Load().config.Settle),
	}
	counted, err := r.fromStore(ctx, r.counts.Table(), store.AllPartners.Of(one.id))
	if err != nil {
		return card, err
	}
	card.Traffic = trafficOf(counted, r.now())
	card.Ruling = evidence.Together(evidence.Verdicts(counted, r.limits()))
	return card, nil
}

// trafficOf adds up the counts of one partner.
func trafficOf(counted evidence.Snapshot, now time.Time) (t Traffic) {
	for _, n := range counted.Counts {
		if t.Since == nil || n.Since.Before(*t.Since) {
			t.Since = &n.Since
		}
		t.Calls += n.Backends[evidence.Old].Number + n.Backends[evidence.New].Number
		t.Bills += n.Recent.InLastDay(now)
		t.AtNew += n.RecentNew.InLastDay(now)
	}
	return t
}
