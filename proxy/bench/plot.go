package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// A panel is a part of the plot, with axes of its own. Its x axis is the number of connections, logarithmic.
type panel struct {
	left     float64 // of its area
	title    string
	ticks    []float64
	label    func(float64) string
	position func(float64) float64 // of a value on the y axis, from 0 to 1
	value    func(samples []sample) float64
}

// The area of a panel, and where it is in the plot.
const (
	plotWidth, plotHeight   = 900, 470
	panelTop, panelHeight   = 70.0, 280.0
	panelWidth, firstPanel  = 350.0, 75.0
	secondPanel, legendLine = 525.0, 22.0
)

// A pen is how the line of a process looks. Lines differ in more than their colour.
type pen struct{ colour, dashes string }

var pens = []pen{
	{"#0072b2", ""}, {"#009e73", "7 3"}, {"#d55e00", "2 3"}, {"#56b4e9", ""}, {"#6b6b6b", "9 3 2 3"}, {"#cc79a7", "4 2"}, {"#8c6d00", "1 2"}, {"#000000", "6 6"},
}

// plot returns an SVG picture of throughput and p99 over the number of connections, with one line per process. It has its own
// white background, so that it is readable on pages of any colour.
func (m *measurements) plot(title string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="13" fill="#222" role="img">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(title))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#fff"/>`+"\n", plotWidth, plotHeight)
	text(&b, plotWidth/2, 28, "middle", `font-size="16" font-weight="bold"`, title)
	for _, p := range []panel{m.throughput(), m.latency()} {
		m.axes(&b, p)
		line := 0
		for i, s := range m.subjects {
			if s.process != nil {
				m.line(&b, p, i, pens[line%len(pens)])
				line++
			}
		}
	}
	line := 0
	for _, s := range m.subjects {
		if s.process == nil {
			continue
		}
		x, y := firstPanel+float64(line%2)*(secondPanel-firstPanel), panelTop+panelHeight+62+float64(line/2)*legendLine
		stroke(&b, pens[line%len(pens)], []float64{x, x + 34}, []float64{y - 4, y - 4})
		text(&b, x+42, y, "start", "", s.name)
		line++
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// throughput has a linear axis from 0 to a round number.
func (m *measurements) throughput() panel {
	p := panel{left: firstPanel, title: "calls per second", label: grouped, value: rate}
	_, highest := m.bounds(p)
	step := math.Pow(10, math.Floor(math.Log10(highest)))
	for _, part := range []float64{0.2, 0.5, 1} {
		if highest/(step*part) <= 6 {
			step *= part
			break
		}
	}
	top := math.Ceil(highest/step) * step
	for tick := 0.0; tick <= top; tick += step {
		p.ticks = append(p.ticks, tick)
	}
	p.position = func(v float64) float64 { return v / top }
	return p
}

// latency has a logarithmic axis of whole powers of ten.
func (m *measurements) latency() panel {
	p := panel{left: secondPanel, title: "latency, 99th percentile", value: func(samples []sample) float64 { return p99(samples).Seconds() }}
	p.label = func(seconds float64) string {
		if seconds >= 0.9 {
			return fmt.Sprintf("%.0f s", seconds)
		}
		return fmt.Sprintf("%g ms", math.Round(seconds*1e6)/1e3)
	}
	lowest, highest := m.bounds(p)
	from, to := math.Floor(math.Log10(lowest)), math.Ceil(math.Log10(highest))
	to = max(to, from+1)
	for power := from; power <= to; power++ {
		p.ticks = append(p.ticks, math.Pow(10, power))
	}
	p.position = func(v float64) float64 { return (math.Log10(v) - from) / (to - from) }
	return p
}

// bounds are the lowest and the highest value in a panel.
func (m *measurements) bounds(p panel) (lowest, highest float64) {
	lowest = math.Inf(1)
	for i, s := range m.subjects {
		for c := range m.connections {
			if s.process != nil {
				v := p.value(m.samples[i][c])
				lowest, highest = min(lowest, v), max(highest, v)
			}
		}
	}
	return lowest, highest
}

// x is the place of a number of connections in a panel.
func (m *measurements) x(p panel, connections int) float64 {
	first, last := math.Log2(float64(m.connections[0])), math.Log2(float64(m.connections[len(m.connections)-1]))
	if first == last {
		return p.left + panelWidth/2
	}
	return p.left + panelWidth*(math.Log2(float64(connections))-first)/(last-first)
}

func (p panel) y(v float64) float64 { return panelTop + panelHeight*(1-p.position(v)) }

// axes draws the grid, the labels and the titles of a panel.
func (m *measurements) axes(b *strings.Builder, p panel) {
	text(b, p.left+panelWidth/2, panelTop-14, "middle", "", p.title)
	for _, tick := range p.ticks {
		rule(b, p.left, p.y(tick), p.left+panelWidth, p.y(tick))
		text(b, p.left-8, p.y(tick)+4, "end", "", p.label(tick))
	}
	for _, c := range m.connections {
		rule(b, m.x(p, c), panelTop, m.x(p, c), panelTop+panelHeight)
		text(b, m.x(p, c), panelTop+panelHeight+18, "middle", "", grouped(float64(c)))
	}
	text(b, p.left+panelWidth/2, panelTop+panelHeight+38, "middle", "", "connections")
}

// line draws the line of a subject in a panel.
func (m *measurements) line(b *strings.Builder, p panel, subject int, with pen) {
	var xs, ys []float64
	for c, n := range m.connections {
		xs, ys = append(xs, m.x(p, n)), append(ys, p.y(p.value(m.samples[subject][c])))
	}
	stroke(b, with, xs, ys)
	for i := range xs {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", xs[i], ys[i], with.colour)
	}
}

func stroke(b *strings.Builder, with pen, xs, ys []float64) {
	var points []string
	for i := range xs {
		points = append(points, fmt.Sprintf("%.1f,%.1f", xs[i], ys[i]))
	}
	dashes := ""
	if with.dashes != "" {
		dashes = fmt.Sprintf(` stroke-dasharray="%s"`, with.dashes)
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>`+"\n", strings.Join(points, " "), with.colour, dashes)
}

func rule(b *strings.Builder, x1, y1, x2, y2 float64) {
	fmt.Fprintf(b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="#ddd"/>`+"\n", x1, y1, x2, y2)
}

func text(b *strings.Builder, x, y float64, anchor, attributes, words string) {
	if attributes != "" {
		attributes = " " + attributes
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`+"\n", x, y, anchor, attributes, html.EscapeString(words))
}
