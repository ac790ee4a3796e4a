package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares a text with a file in testdata.
func golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s has another text: update it with -update. Got:\n%s", file, got)
	}
}

// of makes the samples of one subject, with the given CPU times in µs.
func of(perSecond float64, p99 time.Duration, cpu ...float64) []sample {
	var samples []sample
	for _, c := range cpu {
		samples = append(samples, sample{load{1, perSecond, p99}, time.Duration(c * 1000)})
	}
	return samples
}

// A ratio is the median of the ratios of the rounds, not the ratio of the medians: 120/60, 90/60 and 100/100.
func TestTableOfRatios(t *testing.T) {
	t.Parallel()
	running := &process{}
	m := &measurements{
		subjects: []*subject{
			{name: "billbridge: translated", process: running},
			{name: nginxLua, process: running},
			{name: tunedProxy, process: running},
			{name: "nginx: passed through", missing: "nginx is not installed"},
		},
		samples: [][]sample{
			of(12345, 9*time.Millisecond, 120, 90, 100),
			of(999.6, 250*time.Microsecond, 60, 60, 100),
			of(56, 1234*time.Millisecond, 240, 180, 200),
			nil,
		},
	}
	var text strings.Builder
	m.write(&text, m.compared(nginxLua, tunedProxy))
	golden(t, "ratios.md", text.String())
}

func TestRatiosNeedTheirYardstick(t *testing.T) {
	t.Parallel()
	m := &measurements{
		subjects: []*subject{{name: "billbridge", process: &process{}}, {name: nginxLua, missing: errNoNginx.Error()}},
		samples:  [][]sample{of(1000, time.Millisecond, 100), nil},
	}
	if got := m.compared(nginxLua).rows[0]; got[len(got)-1] != "–" {
		t.Errorf("the ratio to a process that was not measured is %q, want –", got[len(got)-1])
	}
}

func TestNumbersInTables(t *testing.T) {
	t.Parallel()
	for n, want := range map[float64]string{0: "0", 7: "7", 999.4: "999", 999.6: "1,000", 12345: "12,300", 1234567: "1,230,000"} {
		if got := rounded(n); got != want {
			t.Errorf("rounded(%v) is %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{236 * time.Microsecond: "0.24 ms", 7410 * time.Microsecond: "7.4 ms", 1090 * time.Millisecond: "1090 ms"} {
		if got := shortTime(d); got != want {
			t.Errorf("shortTime(%s) is %q, want %q", d, got, want)
		}
	}
}
