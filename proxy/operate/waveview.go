package operate

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// lookAt returns a wave with what its partners wait for: those of a page, first those that need a person.
func (o waveVerbs) lookAt(ctx context.Context, w store.Wave, after, limit int) (v moves.View, err error) {
	plan, err := moves.Read(w.Plan)
	if err != nil {
		return v, err
	}
	partners, err := o.Store.WavePartners(ctx, w.Name)
	if err != nil {
		return v, err
	}
	return o.waveView(ctx, plan, w, partners, after, limit)
}

// fewPartners is how many partners have their evidence read apart from that of others.
const fewPartners = 1000

func (o waveVerbs) waveView(
	ctx context.Context, plan moves.Plan, w store.Wave, partners []store.WavePartner, after, limit int,
) (v moves.View, err error) {
	decided, err := o.Store.Rollout(ctx)
	if err != nil {
		return v, err
	}
	facts := o.facts(ctx, decided, "", storeTimeout/2, moves.Needs{Seen: true, Marked: true})
	for i, upstream := range facts.Settings.Backends {
		facts.Open[i] = o.Opened(upstream)
	}
	page := partners
	if after > 0 || limit < len(partners) {
		rows := moves.Positions(plan, w, partners, facts).Rows
		slices.SortStableFunc(rows, byUrgency)
		for i, r := range rows {
			partners[i] = r.WavePartner
		}
		page = partners[min(after, len(partners)):min(after+limit, len(partners))]
	}
	var of []partner.ID
	if len(page) <= fewPartners {
		facts.Of, of = map[partner.ID]bool{}, []partner.ID{}
		for _, one := range page {
			facts.Of[one.Partner], of = true, append(of, one.Partner)
		}
	} else {
		page = partners // all are looked at
	}
	counted, err := o.Rollout.Counts().Of(ctx, of...)
	facts.Count(counted, err, o.Rollout.Counts().Limits())
	var next []moves.Move
	for _, r := range moves.Positions(plan, w, page, facts).Rows {
		if failed, _ := facts.Failed(r.Partner); !r.Done && r.Waits.Kind == "" && len(failed) == 0 {
			next = append(next, moves.Move{Partner: r.Partner, To: r.Next})
		}
	}
	o.undrained(ctx, facts, next...)
	return moves.Look(plan, w, partners, facts), nil
}

// waiting returns why waves wait for a person, by partner.
func (o *Operator) waiting(ctx context.Context, facts *moves.Facts) (map[partner.ID]evidence.Note, error) {
	all, err := o.Store.Waves(ctx, false)
	waits := map[partner.ID]evidence.Note{}
	for _, w := range all {
		partners, failed := o.Store.WavePartners(ctx, w.Name)
		err = cmp.Or(err, failed)
		plan, unread := moves.Read(w.Plan)
		if unread != nil {
			continue // the page of the wave says so
		}
		for _, r := range moves.Positions(plan, w, partners, facts).Rows {
			if !r.Done && r.Waits.Kind != "" {
				waits[r.Partner] = r.Waits
			}
		}
	}
	return waits, err
}

// waveInfo returns a wave for the operator, with a page of its partners; limit 0 is none.
func (o waveVerbs) waveInfo(v moves.View, after, limit int) WaveInfo {
	info := WaveInfo{
		Name: v.Name, State: v.State, By: v.By, Reason: v.Reason, Since: v.Since, Created: v.Created, Plan: v.Plan,
		Number: len(v.Rows), Why: evidence.ReadNote(v.Why), At: []WaveCount{},
	}
	if v.Hold.Kind != "" && v.State == store.WaveRunning {
		info.Hold, info.Until = v.Hold, known(v.Until)
	}
	at, failing := map[routing.Position]int{}, o.Rollout.Failing()
	for _, r := range v.Rows {
		looked := v.Facts != nil && (v.Facts.Of == nil || v.Facts.Of[r.Partner])
		switch {
		case r.Done:
			info.Done++
		case r.Waits.Kind != "", !looked && failing[r.Partner]: // with a FAIL it waits, too: see moves.Look
			info.Waits++
		}
		at[routing.At(string(r.At.Stage), r.At.Percent)]++
	}
	for _, p := range slices.SortedFunc(maps.Keys(at), order) {
		info.At = append(info.At, WaveCount{setting(p), at[p]})
	}
	rows := v.Rows[min(after, len(v.Rows)):]
	if len(rows) > limit && limit > 0 {
		info.Next = after + limit
	}
	rows = slices.Clone(rows[:min(limit, len(rows))])
	slices.SortStableFunc(rows, byUrgency)
	for _, r := range rows {
		row := WaveRow{Who: o.who(r.Partner), Waits: r.Waits, StageSetting: setting(r.At)}
		row.By, row.At = r.Changed.By, known(r.Changed.At)
		if !r.Done {
			row.Step = Step{setting(r.Next), r.Ruling, list(r.Blocks)}
			if r.Stays.After(o.Now()) {
				row.Stays = &r.Stays
			}
		}
		info.Partners = append(info.Partners, row)
	}
	return info
}

// order is that of the stages.
func order(a, b routing.Position) int {
	return cmp.Or(cmp.Compare(slices.Index(routing.Stages, a.Stage), slices.Index(routing.Stages, b.Stage)),
		cmp.Compare(a.Percent, b.Percent))
}

func byUrgency(a, b moves.Row) int { return cmp.Compare(urgency(a), urgency(b)) }

// urgency orders the partners of a wave: those that need a person first, and those that are done last.
func urgency(r moves.Row) int {
	switch {
	case r.Done:
		return 3
	case r.Waits.Kind != "":
		return 0
	case len(r.Blocks) > 0:
		return 1
	}
	return 2
}
