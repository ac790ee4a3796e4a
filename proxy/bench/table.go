package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A table is printed in Markdown. The first column is text, the others are figures.
type table struct {
	head []string
	rows [][]string
}

func (t table) write(out io.Writer) {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	line := func(row []string) {
		for i, cell := range row {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				cell += space
			} else {
				cell = space + cell
			}
			fmt.Fprintf(out, "| %s ", cell)
		}
		fmt.Fprintln(out, "|")
	}
	line(t.head)
	rule := make([]string, len(widths))
	for i, w := range widths {
		rule[i] = strings.Repeat("-", w-1) + ":"
	}
	rule[0] = strings.Repeat("-", widths[0])
	line(rule)
	for _, row := range t.rows {
		line(row)
	}
}

// compared returns the table of all subjects, and the ratio of their CPU time to that of each yardstick. A ratio is formed in each round.
func (m *measurements) compared(yardsticks ...string) table {
	t := table{head: []string{"process", "calls/s", "p99", "CPU µs/call"}}
	var bases [][]sample
	for _, name := range yardsticks {
		short, _, _ := strings.Cut(name, ":")
		t.head = append(t.head, "÷ "+short)
		var base []sample
		for i, s := range m.subjects {
			if s.name == name {
				base = m.samples[i]
			}
		}
		bases = append(bases, base)
	}
	for i, s := range m.subjects {
		samples := m.samples[i]
		if s.process == nil {
			t.rows = append(t.rows, s.missingRow(len(t.head)))
			continue
		}
		row := []string{s.name, rounded(rate(samples)), shortTime(p99(samples)), spread(samples, cost).text("%.0f")}
		for _, base := range bases {
			row = append(row, ratios(samples, base))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// write prints a table, and why subjects were not measured.
func (m *measurements) write(out io.Writer, t table) {
	t.write(out)
	for _, s := range m.subjects {
		if s.process == nil {
			fmt.Fprintf(out, "\nNot measured: %s. %s.\n", s.name, s.missing)
		}
	}
}

// missingRow is the row of a subject that was not measured.
func (s *subject) missingRow(columns int) []string {
	return append([]string{s.name}, slices.Repeat([]string{"–"}, columns-1)...)
}

// rate is the median of the calls per second.
func rate(samples []sample) float64 {
	return spread(samples, func(r sample) float64 { return r.perSecond }).median
}

// p99 is the median of the 99th percentiles of the latency.
func p99(samples []sample) time.Duration {
	return time.Duration(spread(samples, func(r sample) float64 { return float64(r.p99) }).median)
}

// cost is the CPU time of a call in µs.
func cost(r sample) float64 { return micros(r.cpu) }

// ratios shows the CPU time of a call, divided by that of the yardstick in the same round; "–" if the yardstick was not measured.
func ratios(samples, base []sample) string {
	if len(base) != len(samples) {
		return "–"
	}
	if &samples[0] == &base[0] {
		return "1"
	}
	var values []float64
	for i := range samples {
		values = append(values, cost(samples[i])/cost(base[i]))
	}
	return median(values).text("%.2f")
}

// A middle is the median of values, and their range.
type middle struct {
	median, lowest, highest float64
	several                 bool
}

func median(values []float64) middle {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return middle{(v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1], n > 1}
}

func spread(samples []sample, of func(sample) float64) middle {
	var values []float64
	for _, r := range samples {
		values = append(values, of(r))
	}
	return median(values)
}

// text shows the median and the range.
func (m middle) text(format string) string {
	text := fmt.Sprintf(format, m.median)
	if m.several {
		text += fmt.Sprintf(" ("+format+"–"+format+")", m.lowest, m.highest)
	}
	return text
}

// rounded shows a number with three significant digits, and with commas.
func rounded(n float64) string {
	step := 1.0
	for n/step >= 1000 {
		step *= 10
	}
	return grouped(math.Round(n/step) * step)
}

// grouped shows a number with commas.
func grouped(n float64) string {
	digits := fmt.Sprintf("%.0f", n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// shortTime shows a duration with two or three digits.
func shortTime(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.2f ms", d.Seconds()*1000)
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
}

// conditions prints under which conditions the figures below were measured.
func conditions(out io.Writer, o options) {
	fmt.Fprintf(out, "%s, %s. %d connections. Medians (and ranges) of %d rounds of %d s.\n\n",
		time.Now().UTC().Format(time.RFC3339), machine(), o.connections, o.rounds, o.seconds)
}

// machine names the processor, the kernel and the version of Go.
func machine() string {
	model := "unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`).FindSubmatch(info); m != nil {
			model = string(m[1])
		}
	}
	kernel := runtime.GOOS
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = "Linux " + strings.TrimSpace(string(release))
	}
	return fmt.Sprintf("%d cores of %s, %s, %s", runtime.NumCPU(), model, kernel, strings.Replace(runtime.Version(), "go", "Go ", 1))
}
