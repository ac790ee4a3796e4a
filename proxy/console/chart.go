package console

import (
	"fmt"
	"math"
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

// A point is what a chart shows of one time. Without a title it has no column.
type point struct {
	title  []any
	values [2]float64
}

// The bars of the two values: one in front of the other, which it is a part of, or one beside the other.
var (
	partOfAll = [2]bar{{Class: "bar", Width: 8}, {Class: "bar-bad", Width: 8}}
	oldAndNew = [2]bar{{Class: "bar-old", Width: 4}, {Class: "bar", X: 4, Width: 4}}
)

// draw completes a chart by its points, with a scale in words.
func (c chart) draw(bars [2]bar, points []point, scale func(int) string) chart {
	highest := 0.0
	for _, p := range points {
		highest = max(highest, p.values[0], p.values[1])
	}
	top := scaleFor(int(math.Ceil(highest)))
	c.Top, c.Middle, c.Number = scale(top), scale(top/2), len(points)
	for i, p := range points {
		if p.title == nil {
			continue
		}
		one := column{X: i * columnWidth, Title: p.title}
		for n, b := range bars {
			if p.values[n] > 0 {
				b.Height = max(int(p.values[n]*chartHeight/float64(top)), 2)
				b.X, b.Y = one.X+b.X, chartHeight-b.Height
				one.Bars = append(one.Bars, b)
			}
		}
		c.Columns = append(c.Columns, one)
	}
	return c
}

// share returns the point of a number and the part of it that is bad, after the words for its time.
func share(at any, all, bad int) point {
	if all == 0 {
		return point{}
	}
	return point{[]any{at, pages.Number(all), pages.Number(bad)}, [2]float64{float64(all), float64(bad)}}
}

func numbers(n int) string { return pages.Number(n) }

// chartOf returns the chart of the calls per minute.
func chartOf(s *summary) chart {
	var points []point
	for i, n := range s.PerMinute {
		points = append(points, share(minutes-1-i, n, s.FailedPerMinute[i]))
	}
	c := chart{Label: "overview.chart", Title: "overview.minute", Ago: "overview.ago"}
	return c.draw(partOfAll, points, numbers)
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
	draw := func(
		label, title string, value func(store.Sums) float64, text func(store.Sums) string, scale func(int) string,
	) {
		points := make([]point, len(hours))
		for i, one := range hours {
			if one[0].Calls+one[1].Calls > 0 {
				at := h.Since.Add(time.Duration(i) * time.Hour).In(zone).Format(time.RFC3339)
				points[i] = point{[]any{at, text(one[0]), text(one[1])}, [2]float64{value(one[0]), value(one[1])}}
			}
		}
		c := chart{Label: label, Title: title, Ago: "partner.hours.ago"}
		page.Charts = append(page.Charts, c.draw(oldAndNew, points, scale))
	}
	draw("partner.hours.failed", "partner.hour.failed", percentFailed, page.Failed, func(top int) string {
		return fmt.Sprint(top, " %")
	})
	milliseconds := func(s store.Sums) float64 { return s.P99().Seconds() * 1000 }
	draw("partner.hours.p99", "partner.hour.p99", milliseconds, page.P99, func(top int) string {
		return rounded(time.Duration(top) * time.Millisecond)
	})
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
