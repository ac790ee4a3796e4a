package translate_test

import (
	"fmt"
	"strings"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// entries returns an overlay that begins with head and has n lines, which begin with their number.
func entries(head string, n int, line string) string {
	var text strings.Builder
	text.WriteString(head)
	for i := range n {
		fmt.Fprintf(&text, line, i)
	}
	return text.String()
}

const newCodes, newPairs = "  - {code: NEW_%06d, means: exists}\n", "  - {v2: NEW_%06[1]d, legacy: \"8%06[1]d\"}\n"

// A suggestion compares a name with all known names, so only the first mistakes have one.
func TestManyMistakes(t *testing.T) {
	t.Parallel()
	const n = 1000
	wrong := strings.ReplaceAll(entries("codes:\n", n, newPairs), "NEW", "NOW")
	_, err := translate.Compile(32, billing.Table(), translate.File{Name: "many.yaml", Data: []byte(entries("catalogue:\n", n, newCodes) + wrong)})
	problems, ok := err.(translate.Problems)
	if !ok || len(problems) != n {
		t.Fatalf("%d problems, want %d", len(problems), n)
	}
	equal(t, problems[0].Text, `"NOW_000000" is not in the catalogue; did you mean NEW_000000?`)
	equal(t, problems[n-1].Text, `"NOW_000999" is not in the catalogue`)
}

// BenchmarkCompile compiles the billing table with overlays of two sizes. ns/entry shows whether the work is linear: it stays
// about the same for ten times as many entries.
func BenchmarkCompile(b *testing.B) {
	const read = "operations:\n  bill.read:\n    reply:\n"
	for _, n := range []int{1, 10_000, 100_000} {
		for name, overlay := range map[string]string{
			"codes":        entries("catalogue:\n", n, newCodes),
			"legacy codes": entries("catalogue:\n", n, "  - {code: \"9%06d\", form: legacy, means: exists}\n"),
			"pairs":        entries("catalogue:\n", n, newCodes) + entries("codes:\n", n, newPairs),
			"values":       entries(read+"      - v2: apprIssuer\n        values:\n", n, "          - {v2: V%06[1]d, legacy: L%06[1]d}\n"),
			"rows":         entries(read, n, "      - {v2: deep.field%[1]dx, legacy: field_%[1]d_x, new: true}\n"),
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					overlaid(b, overlay)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
			})
		}
	}
}
