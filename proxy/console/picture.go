package console

import (
	"fmt"
	"strings"
	"time"
)

// A picture shows two values over time, one for the old backend and one for the new: as bars that stand on each other,
// or as lines.
type picture struct {
	Name   string // of its texts
	Lines  bool
	Values [][2]float64 // by slot, the oldest first
	Sum    [2]int       // for its text
	From   time.Time    // when the first slot begins
}

// A mark is a bar or a point of a picture that is 100 wide and 30 high.
type mark struct {
	X, Y, W, H float64
	Class      string
}

const pictureHeight = 30

// fewestSlots are those of a picture of a gateway that has just started: it leaves out the slots before its start.
const fewestSlots = 10

// Top is the largest value.
func (p picture) Top() (top float64) {
	for _, v := range p.Values {
		if p.Lines {
			top = max(top, v[0], v[1])
		} else {
			top = max(top, v[0]+v[1])
		}
	}
	return top
}

// TopTook is the largest value of durations in milliseconds.
func (p picture) TopTook() string { return rounded(time.Duration(p.Top() * float64(time.Millisecond))) }

// Bars returns the bars of the slots that have some.
func (p picture) Bars() (all []mark) {
	wide, scale := 100/float64(len(p.Values)), pictureHeight/max(p.Top(), 1)
	for i, v := range p.Values {
		y := float64(pictureHeight)
		for of, class := range []string{"old", "new"} {
			if h := v[of] * scale; h > 0 {
				y -= h
				all = append(all, mark{wide * (float64(i) + .1), y, wide * .8, h, class})
			}
		}
	}
	return all
}

// Path returns the line of a backend as the path of an SVG picture. It has a gap where there is no value.
func (p picture) Path(of int) string {
	var path strings.Builder
	wide, scale, gap := 100/float64(len(p.Values)), pictureHeight/max(p.Top(), .001), true
	for i, v := range p.Values {
		if v[of] == 0 {
			gap = true
			continue
		}
		x, y := wide*(float64(i)+.5), pictureHeight-v[of]*scale
		if gap { // a point without a neighbour is a short line
			fmt.Fprintf(&path, "M%.2f %.2fh.5", x-.25, y)
		} else {
			fmt.Fprintf(&path, "L%.2f %.2f", x, y)
		}
		gap = false
	}
	return path.String()
}

// pictures returns those of a migration: its new bills, the time of its calls, and the differences of its comparisons.
func (w *window) pictures(now time.Time, backends [2]string, create string) []picture {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.slotOf(now)
	shown := min(max(last-w.slotOf(w.since)+1, fewestSlots), int64(w.slots))
	first := last - shown + 1
	var all [3]picture
	for i, name := range []string{"bills", "p99", "differences"} {
		all[i] = picture{Name: name, Lines: name == "p99", Values: make([][2]float64, shown), From: w.start(first)}
	}
	bills, times, differences := &all[0], &all[1], &all[2]
	for i := range shown {
		number := first + i
		at := number % int64(w.slots)
		for of, name := range backends {
			var durations histogram
			for key, s := range w.series {
				if key.upstream != name || s[at].number != number {
					continue
				}
				durations.merge(&s[at].durations)
				if key.operation == create {
					n := int(s[at].outcomes[0]) // that succeeded
					bills.Values[i][of] += float64(n)
					bills.Sum[of] += n
				}
			}
			times.Values[i][of] = float64(durations.quantile(.99)) / float64(time.Millisecond)
		}
		if c := w.checks[at]; c.number == number {
			differences.Values[i][1] = float64(c.differed)
			differences.Sum[0] += c.all
			differences.Sum[1] += c.differed
		}
	}
	return all[:]
}
