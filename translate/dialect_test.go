package translate_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/translate"

	"go.yaml.in/yaml/v4"
)

// A dialectFile has messages as the overlay of an upstream changes them.
type dialectFile struct {
	About    string
	Table    string         `yaml:",omitempty"` // if it is not the billing table
	Form     translate.Form // of the upstream
	Overlay  string
	Messages []dialectMessage
}

// A dialectMessage is a request that is sent, or a reply or callback that came.
type dialectMessage struct {
	Name, Operation string
	Request         bool `yaml:",omitempty"`
	In, Out         string
}

func TestDialect(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/dialect/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		f, d := readDialect(t, file)
		for i, m := range f.Messages {
			got := text(d.Received(m.Operation, []byte(m.In)))
			if m.Request {
				got = text(d.Request(m.Operation, []byte(m.In)))
			}
			if !*update {
				equal(t, canonical(got), canonical(m.Out), file, m.In)
			}
			f.Messages[i].Out = got
		}
		if *update {
			text, err := yaml.Dump(f, yaml.WithLineWidth(-1))
			must(t, err)
			must(t, os.WriteFile(file, text, 0o644))
		}
	}
}

func readDialect(t testing.TB, file string) (f dialectFile, d *translate.Dialect) {
	t.Helper()
	must(t, yaml.Load(proxytest.ReadFile(t, file), &f, yaml.WithKnownFields()))
	d, err := (&golden{Table: f.Table}).table(t, "").Dialect(f.Form, translate.File{Name: "odd.yaml", Data: []byte(f.Overlay)})
	must(t, err)
	return f, d
}

// An upstream has the paths and codes of its overlay. Messages with too many items are refused.
func TestDialectOfATable(t *testing.T) {
	t.Parallel()
	_, d := readDialect(t, "testdata/dialect/odd.yaml")
	var none *translate.Dialect
	got := fmt.Sprint(d.Path("bill.create"), " ", d.Path("bill.read"), none.Path("bill.create"), none.Version(), d.HasCode("17"), d.HasCode("BILL_009"))
	equal(t, got, "/invoices /bill/readtrue false")
	_, lists := readDialect(t, "testdata/dialect/lists.yaml")
	many := strings.Repeat(`{},`, 10_000) + `{}]}`
	has(t, text(lists.Request("order.add", []byte(`{"recipients":[`+many))), "more than 10000 items")
	has(t, text(lists.Received("order.add", []byte(`{"data":{"positions":[`+many+`}`))), "REFUSED")
}

// text returns a message or its refusal.
func text(m translate.Rewritten, refusal *translate.Refusal) string {
	if refusal != nil {
		return "REFUSED " + refusal.Error()
	}
	return string(m.Body)
}

func dialect(t testing.TB, form translate.Form, overlay string) *translate.Dialect {
	t.Helper()
	d, err := shipped().Dialect(form, translate.File{Name: "odd.yaml", Data: []byte(overlay)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func canonical(doc string) string { return string(translate.Canonical(nil, []byte(doc))) }

// The overlay in README.md does what its text says.
func TestReadmeShowsADialect(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("README.md")
	must(t, err)
	_, shown, _ := strings.Cut(string(data), "```yaml\n# overlay of an upstream")
	shown, _, _ = strings.Cut(shown, "```")
	d := dialect(t, "v2", "#"+shown)
	out := text(d.Received("bill.read", []byte(`{"code":"0000","data":{"status":"PAID","approvedAt":"2026-01-31T10:00:00+09:00"}}`)))
	if want := `{"code":"0000","data":{"apprDt":20260131100000,"apprState":"F"}}`; canonical(out) != want {
		t.Errorf("%s, want %s", out, want)
	}
	for _, doc := range []string{`{"code":"0000","data":{"status":"F"}}`, `{"code":"BILL_003"}`} {
		if out := text(d.Received("bill.read", []byte(doc))); !strings.HasPrefix(out, "REFUSED") {
			t.Errorf("%s became %s", doc, out)
		}
	}
}

// FuzzDialect checks that a request comes back from the form of an upstream as it was, or is refused.
func FuzzDialect(f *testing.F) {
	seeds(f, func(_, _ uint8, doc, _ []byte) { f.Add(doc) })
	f.Add([]byte(`{"order":{"no":"1","lines":[{"item":{"size":"S","name":"x"},"parts":[{"count":2}],"y":null}]},"recipients":[{}]}`))
	_, bills := readDialect(f, "testdata/dialect/odd.yaml")
	_, orders := readDialect(f, "testdata/dialect/lists.yaml")
	f.Fuzz(func(t *testing.T, doc []byte) {
		d, operation := bills, "bill.create"
		if bytes.Contains(doc, []byte("order")) {
			d, operation = orders, "order.add"
		}
		sent, refusal := d.Request(operation, doc)
		if refusal != nil {
			return
		}
		out := sent.Body
		back, err := d.Back(operation, out)
		if err != nil {
			t.Fatalf("%s became %s, which is refused: %v", doc, out, err)
		}
		if !bytes.Equal(translate.Canonical(nil, back), translate.Canonical(nil, doc)) {
			t.Fatalf("%s became %s, and that %s", doc, out, back)
		}
	})
}
