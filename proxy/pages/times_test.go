package pages

import (
	"testing"
	"time"
)

// A time is shown without what it has in common with now: a time of today has no date.
func TestTimesAreShort(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 0, 10, 0, 0, time.UTC)
	for ago, want := range map[time.Duration]string{
		time.Second: "00:09:59", time.Hour: "11-29 23:10", 24 * time.Hour: "11-29 00:10", 365 * 24 * time.Hour: "2025-11-30",
	} {
		at := now.Add(-ago)
		if got := at.Format(shortLayout(at, now)); got != want {
			t.Errorf("%s ago: %s, want %s", ago, got, want)
		}
	}
}
