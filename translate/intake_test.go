package translate_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"billbridge/translate"
)

// A corpusFile is one document of a corpus.
type corpusFile struct {
	name string
	data []byte
}

// corpus returns the files of the JSON test suite with a prefix. For "*" it returns all of them, and those of RFC 8785.
func corpus(t testing.TB, prefix string) []corpusFile {
	t.Helper()
	files, err := filepath.Glob("testdata/jsontestsuite/test_parsing/" + prefix + "*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	if prefix == "*" {
		more, err := filepath.Glob("testdata/jcs-rfc8785/input/*.json")
		if err != nil || len(more) == 0 {
			t.Fatalf("no corpus: %v", err)
		}
		files = append(files, more...)
	}
	docs := make([]corpusFile, len(files))
	for i, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		docs[i] = corpusFile{strings.TrimSuffix(filepath.Base(file), ".json"), data}
	}
	return docs
}

// translations returns the translations of each operation of a table between each pair of forms that have it.
func translations(table *translate.Table) iter.Seq2[*translate.Translation, [2]translate.Form] {
	return func(yield func(*translate.Translation, [2]translate.Form) bool) {
		for _, o := range table.Operations {
			for _, from := range table.Forms() {
				for _, to := range table.Forms() {
					if c := o.Translation(from, to); c != nil && !yield(c, [2]translate.Form{from, to}) {
						return
					}
				}
			}
		}
	}
}

// Invalid JSON is refused as a request and unusable as a reply, also between equal forms, and also inside a field.
func TestR02_InvalidJSONIsRefusedWhole(t *testing.T) {
	t.Parallel()
	for _, doc := range corpus(t, "n_") {
		t.Run(doc.name, func(t *testing.T) {
			t.Parallel()
			for c, forms := range translations(shipped()) {
				for _, in := range [][]byte{doc.data, wrap(forms[0], "message", doc.data)} {
					out, err := c.Start().Request(nil, in)
					if _, ok := err.(*translate.Refusal); !ok || out != nil {
						t.Errorf("%s %s: %q with %v", c.Operation().Name, forms, out, err)
					}
					call := c.Start()
					out, err = call.Reply(nil, 200, in)
					if _, ok := err.(*translate.UnusableReply); !ok || out != nil || call.Succeeded() {
						t.Errorf("reply of %s %s: %q with %v", c.Operation().Name, forms, out, err)
					}
				}
			}
		})
	}
}

// wrap returns a create request with a value in a field of the bill.
func wrap(from translate.Form, field string, value []byte) []byte {
	if from == "v2" {
		return fmt.Appendf(nil, `{"apiKey":"k","bill":{"billId":"1","sendType":"TALK","%s":%s}}`, field, value)
	}
	return fmt.Appendf(nil, `{"apikey":"k","bill":{"bill_id":"1","%s":%s}}`, field, value)
}

// Valid JSON, and JSON that parsers may accept or refuse, keeps its meaning or is refused with a code: as a whole body, and as a field.
func TestR08_ValidJSONKeepsItsMeaning(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"y_", "i_"} {
		for _, doc := range corpus(t, prefix) {
			t.Run(doc.name, func(t *testing.T) {
				t.Parallel()
				for c, forms := range translations(shipped()) {
					out, err := c.Start().Request(nil, doc.data)
					checkRequestLaws(t, c, forms[0], forms[1], doc.data, out, err)
				}
				inField(t, doc.data)
			})
		}
	}
}

// inField translates a value as the message and as the price of a bill, in both directions, and compares its meaning.
func inField(t *testing.T, value []byte) {
	t.Helper()
	o := shipped().Operation("bill.create")
	for _, field := range []string{"message", "price"} {
		for i, from := range forms {
			c, in := o.Translation(from, forms[1-i]), wrap(from, field, value)
			out, err := c.Start().Request(nil, in)
			checkRequestLaws(t, c, from, forms[1-i], in, out, err)
			if err != nil {
				continue
			}
			before, after := decoded(t, in), decoded(t, out)
			if field == "price" {
				before, after = fmt.Sprint(before), fmt.Sprint(after) // 50000 and "50000"
			}
			if !reflect.DeepEqual(before, after) {
				t.Errorf("%s %s from %s became %s", field, value, from, out)
			}
		}
	}
}

// decoded returns the bill's message or price as encoding/json reads it.
func decoded(t *testing.T, doc []byte) any {
	t.Helper()
	var body struct {
		Bill struct {
			Message, Price json.RawMessage
		}
	}
	must(t, json.Unmarshal(doc, &body))
	raw := slices.Concat(body.Bill.Message, body.Bill.Price)
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	must(t, d.Decode(&v))
	return v
}

// scalars returns the raw scalars and the names of a document, at every depth.
func scalars(raw json.RawMessage) []json.RawMessage {
	var members map[string]json.RawMessage
	var items, all []json.RawMessage
	switch {
	case json.Unmarshal(raw, &items) == nil && items != nil:
	case json.Unmarshal(raw, &members) == nil && members != nil:
		for name, v := range members {
			key, _ := json.Marshal(name)
			items = append(items, key, v)
		}
	default:
		return []json.RawMessage{raw}
	}
	for _, item := range items {
		all = append(all, scalars(item)...)
	}
	return all
}

// Numbers and strings keep their raw text: 333333333.33333329 does not become 333333333.3333333.
func TestR06_NumbersMoveAsRawText(t *testing.T) {
	t.Parallel()
	values := []string{
		`0`, `-0`, `1E30`, `4.50`, `2e-3`, `0.000000000000000000000000001`, `333333333.33333329`,
		`9007199254740993`, `18446744073709551616`, `1e400`, `-1e-400`, `20261121093015`, `0.1`, `100.00`,
	}
	for _, doc := range corpus(t, "*") {
		if strings.HasPrefix(doc.name, "n_") || strings.HasPrefix(doc.name, "i_") || strings.HasPrefix(doc.name, "y_") {
			continue
		}
		for _, raw := range scalars(doc.data) {
			values = append(values, string(raw))
		}
	}
	o := shipped().Operation("bill.create")
	for _, value := range values {
		inField(t, []byte(value))
		for i, from := range forms {
			out, err := o.Translation(from, forms[1-i]).Start().Request(nil, wrap(from, "message", []byte(value)))
			if err != nil || !strings.Contains(string(out), `"message":`+value) {
				t.Errorf("message %s from %s became %s, %v", value, from, out, err)
			}
		}
	}
}

// Names and values with invalid UTF-8 or a lone surrogate are refused everywhere.
func TestR05_InvalidTextIsRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe3\x81", `\ud800`, `\udc00`, `\ud800\ud800`, `\ud83dx`} {
		for _, doc := range []string{`{"apiKey":"` + bad + `"}`, `{"` + bad + `":1}`, `{"bill":{"` + bad + `":1}}`, `{"x":[{"y":"` + bad + `"}]}`} {
			for c, forms := range translations(shipped()) {
				if out, err := c.Start().Request(nil, []byte(doc)); err == nil {
					t.Errorf("%s %s: %q became %q", c.Operation().Name, forms, doc, out)
				}
				checkRefusedCallback(t, doc, forms)
			}
		}
	}
}

// A program that cuts a name in the middle of an emoji writes half of it.
func TestHalfACharacterIsNamed(t *testing.T) {
	t.Parallel()
	for _, half := range []string{`\ud83d`, `\ude00`, `a\ud83dx`} {
		doc := `{"apikey":"k","bill":{"member_nm":"` + half + `"}}`
		call := shipped().Operation("bill.create").Translation("legacy", "v2").Start()
		_, err := call.Request(nil, []byte(doc))
		equal(t, fmt.Sprint(err), fmt.Sprintf("VALIDATION_001 bill.member_nm: half of a character at byte %d", strings.Index(doc, `\`)), doc)
	}
}

// checkRefusedCallback checks that two readers could not take a callback for different ones.
func checkRefusedCallback(t *testing.T, doc string, forms [2]translate.Form) {
	t.Helper()
	out, notice, err := translateCallback(doc, forms[0], forms[1])
	if refusal, ok := err.(*translate.Refusal); !ok || out != "" || notice.Recognised != "" || refusal.Code != "VALIDATION_001" {
		t.Errorf("callback %s: %q became %q %v, %v", forms, doc, out, notice, err)
	}
}

// A duplicate name is refused at every level, whatever its spelling, also between equal forms.
func TestR01_DuplicateNamesAreRefused(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{
		`{"apiKey":"a","apiKey":"b"}`,
		`{"apiKey":"a","ap\u0069Key":"a"}`,
		`{"bill":{"price":1},"bill":{"price":2}}`,
		`{"bill":{"price":1,"pr\u0069ce":2}}`,
		`{"bill":{"price":1},"b\u0069ll":{}}`,
		`{"apikey":"a","bill_id":"1","bill\u005fid":"2"}`,
		`{"apikey":"a","ap\u0069key":"a"}`,
		`[{"apikey":"a","apikey":"b"}]`,
		`{"x":1,"x":1}`,
		`{"x":{"y":1,"y":2}}`,
		`{"x":[{"y":[{"":1,"":2}]}]}`,
		`{"\ud83d\ude02":1,"😂":2}`,
	} {
		for c, forms := range translations(shipped()) {
			out, err := c.Start().Request(nil, []byte(doc))
			if refusal, ok := err.(*translate.Refusal); !ok || out != nil || refusal.Code != "VALIDATION_001" || !strings.Contains(refusal.Reason.String(), "twice") {
				t.Errorf("%s %s: %s became %q with %v", c.Operation().Name, forms, doc, out, err)
			}
			if out, err := c.Start().Reply(nil, 200, []byte(doc)); err == nil {
				t.Errorf("reply of %s %s: %s became %q", c.Operation().Name, forms, doc, out)
			}
			checkRefusedCallback(t, doc, forms)
		}
	}
}
