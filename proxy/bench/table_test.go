package main

import (
	"strings"
	"testing"
)

// of makes the samples of one subject, with the given CPU times in µs.
func of(perSecond, p99 float64, cpu ...float64) (samples []sample) {
	for _, c := range cpu {
		samples = append(samples, sample{calls: 1, perSecond: perSecond, p50: p99 / 2, p99: p99, cpu: c, backend: 20})
	}
	return samples
}

// A ratio is the median of the ratios of the rounds, not the ratio of the medians: 120/60, 90/60 and 100/100. It needs its yardstick.
func TestTableOfRatios(t *testing.T) {
	t.Parallel()
	running := &process{}
	m := &measurements{
		subjects: []*subject{
			{name: "billbridge: translated", process: running},
			{name: tunedProxy, process: running},
			{name: nginxLua, missing: "nginx is not installed"},
		},
		samples: [][]sample{of(12345, 9000, 120, 90, 100), of(999.6, 250, 60, 60, 100), nil},
	}
	const want = `| process | calls/s | p50 | p99 | backend CPU µs/call | CPU µs/call | ÷ nginx + Lua | ÷ ReverseProxy, tuned |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| billbridge: translated | 12345 | 4.50 ms | 9.00 ms | 20 | 100 (90–120) | – | 1.50 (1.00–2.00) |
| ReverseProxy, tuned: passed through | 1000 | 0.12 ms | 0.25 ms | 20 | 60 (60–100) | – | 1.00 |
| nginx + Lua: translated, logged, counted | – | – | – | – | – | – | – |

Not measured: nginx + Lua: translated, logged, counted. nginx is not installed.
`
	var text strings.Builder
	m.write(&text, []string{nginxLua, tunedProxy})
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}
