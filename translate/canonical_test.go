package translate_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"billbridge/translate"
)

// The examples of RFC 8785. Canonical keeps the text of numbers, so the input gets the numbers as the RFC prints them.
func TestCanonicalOfRFC8785(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/jcs-rfc8785/input/*.json")
	if err != nil || len(files) != 6 {
		t.Fatalf("no corpus: %v", err)
	}
	reprinted := strings.NewReplacer("56.0", "56", "333333333.33333329", "333333333.3333333", "1E30", "1e+30", "4.50", "4.5", "2e-3", "0.002", "0.000000000000000000000000001", "1e-27")
	for _, file := range files {
		in, err := os.ReadFile(file)
		must(t, err)
		want, err := os.ReadFile(strings.Replace(file, "input", "output", 1))
		must(t, err)
		got := string(translate.Canonical([]byte("x"), []byte(reprinted.Replace(string(in)))))
		equal(t, got, "x"+string(want), file, want)
		equal(t, string(translate.Canonical(nil, want)), string(want), file)
	}
}

// Two spellings of a number stay different.
func TestCanonicalKeepsNumbers(t *testing.T) {
	t.Parallel()
	for _, number := range []string{`0`, `-0`, `1E30`, `4.50`, `2e-3`, `100`, `1e2`, `100.0`, `333333333.33333329`, `9007199254740993`, `18446744073709551616`, `1e400`, `-1e-400`, `20261121093015`} {
		want := `{"apprPrice":` + number + `,"x":[` + number + `]}`
		equal(t, string(translate.Canonical(nil, []byte("{ \"x\" : [ "+number+" ] ,\n\"apprPrice\" : "+number+" }"))),
			want)
	}
}

// A canonical form has the content of its document. It is its own canonical form, and that of the document with another order.
func FuzzCanonical(f *testing.F) {
	for _, doc := range corpus(f, "*") {
		if len(doc.data) < 4096 {
			f.Add(doc.data, uint64(len(doc.data)))
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte, seed uint64) {
		kept := bytes.Clone(doc)
		got := translate.Canonical(nil, doc)
		if !bytes.Equal(kept, doc) {
			t.Fatal("the input was written to")
		}
		if again := translate.Canonical(nil, got); !bytes.Equal(got, again) {
			t.Fatalf("%q became %q", got, again)
		}
		var before, after any
		for i, doc := range [][]byte{doc, got} {
			d := json.NewDecoder(bytes.NewReader(doc))
			d.UseNumber()
			if err := d.Decode([]*any{&before, &after}[i]); err != nil {
				if !bytes.Equal(got, kept) {
					t.Fatalf("%q is not JSON, but became %q", kept, got)
				}
				return
			}
		}
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%q became %q", doc, got)
		}
		if strict(doc) != nil || bytes.Contains(doc, []byte(`\u`)) || !bytes.Equal(doc, bytes.ToValidUTF8(doc, nil)) {
			return
		}
		if mixed := shuffled(doc, seed); json.Valid(doc) && !bytes.Equal(translate.Canonical(nil, mixed), got) {
			t.Fatalf("%q is another than %q", mixed, doc)
		}
	})
}
