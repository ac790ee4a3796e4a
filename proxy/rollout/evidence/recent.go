package evidence

import (
	"maps"
	"slices"
	"time"
)

// Recent are the numbers of recently created bills, by time in slots of slotLength, and by backend.
type Recent map[int64][2]int

const (
	slotLength = 3 * time.Hour
	aDay       = int64(24 * time.Hour / slotLength)
	maxSlots   = 2 * int(aDay) // more than a day, because slots of a clock that is ahead need space, too
)

func slotOf(t time.Time) int64 { return t.Unix() / int64(slotLength/time.Second) }

// InLastDay returns how many bills were created in the day before a time, by backend. One slot more is accepted, as
// the clock of another replica may be ahead.
func (r Recent) InLastDay(now time.Time) (bills [2]int) {
	for slot, created := range r {
		if at := slotOf(now); slot > at-aDay && slot <= at+1 {
			bills[Old] += created[Old]
			bills[New] += created[New]
		}
	}
	return bills
}

// add counts bills of a slot, by backend. It removes all but the last slots.
func (r *Recent) add(slot int64, bills [2]int) {
	if *r == nil {
		*r = Recent{}
	}
	created := (*r)[slot]
	(*r)[slot] = [2]int{created[Old] + bills[Old], created[New] + bills[New]}
	if len(*r) > maxSlots {
		delete(*r, slices.Min(slices.Collect(maps.Keys(*r))))
	}
}

// merge adds other counts.
func (r *Recent) merge(more Recent) {
	for slot, created := range more {
		r.add(slot, created)
	}
}
