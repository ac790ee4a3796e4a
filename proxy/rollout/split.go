package rollout

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/store"
)

// chosen tells whether canary sends the new bill of a call to the new backend. Ids that differ only in case, or in space around
// them, are drawn alike: a backend may take them for one bill.
func (s *settings) chosen(c Call, percent int) bool {
	drawn := strings.ToLower(strings.TrimSpace(c.Bill))
	if s.config.Split == config.ByMerchant {
		drawn = c.Merchant
	}
	return share(s.config.Salt, c.Partner, drawn, percent)
}

// An Effect is what the percentage of canary comes to, by the bills that partners made in the last day.
type Effect struct {
	Split     config.Split `json:"split"`
	Percent   int          `json:"percent"`             // about how much of the new bills goes to the new backend
	Bills     int          `json:"bills"`               // made in the last day, at either backend
	Merchants int          `json:"merchants"`           // that made them
	Reached   int          `json:"reached"`             // merchants of which new bills go to the new backend
	Uncounted bool         `json:"uncounted,omitempty"` // there were more merchants than are kept apart
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

// effect is what a move comes to; nil outside of canary, and where that cannot be found out: it changes nothing.
func (r *Router) effect(ctx context.Context, decided store.Rollout, m move) *Effect {
	if m.to.Stage != StageCanary {
		return nil
	}
	counted, ok := r.forEffect(ctx, m.partner)
	if !ok {
		return nil
	}
	return r.current.Load().effect(m.to, counted, r.now(), func(partner string) bool { return m.concerns(decided, partner) })
}

// forEffect is what was counted lately, unless that takes too long: an effect is worth no failure.
func (r *Router) forEffect(ctx context.Context, partner string) (counted Snapshot, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, preconditionsWithin/2)
	defer cancel()
	counted, err := r.lately(ctx, partner)
	if err != nil {
		r.log.Error("what a percentage comes to cannot be found out", "error", err.Error())
	}
	return counted, err == nil
}

// effect is what a position comes to for the partners that it is of; nil outside of canary.
func (s *settings) effect(at Position, counted Snapshot, now time.Time, concerned func(partner string) bool) *Effect {
	if at.Stage != StageCanary {
		return nil
	}
	e := Effect{Split: s.config.Split, Percent: at.Percent}
	apart, chosen := 0, 0 // bills of merchants that are kept apart, and of those that are chosen
	for _, n := range counted.Counts {
		if !concerned(n.Partner) {
			continue
		}
		for merchant, slots := range n.Recent {
			made := 0
			for slot, bills := range slots {
				if inLastDay(slot, slotOf(now)) {
					made += bills
				}
			}
			if e.Bills += made; made == 0 {
				continue
			}
			if merchant == otherMerchants {
				e.Uncounted = true
				continue
			}
			e.Merchants++
			apart += made
			if reached := at.Percent > 0; reached && (e.Split == config.ByBill || s.chosen(Call{Partner: n.Partner, Merchant: merchant}, at.Percent)) {
				e.Reached++
				chosen += made
			}
		}
	}
	if e.Split == config.ByMerchant && apart > 0 {
		e.Percent = int(math.Round(100 * float64(chosen) / float64(apart)))
	}
	return &e
}

// Recent are the bills that were made lately: their number by merchant and by time, in slots of slotLength.
type Recent map[string]map[int64]int

const (
	slotLength = 3 * time.Hour
	aDay       = int64(24 * time.Hour / slotLength)
	maxSlots   = 2 * int(aDay) // more than a day: those of a clock that is ahead leave room for the others

	maxMerchants   = 256 // that are kept apart
	otherMerchants = ""  // what stands for all others
)

func slotOf(t time.Time) int64 { return t.Unix() / int64(slotLength/time.Second) }

// inLastDay tells whether a slot is of the last day. The clock of another replica may be a little ahead.
func inLastDay(slot, now int64) bool { return slot > now-aDay && slot <= now+1 }

// add counts a bill.
func (r *Recent) add(merchant string, slot int64) {
	if r.put(merchant, slot, 1) {
		r.forget()
	}
}

// put counts bills, and tells whether they are the first ones of their slot.
func (r *Recent) put(merchant string, slot int64, bills int) (first bool) {
	if *r == nil {
		*r = Recent{}
	}
	if (*r)[merchant] == nil && (len(*r) >= maxMerchants || len(merchant) > 200) {
		merchant = otherMerchants
	}
	if (*r)[merchant] == nil {
		(*r)[merchant] = map[int64]int{}
	}
	had := len((*r)[merchant])
	(*r)[merchant][slot] += bills
	return len((*r)[merchant]) > had
}

// forget keeps the last slots alone.
func (r Recent) forget() {
	all := map[int64]bool{}
	for _, slots := range r {
		for slot := range slots {
			all[slot] = true
		}
	}
	if len(all) <= maxSlots {
		return
	}
	sorted := slices.Sorted(maps.Keys(all))
	oldest := sorted[len(sorted)-maxSlots]
	for merchant, slots := range r {
		maps.DeleteFunc(slots, func(slot int64, _ int) bool { return slot < oldest })
		if len(slots) == 0 {
			delete(r, merchant)
		}
	}
}

// merge adds what was counted elsewhere, or at another time.
func (r *Recent) merge(more Recent) {
	for _, merchant := range slices.Sorted(maps.Keys(more)) {
		for slot, bills := range more[merchant] {
			r.put(merchant, slot, bills)
		}
	}
	r.forget()
}

func (r Recent) clone() Recent {
	all := maps.Clone(r)
	for merchant, slots := range all {
		all[merchant] = maps.Clone(slots)
	}
	return all
}
