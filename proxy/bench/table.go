package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// write prints the table of all subjects in Markdown, with the ratio of their CPU time to that of each yardstick, and
// why subjects were not measured. A ratio is formed in each round.
func (m *measurements) write(out io.Writer, yardsticks []string) {
	head := []string{"process", "calls/s", "p50", "p99", "backend CPU µs/call", "CPU µs/call"}
	for _, name := range yardsticks {
		short, _, _ := strings.Cut(name, ":")
		head = append(head, "÷ "+short)
	}
	line := func(cells []string) { fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | ")) }
	line(head)
	line(append([]string{"---"}, slices.Repeat([]string{"---:"}, len(head)-1)...))
	missing := ""
	for i, s := range m.subjects {
		row := append([]string{s.name}, slices.Repeat([]string{"–"}, len(head)-1)...)
		if samples := m.samples[i]; s.process == nil {
			missing += fmt.Sprintf("\nNot measured: %s. %s.\n", s.name, s.missing)
		} else {
			row[1] = fmt.Sprintf("%.0f", median(samples, func(i int) float64 { return samples[i].perSecond }).median)
			row[2] = fmt.Sprintf("%.2f ms", median(samples, func(i int) float64 { return samples[i].p50 }).median/1000)
			row[3] = fmt.Sprintf("%.2f ms", median(samples, func(i int) float64 { return samples[i].p99 }).median/1000)
			row[4] = fmt.Sprintf("%.0f", median(samples, func(i int) float64 { return samples[i].backend }).median)
			row[5] = median(samples, func(i int) float64 { return samples[i].cpu }).text("%.0f")
			for column, name := range yardsticks {
				at := slices.IndexFunc(m.subjects, func(s *subject) bool { return s.name == name })
				if base := m.samples[at]; len(base) > 0 { // else the yardstick was not measured
					ratio := func(i int) float64 { return samples[i].cpu / base[i].cpu }
					row[6+column] = median(samples, ratio).text("%.2f")
				}
			}
		}
		line(row)
	}
	fmt.Fprint(out, missing)
}

// A middle is the median of values, and their range.
type middle struct{ median, lowest, highest float64 }

// median returns that of a value of each round.
func median(samples []sample, of func(round int) float64) middle {
	var v []float64
	for i := range samples {
		v = append(v, of(i))
	}
	slices.Sort(v)
	n := len(v)
	return middle{(v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1]}
}

// text shows the median and the range.
func (m middle) text(format string) string {
	text := fmt.Sprintf(format, m.median)
	if m.lowest < m.highest {
		text += fmt.Sprintf(" ("+format+"–"+format+")", m.lowest, m.highest)
	}
	return text
}

// machine names the time, the processor and the version of Go.
func machine() string {
	model := "unknown processor"
	info, _ := os.ReadFile("/proc/cpuinfo")
	if m := regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`).FindSubmatch(info); m != nil {
		model = string(m[1])
	}
	return fmt.Sprintf("%s, %d cores of %s, %s",
		time.Now().UTC().Format(time.RFC3339), runtime.NumCPU(), model, runtime.Version())
}
