package operate

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// An Effect is what a percentage of canary means in numbers, estimated from the bills of the last day.
type Effect struct {
	Split     config.Split `json:"split"`
	Percent   int          `json:"percent"`             // about how much of the new bills goes to the new backend
	Bills     int          `json:"bills"`               // created in the last day, at either backend
	Merchants int          `json:"merchants"`           // of these bills
	Reached   int          `json:"reached"`             // merchants with new bills at the new backend
	Uncounted bool         `json:"uncounted,omitempty"` // there were more merchants than are counted apart
}

// String is the effect in words.
func (e Effect) String() string {
	about := "about "
	if e.Percent == 0 || e.Percent == 100 {
		about = ""
	}
	if e.Bills == 0 {
		of := "new bills"
		if e.Split == config.ByMerchant {
			of = "merchants"
		}
		return fmt.Sprintf("%s%d %% of %s; no bill was counted in the last day", about, e.Percent, of)
	}
	more, noun := "", "bills"
	if e.Uncounted {
		more = "more than "
	}
	if e.Bills == 1 {
		noun = "bill"
	}
	return fmt.Sprintf("%s%d %% of new bills; %d of %s%d merchants (%d %s in the last day)",
		about, e.Percent, e.Reached, more, e.Merchants, e.Bills, noun)
}

// effect returns the effect of a move; nil if it is not to canary, or if the effect cannot be found out.
func (o *Operator) effect(ctx context.Context, decided store.Rollout, m rollout.Move) *Effect {
	if m.To.Stage != rollout.StageCanary {
		return nil
	}
	counted, ok := o.forEffect(ctx, store.AllPartners.Of(m.Partner))
	if !ok {
		return nil
	}
	return o.effectOf(m.To, counted, func(partner partner.ID) bool { return m.Concerns(decided, partner) })
}

// forEffect returns what was counted lately. ok is false if that takes too long: an effect is not worth an error.
func (o *Operator) forEffect(ctx context.Context, in store.Range) (counted evidence.Snapshot, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, rollout.PreconditionsWithin/2)
	defer cancel()
	counted, err := o.Rollout.Counts().OfAllTables(ctx, in)
	if err != nil {
		o.Logger.Error("the effect of a percentage could not be estimated", "error", err.Error())
	}
	return counted, err == nil
}

// forEffects returns what was counted lately of the partners of a range, by partner. ok is false if no stage is
// canary, or if it takes too long.
func (o *Operator) forEffects(
	ctx context.Context, stages map[partner.ID]StageSetting, in store.Range,
) (counted map[partner.ID]evidence.Snapshot, ok bool) {
	canary := func(p StageSetting) bool { return p.Stage == rollout.StageCanary }
	if !slices.ContainsFunc(slices.Collect(maps.Values(stages)), canary) {
		return nil, false
	}
	all, ok := o.forEffect(ctx, in)
	counted = map[partner.ID]evidence.Snapshot{}
	for _, n := range all.Counts {
		own := counted[n.Partner]
		own.Counts = append(own.Counts, n)
		counted[n.Partner] = own
	}
	return counted, ok
}

// effectOf returns the effect of a position on the concerned partners; nil if it is not canary.
func (o *Operator) effectOf(at rollout.Position, counted evidence.Snapshot, concerned func(partner.ID) bool) *Effect {
	s, now := o.Rollout.Settings(), o.Now()
	if at.Stage != rollout.StageCanary {
		return nil
	}
	e := Effect{Split: s.Config.Split, Percent: at.Percent}
	apart, chosen := 0, 0 // bills of merchants that are counted apart, and of the chosen ones among them
	for _, n := range counted.Counts {
		if !concerned(n.Partner) {
			continue
		}
		for merchant, created := range n.Recent.InLastDay(now) {
			e.Bills += created
			if merchant == evidence.OtherMerchants {
				e.Uncounted = true
				continue
			}
			e.Merchants++
			apart += created
			call := rollout.Call{Partner: n.Partner, Merchant: merchant}
			if at.Percent > 0 && (e.Split == config.ByBill || s.Chosen(call, at.Percent)) {
				e.Reached++
				chosen += created
			}
		}
	}
	if e.Split == config.ByMerchant && apart > 0 {
		e.Percent = int(math.Round(100 * float64(chosen) / float64(apart)))
	}
	return &e
}
