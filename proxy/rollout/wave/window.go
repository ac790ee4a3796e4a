package wave

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Window is when steps forward are made, written like Mon-Fri 09:00-17:00 Asia/Seoul. The days are those on which it
// opens; it may close on the day after. The zero value is always open.
type Window struct {
	text       string
	days       [7]bool // by time.Weekday
	opens, end time.Time
	zone       *time.Location
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// UnmarshalText reads a window.
func (w *Window) UnmarshalText(text []byte) error {
	if *w = (Window{}); len(text) == 0 {
		return nil
	}
	if err := w.parse(string(text)); err != nil {
		return mistake("must be a window such as Mon-Fri 09:00-17:00 Asia/Seoul or Mon,Wed 22:00-04:00 UTC: %s", err)
	}
	return nil
}

func (w *Window) parse(text string) (err error) {
	parts := strings.Fields(text)
	if len(parts) != 3 {
		return fmt.Errorf("%q does not have three parts", text)
	}
	for span := range strings.SplitSeq(strings.ToLower(parts[0]), ",") {
		first, last, isRange := strings.Cut(span, "-")
		if !isRange {
			last = first
		}
		from, to := slices.Index(weekdays, first), slices.Index(weekdays, last)
		if from < 0 || to < 0 {
			return fmt.Errorf("%q is not a day or a range of days", parts[0])
		}
		for day := from; ; day = (day + 1) % 7 {
			if w.days[day] = true; day == to {
				break
			}
		}
	}
	opens, end, _ := strings.Cut(parts[1], "-")
	if w.opens, err = time.Parse("15:04", opens); err != nil {
		return fmt.Errorf("%q is not a time", opens)
	}
	if w.end, err = time.Parse("15:04", strings.Replace(end, "24:00", "00:00", 1)); err != nil {
		return fmt.Errorf("%q is not a time", end)
	}
	if w.zone, err = time.LoadLocation(parts[2]); err != nil {
		return fmt.Errorf("%q is not a time zone", parts[2])
	}
	w.text = strings.Join(parts, " ")
	return nil
}

// MarshalText writes a window.
func (w Window) MarshalText() ([]byte, error) { return []byte(w.text), nil }

// String returns the window as it was written, "" if it is always open.
func (w Window) String() string { return w.text }

// Opens returns t if the window is open then, or else when it opens the next time.
func (w Window) Opens(t time.Time) time.Time {
	if w.text == "" {
		return t
	}
	on := t.In(w.zone).AddDate(0, 0, -1) // a window of yesterday may still be open
	for ; ; on = on.AddDate(0, 0, 1) {
		at := func(clock time.Time, day int) time.Time {
			return time.Date(on.Year(), on.Month(), on.Day()+day, clock.Hour(), clock.Minute(), 0, 0, w.zone)
		}
		opens, ends := at(w.opens, 0), at(w.end, 0)
		if !w.end.After(w.opens) {
			ends = at(w.end, 1)
		}
		if w.days[on.Weekday()] && t.Before(ends) {
			return later(t, opens)
		}
	}
}
