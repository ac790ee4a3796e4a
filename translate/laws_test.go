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

// The laws of translation, judged with encoding/json and what the table says of itself, by nothing of the
// engine's own reading: a mistake there must not be able to agree with itself.

// leaves are the leaves of an object by their path: raw JSON, objects on the way opened where the table has
// paths below them. Everything else, also an array or an object without a path below it, is a leaf.
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

// content is what a scalar says, whatever its type: this is what a round trip keeps.
func content(raw string) string {
	var text string
	if strings.HasPrefix(raw, `"`) && json.Unmarshal([]byte(raw), &text) == nil {
		return text
	}
	return raw
}

// strict is the reader of last resort: one JSON value, no name twice in an object.
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
				return fmt.Errorf("the name %q stands twice", name)
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

// fieldsOf are the fields of one direction, and the paths that they have on either backend.
func fieldsOf(o *translate.Operation, message string, from, to translate.Form) (fields []translate.Field, sources, targets []string) {
	for _, f := range o.Fields() {
		if f.Message == message && f.From == from && f.To == to {
			fields, sources, targets = append(fields, f), append(sources, f.Source), append(targets, f.Target)
		}
	}
	return fields, sources, targets
}

// isInteger is the strict integer grammar, written down once more.
func isInteger(s string) bool {
	return s == "0" || s != "" && s[0] != '0' && strings.Trim(s, "0123456789") == ""
}

// emptyOf is the number that a field declares to be "" in the form that writes text.
func emptyOf(f translate.Field) (number string, ok bool) {
	if number, ok = strings.CutPrefix(f.Detail, `as a number, "" as `); ok {
		return number, true
	}
	number, ok = strings.CutPrefix(f.Detail, "as text, ")
	return strings.TrimSuffix(number, ` as ""`), ok
}

// keptOf is what a round trip keeps of a value: its content, whatever its type. Where a field declares a number to be "", it
// keeps that there is nothing, and not which of the two said so.
func keptOf(f translate.Field, raw string) string {
	if empty, ok := emptyOf(f); ok && (raw == `""` || content(raw) == empty) {
		return empty
	}
	return content(raw)
}

// carried tells whether out is what a field may become of in: digits change between number and text, a reply's
// number becomes text, and nothing else changes a byte.
func carried(f translate.Field, in, out string) bool {
	if empty, ok := emptyOf(f); ok && (in == `""` || content(in) == empty) {
		return out == map[bool]string{true: empty, false: `""`}[strings.HasPrefix(f.Detail, "as a number")]
	}
	digits := strings.TrimSuffix(strings.TrimPrefix(in, `"`), `"`)
	number := in[0] == '-' || in[0] >= '0' && in[0] <= '9'
	switch {
	case strings.HasPrefix(f.Detail, "as a number") && isInteger(digits):
		return out == digits
	case strings.HasPrefix(f.Detail, "as text") && isInteger(digits):
		return out == `"`+digits+`"`
	case strings.HasPrefix(f.Detail, "as ") && f.Message == "request":
		return in == "null" && out == "null"
	case strings.HasPrefix(f.Detail, "as "):
		return out == in
	case f.Message == "reply" && number:
		return out == `"`+in+`"`
	}
	return out == in
}

// judgeRequest checks every law of a request that was carried from one form to the other.
func judgeRequest(t *testing.T, c *translate.Translation, from, to translate.Form, in, out []byte, err error) {
	t.Helper()
	if err != nil {
		refusal, ok := err.(*translate.Refusal)
		if !ok || out != nil || !slices.Contains(shipped().Catalogue(), refusal.Code) {
			t.Fatalf("refused with %v and output %q", err, out)
		}
		return
	}
	if c.SameForm() {
		if !bytes.Equal(in, out) {
			t.Fatalf("the same form, but %q became %q", in, out)
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
			t.Fatalf("%s came: %v, %s went: %v", f.Source, came, f.Target, went)
		case f.Class == translate.Exact && came && !carried(f, raw, got):
			t.Fatalf("%s was %s and became %s", f.Source, raw, got)
		case f.Class == translate.Defaulted && got != f.Detail:
			t.Fatalf("%s should be %s, but is %s", f.Target, f.Detail, got)
		}
		delete(after, f.Target)
	}
	if len(after) > 0 {
		t.Fatalf("fields that the table does not put there: %v", after)
	}
}

// judgeReply checks every law of a reply. asked is the client's request.
func judgeReply(t *testing.T, c *translate.Translation, call *translate.Call, from, to translate.Form, asked, in, out []byte, status int, err error) {
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
	bareSuccess := false
	if top["code"] == "" && c.Operation().Name == "bill.read" && from == "legacy" && status == 200 {
		want := leavesOf(asked, []string{"bill.billId"})[map[translate.Form]string{"v2": "bill.billId", "legacy": "bill_id"}[to]]
		id, state := top["bill_id"], top["appr_state"]
		bareSuccess = id != "" && want != "" && id[0] != '{' && id[0] != '[' && id != "null" && id != `""` && content(id) == content(want) &&
			slices.Contains([]string{"W", "F", "C", "D"}, read(state, state != ""))
	}
	if err != nil {
		if _, ok := err.(*translate.UnusableReply); !ok || out != nil || call.Code() != "" || call.Succeeded() {
			t.Fatalf("no answer: %v, with output %q, code %q, success %v", err, out, call.Code(), call.Succeeded())
		}
		return
	}
	if success := code == "0000" || bareSuccess; success != call.Succeeded() || code == "" && !success {
		t.Fatalf("success: %v of %q with status %d", call.Succeeded(), in, status)
	}
	if c.SameForm() {
		if !bytes.Equal(in, out) {
			t.Fatalf("the same form, but %q became %q", in, out)
		}
		return
	}
	if err := strict(out); err != nil {
		t.Fatalf("%v in the output %q", err, out)
	}
	result := leavesOf(out, nil)
	bare := c.Operation().Name == "bill.read" && to == "legacy" && call.Succeeded()
	if !bare {
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
	echo := leavesOf(asked, []string{"bill.billId"})
	fields, _, _ := fieldsOf(c.Operation(), "reply", from, to)
	for _, f := range fields {
		raw, came := before[f.Source]
		got, went := after[f.Target]
		switch {
		case f.Class == translate.Exact && came != went:
			t.Fatalf("%s came: %v, %s went: %v", f.Source, came, f.Target, went)
		case f.Class == translate.Exact && came && !carried(f, raw, got):
			t.Fatalf("%s was %s and became %s", f.Source, raw, got)
		case f.Class == translate.Echoed:
			if want, came := echo[strings.TrimPrefix(f.Detail, "from the request's ")]; came != went || came && content(want) != content(got) {
				t.Fatalf("%s echoes %s, but is %s", f.Target, want, got)
			}
		}
		delete(after, f.Target)
	}
	if len(after) > 0 {
		t.Fatalf("fields that the table does not put there: %v", after)
	}
}

// shuffled is the document with every object's members in another order: an order means nothing in JSON.
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
