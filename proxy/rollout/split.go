package rollout

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"

	"billbridge/config"
	"billbridge/proxy/store"
)

// chosen reports whether canary sends the new bill of a call to the new backend. Ids that differ only in case or in surrounding
// space get the same answer: a backend may take them for one bill.
func (s *settings) chosen(c Call, percent int) bool {
	drawn := strings.ToLower(strings.TrimSpace(c.Bill))
	if s.config.Split == config.ByMerchant {
		drawn = c.Merchant
	}
	return inPercentage(c.Partner, drawn, percent)
}

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
	return fmt.Sprintf("%s%d %% of new bills; %d of %s%d merchants (%d %s in the last day)", about, e.Percent, e.Reached, more, e.Merchants, e.Bills, noun)
}

// effect is the effect of a move; nil if it is not to canary, or if the effect cannot be found out.
func (r *Router) effect(ctx context.Context, decided store.Rollout, m move) *Effect {
	if m.to.stage != StageCanary {
		return nil
	}
	counted, ok := r.forEffect(ctx, store.AllPartners.Of(m.partner))
	if !ok {
		return nil
	}
	return r.current.Load().effect(m.to, counted, r.now(), func(partner partner.ID) bool { return m.concerns(decided, partner) })
}

// forEffect is what was counted lately. ok is false if that takes too long: an effect is not worth an error.
func (r *Router) forEffect(ctx context.Context, in store.Range) (counted evidence.Snapshot, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, preconditionsWithin/2)
	defer cancel()
	counted, err := r.ofAllTables(ctx, in)
	if err != nil {
		r.log.Error("the effect of a percentage could not be estimated", "error", err.Error())
	}
	return counted, err == nil
}

// effect is the effect of a position on the concerned partners; nil if it is not canary.
func (s *settings) effect(at position, counted evidence.Snapshot, now time.Time, concerned func(partner partner.ID) bool) *Effect {
	if at.stage != StageCanary {
		return nil
	}
	e := Effect{Split: s.config.Split, Percent: at.percent}
	apart, chosen := 0, 0 // bills of merchants that are counted apart, and of the chosen ones among them
	for _, n := range counted.Counts {
		if !concerned(n.Partner) {
			continue
		}
		for merchant, slots := range n.Recent {
			created := 0
			for slot, bills := range slots {
				if evidence.InLastDay(slot, evidence.SlotOf(now)) {
					created += bills
				}
			}
			if e.Bills += created; created == 0 {
				continue
			}
			if merchant == evidence.OtherMerchants {
				e.Uncounted = true
				continue
			}
			e.Merchants++
			apart += created
			if reached := at.percent > 0; reached && (e.Split == config.ByBill || s.chosen(Call{Partner: n.Partner, Merchant: merchant}, at.percent)) {
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
