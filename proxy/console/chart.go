package console

import (
	"math"

	"billbridge/proxy/pages"
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

// bars are those of the two values: the second one is in front of the first, which it is a part of.
var bars = [2]bar{{Class: "bar", Width: 8}, {Class: "bar-bad", Width: 8}}

// draw completes a chart by its points.
func (c chart) draw(points []point) chart {
	highest := 0.0
	for _, p := range points {
		highest = max(highest, p.values[0], p.values[1])
	}
	top := scaleFor(int(math.Ceil(highest)))
	c.Top, c.Middle, c.Number = pages.Number(top), pages.Number(top/2), len(points)
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

// chartOf returns the chart of the calls per minute.
func chartOf(s *summary) chart {
	var points []point
	for i, n := range s.PerMinute {
		points = append(points, share(minutes-1-i, n, s.FailedPerMinute[i]))
	}
	c := chart{Label: "overview.chart", Title: "overview.minute", Ago: "overview.ago"}
	return c.draw(points)
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
