package evidence

import (
	"maps"
	"slices"
	"time"
)

// Recent are the numbers of recently created bills, by merchant and by time in slots of slotLength.
type Recent map[string]map[int64]int

const (
	slotLength = 3 * time.Hour
	aDay       = int64(24 * time.Hour / slotLength)
	maxSlots   = 2 * int(aDay) // more than a day, because slots of a clock that is ahead need space, too

	maxMerchants   = 256 // that are counted separately
	OtherMerchants = ""  // all others
)

func SlotOf(t time.Time) int64 { return t.Unix() / int64(slotLength/time.Second) }

// InLastDay reports whether a slot is in the last day. One slot more is accepted, as the clock of another replica may be ahead.
func InLastDay(slot, now int64) bool { return slot > now-aDay && slot <= now+1 }

// InLastDay returns how many bills were created in the day before a time.
func (r Recent) InLastDay(now time.Time) (bills int) {
	for _, slots := range r {
		for slot, n := range slots {
			if InLastDay(slot, SlotOf(now)) {
				bills += n
			}
		}
	}
	return bills
}

// add counts a bill.
func (r *Recent) add(merchant string, slot int64) {
	if r.put(merchant, slot, 1) {
		r.forget()
	}
}

// put counts bills, and reports whether they are the first ones of their slot.
func (r *Recent) put(merchant string, slot int64, bills int) (first bool) {
	if *r == nil {
		*r = Recent{}
	}
	if (*r)[merchant] == nil && (len(*r) >= maxMerchants || len(merchant) > 200) {
		merchant = OtherMerchants
	}
	if (*r)[merchant] == nil {
		(*r)[merchant] = map[int64]int{}
	}
	had := len((*r)[merchant])
	(*r)[merchant][slot] += bills
	return len((*r)[merchant]) > had
}

// forget removes all but the last slots.
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

// merge adds other counts.
func (r *Recent) merge(more Recent) {
	for _, merchant := range slices.Sorted(maps.Keys(more)) {
		for slot, bills := range more[merchant] {
			r.put(merchant, slot, bills)
		}
	}
	r.forget()
}
