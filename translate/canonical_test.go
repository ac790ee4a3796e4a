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

// A repeated callback has the same canonical form, and a different callback a different one.
func TestCanonicalTellsCallbacksApart(t *testing.T) {
	t.Parallel()
	same := []string{
		`{"apikey":"k","bill_id":"1","x":{"b":[1,{"d":1,"c":2}],"a":null}}`,
		" {\"x\":{\"a\":null,\"b\":[1,{\"c\":2,\"d\":1}]},\n\"bill_id\" : \"1\" ,\t\"apikey\":\"k\"}\r\n",
		`{"bill\u005fid":"\u0031","ap\u0069key":"k","x":{"b":[1,{"d":1,"c":2}],"a":null}}`,
	}
	for _, doc := range same {
		if got := translate.Canonical(nil, []byte(doc)); !bytes.Equal(got, translate.Canonical(nil, []byte(same[0]))) {
			t.Errorf("%s is another: %s", doc, got)
		}
	}
	seen := map[string]string{}
	for _, doc := range []string{
		`{"bill_id":"1"}`, `{"bill_id":1}`, `{"bill_id":"01"}`, `{"bill_id":" 1"}`, `{"bill_id":null}`, `{"bill_id":""}`, `{}`, `{"bill_Id":"1"}`,
		`{"bill_id":["1"]}`, `{"bill_id":[1,2]}`, `{"bill_id":[2,1]}`, `{"bill_id":{"1":1}}`, `["bill_id","1"]`, `"bill_id"`, `bill_id=1`,
	} {
		got := string(translate.Canonical(nil, []byte(doc)))
		if other, dup := seen[got]; dup {
			t.Errorf("%s and %s are one: %s", other, doc, got)
		}
		seen[got] = doc
	}
}

// If readers could read a document differently, Canonical returns the document itself, not a copy.
func TestCanonicalOfWhatIsNotJSON(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{
		` `, `ping`, `{"a":1`, `{"a":1} ` + `{}`, `{"b":1,"a":1,"b":2}`, `{"b":1,"\u0062":2}`, `{"b":"` + "\xff" + `","a":1}`, `{"b":"\ud800","a":1}`,
		`{"b":1,"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, strings.Repeat("[", 1<<20),
	} {
		src := []byte(doc)
		if got := translate.Canonical([]byte("x"), src); &got[0] != &src[0] || len(got) != len(src) {
			t.Errorf("%.60q became %.60q", doc, got)
		}
	}
	if got := translate.Canonical(nil, nil); len(got) != 0 {
		t.Errorf("nothing became %q", got)
	}
	if got := string(translate.Canonical(nil, []byte(`{"b":1, "a":`+strings.Repeat("[", 999)+strings.Repeat("]", 999)+`}`))); !strings.HasPrefix(got, `{"a":[`) {
		t.Errorf("a thousand levels became %.60q", got)
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
