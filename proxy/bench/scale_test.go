package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

// scaled has two processes that were measured with three numbers of connections, and one that was not measured.
func scaled() *measurements {
	running := &process{}
	return &measurements{
		subjects: []*subject{
			{name: "billbridge: translated", process: running}, {name: nginxLua, missing: errNoLua.Error()}, {name: "a <b> & \"c\"", process: running},
		},
		connections: []int{1, 16, 1024},
		samples: [][][]sample{
			{of(4000, 300*time.Microsecond, 100, 120, 110), of(9000, 4*time.Millisecond, 80, 90, 85), of(8000, 150*time.Millisecond, 95, 99, 93)},
			{nil, nil, nil},
			{of(3000, 900*time.Microsecond, 200), of(7000, 2*time.Millisecond, 150), of(6000, 1200*time.Millisecond, 140)},
		},
	}
}

func TestTableByConnections(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	m := scaled()
	m.write(&text, m.byConnections())
	golden(t, "scale.md", text.String())
}

// The growth is that over the lowest cost with fewer connections, not over the first cost.
func TestGrowth(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		costs []float64
		want  float64
	}{{[]float64{100}, 0}, {[]float64{100, 50, 60}, 0.2}, {[]float64{100, 130, 90}, 0.3}, {[]float64{100, 90, 81}, -0.1}} {
		if got := growth(test.costs); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("growth of %v is %v, want %v", test.costs, got, test.want)
		}
	}
}

func TestPlot(t *testing.T) {
	t.Parallel()
	svg := scaled().plot("Reads & <more>")
	wellFormed(t, svg)
	golden(t, "scale.svg", svg)
	for _, want := range []string{"billbridge: translated", "a &lt;b&gt; &amp; &#34;c&#34;", ">connections<", ">1,024<", ">0.1 ms<", ">10 s<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the plot lacks %s", want)
		}
	}
	if strings.Contains(svg, "nginx") {
		t.Error("the plot has a process that was not measured")
	}
}

// One number of connections has no range on the x axis.
func TestPlotOfOneNumberOfConnections(t *testing.T) {
	t.Parallel()
	m := scaled()
	m.connections = m.connections[:1]
	svg := m.plot("one")
	wellFormed(t, svg)
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("a place in the plot is not a number:\n%s", svg)
	}
}

// The plot in README.md is a picture alone.
func TestPlotOfReadme(t *testing.T) {
	t.Parallel()
	svg, err := os.ReadFile("scale.svg")
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, string(svg))
	if len(svg) > 30_000 || strings.Contains(string(svg), "<script") {
		t.Errorf("the plot has %d bytes, or a script", len(svg))
	}
}

func wellFormed(t *testing.T, svg string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v\n%s", err, svg)
		}
	}
}
