package translate_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// manyEntries is how many codes, pairs, values or rows an overlay has. That the work is linear is shown by BenchmarkCompile.
const manyEntries = 10_000

// overlayOf returns an overlay that begins with head and has one line for each number.
func overlayOf(head string, n int, line string) translate.File {
	var text bytes.Buffer
	text.WriteString(head)
	for i := range n {
		fmt.Fprintf(&text, line, i)
	}
	return translate.File{Name: "many.yaml", Data: text.Bytes()}
}

func codesOverlay(n int) translate.File {
	return overlayOf("catalogue:\n", n, "  - {code: NEW_%06d, means: exists}\n")
}

func formCodesOverlay(n int) translate.File {
	return overlayOf("catalogue:\n", n, "  - {code: \"9%06d\", form: legacy, means: exists}\n")
}

func codePairsOverlay(n int) translate.File {
	return overlayOf("codes:\n", n, "  - {v2: NEW_%06[1]d, legacy: \"8%06[1]d\"}\n")
}

func valuesOverlay(n int) translate.File {
	return overlayOf("operations:\n  bill.read:\n    reply:\n      - v2: apprAcquirerNm\n        legacy: appr_acquirer_nm\n        values:\n",
		n, "          - {v2: V%06[1]d, legacy: L%06[1]d}\n")
}

func rowsOverlay(n int) translate.File {
	return overlayOf("operations:\n  bill.read:\n    reply:\n", n, "      - {v2: deep.field%[1]dx, legacy: field_%[1]d_x, new: true}\n")
}

func compileMany(tb testing.TB, overlays ...translate.File) *translate.Table {
	tb.Helper()
	table, err := translate.Compile(32, billing.Table(), overlays...)
	if err != nil {
		tb.Fatal(strings.SplitN(err.Error(), "\n", 2)[0])
	}
	return table
}

func TestManyCodes(t *testing.T) {
	t.Parallel()
	// The second time, each code replaces itself.
	table := compileMany(t, codesOverlay(manyEntries), formCodesOverlay(manyEntries), formCodesOverlay(manyEntries))
	known := len(compileMany(t).Catalogue())
	if got := len(table.Catalogue()); got != known+manyEntries {
		t.Errorf("%d codes in the catalogue, want %d", got, known+manyEntries)
	}
	for _, code := range []string{"NEW_000000", "NEW_009999"} {
		if !table.InCatalogue(code) || !table.Means("v2", code, translate.Exists) {
			t.Errorf("%s is not in the catalogue, or has no meaning", code)
		}
	}
	if table.InCatalogue("9009999") || !table.Means("legacy", "9009999", translate.Exists) || table.Means("v2", "9009999", translate.Exists) {
		t.Error("a code of legacy has no meaning in legacy, or is one of the catalogue")
	}
}

func TestManyPairsOfCodes(t *testing.T) {
	t.Parallel()
	table := compileMany(t, codesOverlay(manyEntries), codePairsOverlay(manyEntries), codePairsOverlay(manyEntries))
	for i := range manyEntries {
		first, second := fmt.Sprintf("NEW_%06d", i), fmt.Sprintf("8%06d", i)
		if table.Code(first, "v2", "legacy") != second || table.Code(second, "legacy", "v2") != first {
			t.Fatalf("%s and %s are no pair", first, second)
		}
	}
}

func TestManyValues(t *testing.T) {
	t.Parallel()
	table := compileMany(t, valuesOverlay(manyEntries))
	call := table.Operation("bill.read").Translation("legacy", "v2").Start()
	out, err := call.Reply(nil, 200, []byte(`{"code":"0000","message":"m","data":{"billId":"1","apprState":"F","apprAcquirerNm":"V009999"}}`))
	if err != nil || !bytes.Contains(out, []byte(`"appr_acquirer_nm":"L009999"`)) {
		t.Errorf("%s, %v", out, err)
	}
}

func TestManyRows(t *testing.T) {
	t.Parallel()
	table := compileMany(t, rowsOverlay(manyEntries))
	call := table.Operation("bill.read").Translation("legacy", "v2").Start()
	out, err := call.Reply(nil, 200, []byte(`{"code":"0000","message":"m","data":{"billId":"1","apprState":"F","deep":{"field9999x":"last"}}}`))
	if err != nil || !bytes.Contains(out, []byte(`"field_9999_x":"last"`)) {
		t.Errorf("%s, %v", out, err)
	}
}

// A suggestion compares a name with all known names, so only the first mistakes have one.
func TestManyMistakes(t *testing.T) {
	t.Parallel()
	_, err := translate.Compile(32, billing.Table(), codesOverlay(manyEntries), overlayOf("codes:\n", manyEntries, "  - {v2: NOW_%06[1]d, legacy: \"8%06[1]d\"}\n"))
	problems, ok := err.(translate.Problems)
	if !ok || len(problems) != manyEntries {
		t.Fatalf("%d problems, want %d", len(problems), manyEntries)
	}
	if want := `"NOW_000000" is not in the catalogue; did you mean NEW_000000?`; problems[0].Text != want {
		t.Errorf("got %s, want %s", problems[0].Text, want)
	}
	if want := `"NOW_009999" is not in the catalogue`; problems[manyEntries-1].Text != want {
		t.Errorf("got %s, want %s", problems[manyEntries-1].Text, want)
	}
}

// A row of an overlay stands in the place of the row that it changes, and at the end if it is new.
func TestPlaceOfAReplacedRow(t *testing.T) {
	t.Parallel()
	table := compileMany(t, translate.File{Name: "o.yaml", Data: []byte(`
operations:
  bill.destroy:
    request:
      - {v2: apiKey, legacy: merchant, replaces: v2}
      - {v2: merchant, legacy: apikey, replaces: v2}
      - {v2: bill.memo, legacy: memo, new: true}
`)})
	var got []string
	for _, f := range table.Operation("bill.destroy").Fields() {
		if f.Message == "request" && f.From == "v2" {
			got = append(got, f.Source+"="+f.Target)
		}
	}
	if joined := strings.Join(got, " "); !strings.HasPrefix(joined, "apiKey=merchant member=member merchant=apikey bill.billId=") || !strings.HasSuffix(joined, " bill.memo=memo") {
		t.Errorf("got %s", joined)
	}
}

// BenchmarkCompile compiles the billing table with overlays of two sizes. ns/entry shows whether the work is linear: it stays
// about the same for ten times as many entries.
func BenchmarkCompile(b *testing.B) {
	compile := func(b *testing.B, n int, overlays ...translate.File) {
		b.ReportAllocs()
		for b.Loop() {
			compileMany(b, overlays...)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
	}
	b.Run("no overlay", func(b *testing.B) { compile(b, 1) })
	for _, n := range []int{manyEntries, 10 * manyEntries} {
		for name, overlays := range map[string][]translate.File{
			"codes":        {codesOverlay(n)},
			"legacy codes": {formCodesOverlay(n)},
			"pairs":        {codesOverlay(n), codePairsOverlay(n)},
			"values":       {valuesOverlay(n)},
			"rows":         {rowsOverlay(n)},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) { compile(b, n, overlays...) })
		}
	}
}
