package console

import (
	"fmt"
	"math"
	"slices"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/pages"
	"billbridge/proxy/store"
)

// A chart shows numbers over time as bars: templates/parts/chart.html. Its texts are keys.
type chart struct {
	// of the chart; of a column, with the values of its Title; of a number of columns before now
	Label, Title, Ago string
	Top, Middle       string // of the scale
	Number            int    // of columns, also of those without a bar
	Columns           []column
}

// Width is the width of the view box.
func (c chart) Width() int { return c.Number * columnWidth }

// Half is the number of columns from the middle on.
func (c chart) Half() int { return c.Number / 2 }

// A column is one point of time, in units of the view box.
type column struct {
	X     int
	Title []any
	Bars  []bar
}

// A bar is a number.
type bar struct {
	Class               string
	X, Y, Width, Height int
}

// The size of the chart.
const (
	columnWidth = 10
	chartHeight = 60
)

// bar adds a bar for a number above 0.
func (c *column) bar(class string, x, width int, n, top float64) {
	if n > 0 {
		height := max(int(n*chartHeight/top), 2)
		c.Bars = append(c.Bars, bar{class, c.X + x, chartHeight - height, width, height})
	}
}

// chartOf returns the chart of the calls per minute.
func chartOf(s *summary) chart {
	top := scaleFor(slices.Max(s.PerMinute[:]))
	c := chart{
		Label: "overview.chart", Title: "overview.minute", Ago: "overview.ago",
		Top: pages.Number(top), Middle: pages.Number(top / 2), Number: minutes,
	}
	for i, n := range s.PerMinute {
		if n > 0 {
			bad := s.FailedPerMinute[i]
			one := column{X: i * columnWidth, Title: []any{minutes - 1 - i, pages.Number(n), pages.Number(bad)}}
			one.bar("bar", 0, 8, float64(n), float64(top))
			one.bar("bar-bad", 0, 8, float64(bad), float64(top))
			c.Columns = append(c.Columns, one)
		}
	}
	return c
}

// historyOf returns the chart of the steps of a wave.
func historyOf(steps []operate.StepsAt, zone *time.Location) chart {
	most := 0
	for _, one := range steps {
		most = max(most, one.Forward+one.Back)
	}
	unit := map[time.Duration]string{
		time.Minute: "overview.ago", time.Hour: "partner.hours.ago", 24 * time.Hour: "waves.days.ago",
	}[steps[1].At.Sub(steps[0].At)]
	top := scaleFor(most)
	c := chart{
		Label: "waves.history", Title: "waves.history.column", Ago: unit,
		Top: pages.Number(top), Middle: pages.Number(top / 2), Number: len(steps),
	}
	for i, one := range steps {
		if all := one.Forward + one.Back; all > 0 {
			at := one.At.In(zone).Format(time.RFC3339)
			shown := column{X: i * columnWidth, Title: []any{at, pages.Number(one.Forward), pages.Number(one.Back)}}
			shown.bar("bar", 0, 8, float64(all), float64(top))
			shown.bar("bar-bad", 0, 8, float64(one.Back), float64(top))
			c.Columns = append(c.Columns, shown)
		}
	}
	return c
}

// partnerHours are the calls of a partner in the last hours.
type partnerHours struct {
	Sums   [2]store.Sums // by backend
	Charts []chart
}

// Failed returns how many of the calls failed, as a text.
func (partnerHours) Failed(s store.Sums) string {
	if s.Calls == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %% (%s / %s)", percentFailed(s), pages.Number(s.Failed), pages.Number(s.Calls))
}

// P99 returns the p99 as a text.
func (partnerHours) P99(s store.Sums) string {
	if s.P99() == 0 {
		return "–"
	}
	return "≤ " + rounded(s.P99())
}

func percentFailed(s store.Sums) float64 { return 100 * float64(s.Failed) / float64(max(s.Calls, 1)) }

// hoursOf returns the charts of failures and of the p99.
func hoursOf(h operate.Hours, zone *time.Location) (page partnerHours) {
	hours := make([][2]store.Sums, operate.HoursShown)
	for _, one := range h.Hours {
		if at := int(one.At.Sub(h.Since) / time.Hour); at < len(hours) { // else the clock of a replica is ahead
			hours[at][one.Backend] = one.Sums
			page.Sums[one.Backend].Add(one.Sums)
		}
	}
	for _, of := range []struct {
		label, title string
		value        func(store.Sums) float64
		text         func(store.Sums) string
		scale        func(top int) string
	}{
		{
			"partner.hours.failed", "partner.hour.failed", percentFailed, page.Failed,
			func(top int) string { return fmt.Sprint(top, " %") },
		},
		{
			"partner.hours.p99", "partner.hour.p99", func(s store.Sums) float64 { return s.P99().Seconds() * 1000 },
			page.P99, func(top int) string { return rounded(time.Duration(top) * time.Millisecond) },
		},
	} {
		highest := 0.0
		for _, one := range hours {
			highest = max(highest, of.value(one[0]), of.value(one[1]))
		}
		top := scaleFor(int(math.Ceil(highest)))
		c := chart{
			Label: of.label, Title: of.title, Ago: "partner.hours.ago",
			Top: of.scale(top), Middle: of.scale(top / 2), Number: len(hours),
		}
		for i, one := range hours {
			if one[0].Calls+one[1].Calls > 0 {
				at := h.Since.Add(time.Duration(i) * time.Hour).In(zone).Format(time.RFC3339)
				shown := column{X: i * columnWidth, Title: []any{at, of.text(one[0]), of.text(one[1])}}
				shown.bar("bar-old", 0, 4, of.value(one[0]), float64(top))
				shown.bar("bar", 4, 4, of.value(one[1]), float64(top))
				c.Columns = append(c.Columns, shown)
			}
		}
		page.Charts = append(page.Charts, c)
	}
	return page
}

// scaleFor returns the least of 2, 4, 10, 20, 40, 100, … that is not below n: also its half is a whole number.
func scaleFor(n int) int {
	for unit := 1; ; unit *= 10 {
		for _, top := range []int{2 * unit, 4 * unit, 10 * unit} {
			if top >= n {
				return top
			}
		}
	}
}
