package translate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"billbridge/translate"
)

// The laws of translation. They are checked with encoding/json and Fields, and not with the parser of the package, which could make
// the same mistake twice.

// leaves are the raw values of an object by their path. An object is opened if the table has paths below it, and is a leaf otherwise.
type leaves map[string]string

func leavesOf(doc []byte, paths []string) leaves {
	l := leaves{}
	l.collect("", doc, paths)
	return l
}

func (l leaves) collect(parent string, doc []byte, paths []string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(doc, &members) != nil {
		return
	}
	for name, raw := range members {
		path := strings.TrimPrefix(parent+"."+name, ".")
		opened := slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, path+".") })
		if opened && raw[0] == '{' {
			l.collect(path, raw, paths)
			continue
		}
		l[path] = string(raw)
	}
}

// content returns the text of a scalar, whatever its type. A round trip keeps it.
func content(raw string) string {
	var text string
	if strings.HasPrefix(raw, `"`) && json.Unmarshal([]byte(raw), &text) == nil {
		return text
	}
	return raw
}

// strict returns an error unless doc is one JSON value without duplicate names.
func strict(doc []byte) error {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	if err := strictValue(d); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("more than one value")
	}
	return nil
}

func strictValue(d *json.Decoder) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	delim, isDelim := token.(json.Delim)
	if !isDelim {
		return nil
	}
	names := map[string]bool{}
	for d.More() {
		if delim == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			if names[name.(string)] {
				return fmt.Errorf("duplicate name %q", name)
			}
			names[name.(string)] = true
		}
		if err := strictValue(d); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// fieldsOf returns the fields of one direction, and their paths in both forms.
func fieldsOf(o *translate.Operation, message string, from, to translate.Form) (fields []translate.Field, sources, targets []string) {
	for _, f := range o.Fields() {
		if f.Message == message && f.From == from && f.To == to {
			fields, sources, targets = append(fields, f), append(sources, f.Source), append(targets, f.Target)
		}
	}
	return fields, sources, targets
}

// isInteger reports whether s is a JSON integer, independently of the package.
func isInteger(s string) bool {
	return s == "0" || s != "" && s[0] != '0' && strings.Trim(s, "0123456789") == ""
}

// emptyOf returns the number that the form with text writes as "", if the field has one.
func emptyOf(f translate.Field) (number string, ok bool) {
	if number, ok = strings.CutPrefix(f.Detail.String(), `as a number, "" as `); ok {
		return number, true
	}
	number, ok = strings.CutPrefix(f.Detail.String(), "as text, ")
	return strings.TrimSuffix(number, ` as ""`), ok
}

// noValue returns what a field means and how the other form writes it, if the bill is not paid and the field says that 0 and "" are then
// no value. before is the reply.
func noValue(f translate.Field, from translate.Form, raw string, before leaves) (want string, ok bool) {
	_, rule, ok := strings.Cut(f.Detail.String(), `0 and "" as `)
	state := before[map[translate.Form]string{"v2": "apprState", "legacy": "appr_state"}[from]]
	if !ok || state != `"W"` && state != `"D"` || raw != `""` && raw != "0" && raw != `"0"` {
		return "", false
	}
	want, _, _ = strings.Cut(rule, " while")
	return want, true
}

// keptOf returns what a round trip keeps of a value: its content, whatever its type. If the field has an empty number, that number and
// "" are the same.
func keptOf(f translate.Field, raw string) string {
	if empty, ok := emptyOf(f); ok && (raw == `""` || content(raw) == empty) {
		return empty
	}
	return content(raw)
}

// carried reports whether in may become out: digits change between number and text, a number in a reply becomes text, and everything
// else keeps its bytes.
func carried(f translate.Field, in, out string) bool {
	if empty, ok := emptyOf(f); ok && (in == `""` || content(in) == empty) {
		return out == map[bool]string{true: empty, false: `""`}[strings.HasPrefix(f.Detail.String(), "as a number")]
	}
	digits := strings.TrimSuffix(strings.TrimPrefix(in, `"`), `"`)
	number := in[0] == '-' || in[0] >= '0' && in[0] <= '9'
	switch {
	case strings.HasPrefix(f.Detail.String(), "as a number") && isInteger(digits):
		return out == digits
	case strings.HasPrefix(f.Detail.String(), "as text") && isInteger(digits):
		return out == `"`+digits+`"`
	case strings.HasPrefix(f.Detail.String(), "as ") && f.Message == "request":
		return in == "null" && out == "null"
	case strings.HasPrefix(f.Detail.String(), "as "):
		return out == in
	case f.Message == "reply" && number:
		return out == `"`+in+`"`
	}
	return out == in
}

// checkRequestLaws checks every law of a translated request.
func checkRequestLaws(t *testing.T, c *translate.Translation, from, to translate.Form, in, out []byte, err error) {
	t.Helper()
	if err != nil {
		refusal, ok := err.(*translate.Refusal)
		if !ok || out != nil || !slices.Contains(shipped().Catalogue, refusal.Code) {
			t.Fatalf("refused with %v and output %q", err, out)
		}
		return
	}
	if c.SameForm() {
		if !bytes.Equal(in, out) {
			t.Fatalf("between equal forms %q became %q", in, out)
		}
		return
	}
	if err := strict(out); err != nil {
		t.Fatalf("%v in the output %q", err, out)
	}
	fields, sources, targets := fieldsOf(c.Operation(), "request", from, to)
	before, after := leavesOf(in, sources), leavesOf(out, targets)
	for _, f := range fields {
		raw, came := before[f.Source]
		got, went := after[f.Target]
		switch {
		case f.Class == translate.Exact && came != went:
			t.Fatalf("%s in the input: %v, %s in the output: %v", f.Source, came, f.Target, went)
		case f.Class == translate.Exact && came && !carried(f, raw, got):
			t.Fatalf("%s was %s and became %s", f.Source, raw, got)
		case f.Class == translate.Defaulted && got != f.Detail.String():
			t.Fatalf("%s should be %s, but is %s", f.Target, f.Detail.String(), got)
		}
		delete(after, f.Target)
	}
	if len(after) > 0 {
		t.Fatalf("fields that are not in the table: %v", after)
	}
}

// checkReplyLaws checks every law of a translated reply. request is the client's.
func checkReplyLaws(t *testing.T, c *translate.Translation, call *translate.Call, from, to translate.Form, request, in, out []byte, status int, err error) {
	t.Helper()
	read := func(raw string, ok bool) string {
		if !ok || raw[0] != '"' {
			return ""
		}
		return content(raw)
	}
	nameOf := map[translate.Form]string{"v2": "message", "legacy": "msg"}
	top := leavesOf(in, nil)
	code := read(top["code"], top["code"] != "")
	withoutEnvelope := false
	if top["code"] == "" && c.Operation().Name == "bill.read" && from == "legacy" && status/100 == 2 {
		want := leavesOf(request, []string{"bill.billId"})[map[translate.Form]string{"v2": "bill.billId", "legacy": "bill_id"}[to]]
		id, state := top["bill_id"], top["appr_state"]
		withoutEnvelope = id != "" && want != "" && id[0] != '{' && id[0] != '[' && id != "null" && id != `""` && content(id) == content(want) &&
			slices.Contains([]string{"W", "F", "C", "D"}, read(state, state != ""))
	}
	if err != nil {
		if _, ok := err.(*translate.UnusableReply); !ok || out != nil || call.Code() != "" || call.Succeeded() {
			t.Fatalf("unusable: %v, with output %q, code %q, success %v", err, out, call.Code(), call.Succeeded())
		}
		return
	}
	if success := code == "0000" || withoutEnvelope; success != call.Succeeded() || code == "" && !success {
		t.Fatalf("success: %v of %q with status %d", call.Succeeded(), in, status)
	}
	if c.SameForm() {
		if !bytes.Equal(in, out) {
			t.Fatalf("between equal forms %q became %q", in, out)
		}
		return
	}
	if err := strict(out); err != nil {
		t.Fatalf("%v in the output %q", err, out)
	}
	result := leavesOf(out, nil)
	noEnvelope := c.Operation().Name == "bill.read" && to == "legacy" && call.Succeeded()
	if !noEnvelope {
		if got := read(result["code"], result["code"] != ""); got == "" || (got == "0000") != call.Succeeded() || code != "" && got != code {
			t.Fatalf("the code %q became %q", code, got)
		}
		if raw, came := top[nameOf[from]]; came && content(raw) != content(result[nameOf[to]]) {
			t.Fatalf("the text %s became %s", raw, result[nameOf[to]])
		}
		delete(result, "code")
		delete(result, nameOf[to])
	}
	if !call.Succeeded() {
		if want := map[translate.Form]leaves{"v2": {"data": "null"}, "legacy": {}}[to]; fmt.Sprint(result) != fmt.Sprint(want) {
			t.Fatalf("a failure with %v", result)
		}
		return
	}
	before, after := top, result
	if from == "v2" {
		before = leavesOf([]byte(top["data"]), nil)
	} else {
		after = leavesOf([]byte(result["data"]), nil)
	}
	echo := leavesOf(request, []string{"bill.billId"})
	fields, _, _ := fieldsOf(c.Operation(), "reply", from, to)
	for _, f := range fields {
		raw, came := before[f.Source]
		got, went := after[f.Target]
		switch {
		case f.Class == translate.Exact && came != went:
			t.Fatalf("%s in the input: %v, %s in the output: %v", f.Source, came, f.Target, went)
		case f.Class == translate.Exact && came:
			want, none := noValue(f, from, raw, before)
			if none && got != want || !none && !carried(f, raw, got) {
				t.Fatalf("%s was %s and became %s", f.Source, raw, got)
			}
		case f.Class == translate.Echoed:
			row := strings.TrimPrefix(f.Detail.String(), "from the request's ")
			want, came := echo[row]
			if _, name, _ := cut(row); !came { // in legacy it is at the top level
				want, came = echo[name]
			}
			if came != went || came && content(want) != content(got) {
				t.Fatalf("%s echoes %s, but is %s", f.Target, want, got)
			}
		}
		delete(after, f.Target)
	}
	if len(after) > 0 {
		t.Fatalf("fields that are not in the table: %v", after)
	}
}

// shuffled returns the document with the members of every object in another order.
func shuffled(doc []byte, seed uint64) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(doc, &members) != nil || members == nil {
		return doc
	}
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range members {
			if !yield(name) {
				return
			}
		}
	})
	r := rand.New(rand.NewPCG(seed, 1))
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var b bytes.Buffer
	for i, name := range names {
		key, _ := json.Marshal(name)
		fmt.Fprintf(&b, "%s%s:%s", map[bool]string{true: "{", false: ","}[i == 0], key, shuffled(members[name], seed))
	}
	if len(names) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes()
}
