package evidence

import (
	"context"
	"time"

	"billbridge/proxy/store"
)

// HoursKept is how long the store keeps the calls of an hour.
const HoursKept = 7 * 24 * time.Hour

// hour returns the sums of an hour, to be added to. The caller holds mu.
func (t *Counts) hour(at store.Hour) *store.Sums {
	at.Sums = store.Sums{}
	if sums := t.hours[at]; sums != nil {
		return sums
	}
	sums := &store.Sums{}
	if len(t.hours) < maxHours { // else the store has been unreachable for long
		t.hours[at] = sums
	} else {
		t.lost++
	}
	return sums
}

// flushHours adds the hours of this replica to the store. What could not be added is kept for the next flush.
func (t *Stored) flushHours(ctx context.Context) error {
	t.mu.Lock()
	hours := make([]store.Hour, 0, len(t.hours))
	for at, sums := range t.hours {
		at.Sums = *sums
		hours = append(hours, at)
	}
	clear(t.hours)
	t.mu.Unlock()
	added, err := t.store.AddHours(ctx, hours)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, left := range hours[added:] {
		t.hour(left).Add(left.Sums)
	}
	return err
}
