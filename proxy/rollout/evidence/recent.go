package evidence

import (
	"maps"
	"slices"
	"time"
)

// Recent are the numbers of recently created bills, by time in slots of slotLength, and by merchant.
type Recent map[int64]map[string]int

const (
	slotLength = 3 * time.Hour
	aDay       = int64(24 * time.Hour / slotLength)
	maxSlots   = 2 * int(aDay) // more than a day, because slots of a clock that is ahead need space, too

	maxMerchants   = 256 // of a slot, that are counted separately
	OtherMerchants = ""  // all others
)

func slotOf(t time.Time) int64 { return t.Unix() / int64(slotLength/time.Second) }

// InLastDay returns how many bills were created in the day before a time, by merchant. One slot more is accepted, as
// the clock of another replica may be ahead.
func (r Recent) InLastDay(now time.Time) map[string]int {
	bills := map[string]int{}
	for slot, merchants := range r {
		if at := slotOf(now); slot > at-aDay && slot <= at+1 {
			for merchant, n := range merchants {
				bills[merchant] += n
			}
		}
	}
	return bills
}

// add counts bills. It removes all but the last slots.
func (r *Recent) add(merchant string, slot int64, bills int) {
	if *r == nil {
		*r = Recent{}
	}
	of := (*r)[slot]
	if of == nil {
		of = map[string]int{}
		(*r)[slot] = of
	}
	if of[merchant] == 0 && len(of) >= maxMerchants || len(merchant) > 200 {
		merchant = OtherMerchants
	}
	of[merchant] += bills
	if len(*r) > maxSlots {
		delete(*r, slices.Min(slices.Collect(maps.Keys(*r))))
	}
}

// merge adds other counts.
func (r *Recent) merge(more Recent) {
	for slot, merchants := range more {
		for _, merchant := range slices.Sorted(maps.Keys(merchants)) {
			r.add(merchant, slot, merchants[merchant])
		}
	}
}
