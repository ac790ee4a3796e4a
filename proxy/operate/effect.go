package operate

import (
	"context"
	"math"

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

// effect returns the effect of a move; nil if it is not to canary, or if it cannot be found out soon: an effect is not
// worth an error.
func (o *Operator) effect(ctx context.Context, decided store.Rollout, m rollout.Move) *Effect {
	if m.To.Stage != rollout.StageCanary {
		return nil
	}
	counted, known := o.countsFor(ctx, store.AllPartners.Of(m.Partner))
	missing := counted.Missing(func(id partner.ID) bool { return m.Concerns(decided, id) })
	if !known || missing != nil {
		return nil
	}
	return o.estimate(decided, m, counted.Counts)
}

// countsFor returns what was counted of the partners of a range, for estimates.
func (o *Operator) countsFor(ctx context.Context, in store.Range) (counted evidence.Snapshot, known bool) {
	ctx, cancel := context.WithTimeout(ctx, rollout.PreconditionsWithin/2)
	defer cancel()
	counted, err := o.Rollout.Counts().OfAllTables(ctx, in)
	if err != nil {
		o.Logger.Error("the effect of a percentage could not be estimated", "error", err.Error())
	}
	return counted, err == nil
}

// estimate estimates the effect of a percentage by counts.
func (o *Operator) estimate(decided store.Rollout, m rollout.Move, counts []evidence.Count) *Effect {
	s, now := o.Rollout.Settings(), o.Now()
	e := Effect{Split: s.Config.Split, Percent: m.To.Percent}
	apart, chosen := 0, 0 // bills of merchants that are counted apart, and of the chosen ones among them
	for _, n := range counts {
		if !m.Concerns(decided, n.Partner) {
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
			if m.To.Percent > 0 && (e.Split == config.ByBill || s.Chosen(call, m.To.Percent)) {
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
