package translate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"billbridge/translate"
)

// callbackFields returns the fields of one direction, and their paths in both forms. The values of a callback are translated like
// those of a reply, so the fields say "reply".
func callbackFields(c *translate.Callback, from translate.Form) (fields []translate.Field, sources, targets []string) {
	for _, f := range c.Fields() {
		if f.From == from {
			f.Message = "reply"
			fields, sources, targets = append(fields, f), append(sources, f.Source), append(targets, f.Target)
		}
	}
	return fields, sources, targets
}

// checkCallbackLaws checks every law of a callback without the parser of the package.
func checkCallbackLaws(t *testing.T, c *translate.Callback, from, to translate.Form, in, out []byte, notice translate.Notice, err error) {
	t.Helper()
	if err != nil {
		refusal, ok := err.(*translate.Refusal)
		if !ok || out != nil || notice.Recognised != "" || !slices.Contains(shipped().Catalogue(), refusal.Code) {
			t.Fatalf("refused with %v and output %q", err, out)
		}
		if json.Valid(in) && strict(in) == nil && !misspelled(c, in) && !strings.Contains(refusal.Reason.String(), "deeper") && !strings.Contains(string(in), `\u`) && bytes.Equal(in, bytes.ToValidUTF8(in, nil)) {
			t.Fatalf("%q is good, but refused: %v", in, err)
		}
		return
	}
	if misspelled(c, in) {
		t.Fatalf("%q has a name that differs from one of the table in case only", in)
	}
	names := map[translate.Form][2]string{"v2": {"apiKey", "billId"}, "legacy": {"apikey", "bill_id"}}
	top := leavesOf(in, nil)
	valueIn := func(f translate.Form, i int) string {
		raw, ok := top[names[f][i]]
		if !ok || !json.Valid(in) || !strings.ContainsRune(`"-0123456789`, rune(raw[0])) {
			return ""
		}
		return content(raw)
	}
	identified := func(f translate.Form) bool { return valueIn(f, 0) != "" || valueIn(f, 1) != "" }
	want := translate.Unrecognised
	switch {
	case from != to && identified(from):
		want = translate.Translated
	case identified(to):
		want = translate.InForm
	case from == to && hasForm(top, other(from)) && !hasForm(top, from):
		want = translate.Translated
	}
	if notice.Recognised != want {
		t.Fatalf("%q is taken as %s, not %s", in, notice.Recognised, want)
	}
	for i, got := range [][]string{notice.Values["partner"], notice.Values["bill"]} {
		var named []string
		for _, f := range []translate.Form{from, other(from)} {
			if v := valueIn(f, i); v != "" && !slices.Contains(named, v) {
				named = append(named, v)
			}
		}
		if !slices.Equal(got, named) {
			t.Fatalf("%q names %q, not %q", in, got, named)
		}
	}
	if want != translate.Translated {
		if !bytes.Equal(in, out) {
			t.Fatalf("%q passes as %q", in, out)
		}
		return
	}
	if err := strict(out); err != nil {
		t.Fatalf("%v in the output %q", err, out)
	}
	spelled, otherForm := from, from == to
	if otherForm {
		spelled = other(from)
	}
	fields, _, _ := callbackFields(c, spelled)
	after := leavesOf(out, nil)
	for _, f := range fields {
		raw, came := top[f.Source]
		got, went := after[f.Target]
		if f.Class == translate.Exact && (came != went || came && !carried(f, raw, got)) {
			t.Fatalf("%s was %s and became %s", f.Source, raw, got)
		}
		dropped := slices.Contains(notice.Report.Dropped, f.Source)
		if otherForm && f.Class == translate.Lossy { // its name is the same in the partner's form: it passes like a field without a row
			if dropped {
				t.Fatalf("%s was dropped", f.Source)
			}
			continue
		}
		if dropped != (f.Class == translate.Lossy && came) {
			t.Fatalf("%s: came %v, dropped %v", f.Source, came, dropped)
		}
		delete(top, f.Source)
		if f.Target != "" { // "" is also a valid field name
			delete(after, f.Target)
		}
	}
	for name, raw := range after {
		if otherForm && top[name] == raw { // fields without a row pass
			delete(after, name)
			delete(top, name)
		}
	}
	if len(after) > 0 || len(top) != notice.Report.Unknown {
		t.Fatalf("fields that the table does not put there: %v; %d unknown, not %d", after, notice.Report.Unknown, len(top))
	}
}

// misspelled reports whether a body has a name that differs from one of either form in case only.
func misspelled(c *translate.Callback, in []byte) bool {
	_, v2, legacy := callbackFields(c, "v2")
	names := slices.Concat(v2, legacy)
	var top map[string]json.RawMessage
	if json.Unmarshal(in, &top) != nil {
		return false
	}
	for name := range top {
		like := func(known string) bool { return known != "" && strings.EqualFold(known, name) }
		if !slices.Contains(names, name) && slices.ContainsFunc(names, like) {
			return true
		}
	}
	return false
}

func other(f translate.Form) translate.Form {
	return map[translate.Form]translate.Form{"v2": "legacy", "legacy": "v2"}[f]
}

// has reports whether a body has a field whose name only this form has.
func hasForm(top leaves, f translate.Form) bool {
	_, own, others := callbackFields(shipped().Callback, f)
	for i, name := range own {
		if _, there := top[name]; there && name != others[i] {
			return true
		}
	}
	return false
}

// A callback that is translated there and back has the same content, except for the losses that Fields declares.
func FuzzCallback(f *testing.F) {
	for _, g := range readGolden(f) {
		for _, p := range slices.Concat(g.Requests, g.Replies) {
			f.Add(uint8(1), []byte(p.In))
			f.Add(uint8(2), []byte(p.In))
		}
	}
	f.Add(uint8(1), []byte(`{"apiKey":"k","billId":"1","apprState":"F","APPRSTATE":"W"}`))
	f.Add(uint8(2), []byte(`{"apikey":"k","bill_id":"1","Appr_State":"W"}`))
	for i, doc := range corpus(f, "*") {
		if len(doc.data) < 4096 {
			f.Add(uint8(i), doc.data)
			f.Add(uint8(i), fmt.Appendf(nil, `{"apikey":%s,"billId":%[1]s}`, doc.data))
		}
	}
	f.Fuzz(func(t *testing.T, direction uint8, doc []byte) {
		from, to := forms[direction>>1&1], forms[direction&1]
		c, kept := shipped().Callback, slices.Clone(doc)
		out, notice, err := c.Translate(nil, doc, from, to)
		if !slices.Equal(kept, doc) {
			t.Fatal("the input was written to")
		}
		checkCallbackLaws(t, c, from, to, doc, out, notice, err)
		if err != nil || notice.Recognised != translate.Translated || from == to {
			return
		}
		again, returned, err := c.Translate(nil, out, to, from)
		if err != nil || returned.Recognised != translate.Translated {
			t.Fatalf("%q became %q, which does not come back: %v", doc, out, err)
		}
		before, after := leavesOf(doc, nil), leavesOf(again, nil)
		fields, _, _ := callbackFields(c, from)
		for _, f := range fields {
			if f.Class == translate.Exact && keptOf(f, before[f.Source]) != keptOf(f, after[f.Source]) {
				t.Fatalf("%s was %s and came back as %s", f.Source, before[f.Source], after[f.Source])
			}
		}
	})
}
