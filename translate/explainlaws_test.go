package translate_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"billbridge/translate"

	"pgregory.net/rapid"
)

// pathsOf returns the paths of a message in a form from the top of the document.
func pathsOf(o []translate.Field, message string, form translate.Form) (paths []string) {
	for _, f := range o {
		if f.Message != message {
			continue
		}
		for f2, path := range map[translate.Form]string{f.From: f.Source, f.To: f.Target} {
			if f2 == form && path != "" {
				if message == "reply" && form == "v2" {
					path = "data." + path
				}
				paths = append(paths, path)
			}
		}
	}
	if message == "reply" && form == "v2" {
		paths = append(paths, "data.")
	}
	return paths
}

// An explained is one message for checkExplanation, and what the engine made of it.
type explained struct {
	fields   []translate.Field // of its operation
	message  string
	from, to translate.Form
	in, out  []byte
	err      error
	report   translate.Report
	success  bool // of a reply
}

// checkExplanation checks that an explanation has each leaf of the input and of the output once, with its value, and says of each
// what the report of the engine says.
func checkExplanation(t rapid.TB, m explained, e *translate.Explanation) {
	t.Helper()
	if !bytes.Equal(e.Output, m.out) || fmt.Sprint(e.Err) != fmt.Sprint(m.err) || fmt.Sprint(e.Report) != fmt.Sprint(m.report) {
		t.Fatalf("the explanation is about %q, %v, %v; the translation is %q, %v, %v", e.Output, e.Err, e.Report, m.out, m.err, m.report)
	}
	var refused, defaulted, echoed, dropped, passed []string
	unknown := 0
	toRow := func(path string, form translate.Form) string {
		if m.message == "reply" && form == "v2" {
			return strings.TrimPrefix(path, "data.")
		}
		return path
	}
	for _, f := range e.Fields {
		switch f.Outcome {
		case translate.OutcomeRefused:
			refused = append(refused, strings.TrimSpace(f.Code+" "+f.Source)+": "+f.Reason)
		case translate.OutcomeDefaulted:
			if f.Row != nil {
				defaulted = append(defaulted, toRow(f.Target, m.to))
			}
		case translate.OutcomeEchoed:
			echoed = append(echoed, toRow(f.Target, m.to))
			if f.Reason != "" {
				passed = append(passed, toRow(f.Target, m.to)+" "+f.Reason)
			}
		case translate.OutcomePassed:
			// With {v2: other, legacy: other} it is no mismatch.
			if f.Row != nil && strings.Contains(f.Row.Text, ": other") && !slices.Contains(m.report.Mismatched, toRow(f.Source, m.from)) {
				continue
			}
			passed = append(passed, toRow(f.Source, m.from)+" "+f.Reason)
		case translate.OutcomeDropped:
			switch {
			case f.Row != nil:
				dropped = append(dropped, toRow(f.Source, m.from))
			case f.Unknown:
				unknown++
			default:
				passed = append(passed, toRow(f.Source, m.from)+" "+f.Reason)
			}
		case translate.OutcomeSame, translate.OutcomeRenamed:
			if f.Before != f.After || (f.Source == f.Target) != (f.Outcome == translate.OutcomeSame) {
				t.Fatalf("%+v", f)
			}
		case translate.OutcomeConverted:
			if f.Before == f.After {
				t.Fatalf("%+v", f)
			}
			if path := toRow(f.Source, m.from); f.After == "null" && slices.Contains(m.report.Dropped, path) { // with {v2: null, legacy: other}
				dropped = append(dropped, path)
			}
		case translate.OutcomeOmitted, translate.OutcomeUnused:
		default:
			t.Fatalf("the outcome %q", f.Outcome)
		}
	}
	if (len(refused) == 1) != (m.err != nil) || len(refused) > 1 {
		t.Fatalf("%q: refused %q, but the engine says %v", m.in, refused, m.err)
	}
	if m.err != nil {
		checkRefused(t, m, e, refused[0])
		return
	}
	same := func(what string, got, want []string) {
		t.Helper()
		slices.Sort(got)
		if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
			t.Fatalf("%q from %s to %s: %s is %q, but the engine reports %q", m.in, m.from, m.to, what, got, want)
		}
	}
	var mismatched []string
	for i, path := range m.report.Mismatched {
		if m.report.Mismatches[i].Format != translate.IsMissing {
			mismatched = append(mismatched, path+" "+m.report.Mismatches[i].String())
		}
	}
	same("passed", passed, mismatched)
	same("dropped", dropped, m.report.Dropped)
	same("echoed", echoed, m.report.Echoed)
	same("defaulted", defaulted, slices.DeleteFunc(slices.Clone(m.report.Defaulted), func(path string) bool {
		return m.message == "reply" && (path == "message" || path == "msg") // the text of the envelope has no row
	}))
	if unknown != m.report.Unknown {
		t.Fatalf("%q: %d fields without a row are dropped, but the engine reports %d", m.in, unknown, m.report.Unknown)
	}
	checkLeaves(t, m, e)
}

// checkRefused checks the explanation of a message that was refused.
func checkRefused(t rapid.TB, m explained, e *translate.Explanation, refused string) {
	t.Helper()
	var refusal *translate.Refusal
	var unusable *translate.UnusableReply
	switch {
	case errors.As(m.err, &refusal):
		if want := strings.TrimSpace(refusal.Code+" "+refusal.Field) + ": " + refusal.Reason.String(); refused != want {
			t.Fatalf("%q: refused %q, but the engine says %q", m.in, refused, want)
		}
	case errors.As(m.err, &unusable):
		if !strings.HasSuffix(refused, ": "+unusable.Reason) {
			t.Fatalf("%q: refused %q, but the engine says %q", m.in, refused, unusable.Reason)
		}
	}
	if strict(m.in) != nil || strings.Contains(refused, "nested deeper") || !utf8.Valid(m.in) ||
		strings.Contains(refused, "not JSON at") || strings.Contains(refused, "half of a character") {
		if len(e.Fields) != 1 || e.Fields[0].Offset < 0 || e.Fields[0].Offset > len(m.in) {
			t.Fatalf("%q is not JSON, but is explained as %+v", m.in, e.Fields)
		}
		return
	}
	checkLeaves(t, m, e)
}

// checkLeaves checks that each leaf of both documents is in exactly one entry, in the order of the input.
func checkLeaves(t rapid.TB, m explained, e *translate.Explanation) {
	t.Helper()
	var before, after []placed
	for _, f := range e.Fields {
		if f.Offset >= 0 {
			before = append(before, placed{comparablePath(f.Source), "", f.Before, f.Offset})
		}
		if f.After != "" {
			after = append(after, placed{comparablePath(f.Target), "", f.After, 0})
		}
	}
	want := placedLeaves(m.in, pathsOf(m.fields, m.message, m.from))
	for i := range want {
		want[i].path, want[i].pointer = comparablePath(want[i].path), ""
	}
	if !slices.Equal(before, want) {
		t.Fatalf("the input %q is explained as\n%+v, but has the leaves\n%+v", m.in, before, want)
	}
	want = nil
	if m.err == nil {
		want = placedLeaves(m.out, pathsOf(m.fields, m.message, m.to))
	}
	for i := range want {
		want[i].path, want[i].pointer, want[i].offset = comparablePath(want[i].path), "", 0
	}
	order := func(a, b placed) int { return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.raw, b.raw)) }
	slices.SortFunc(after, order)
	slices.SortFunc(want, order)
	if !slices.Equal(after, want) {
		t.Fatalf("the output %q is explained as\n%+v, but has the leaves\n%+v", m.out, after, want)
	}
}

// explainRequest checks the explanation of a request.
func explainRequest(t rapid.TB, translation *translate.Translation, from, to translate.Form, doc []byte) *translate.Explanation {
	t.Helper()
	call := translation.Start()
	defer call.Release()
	out, err := call.Request(nil, doc)
	e := translation.ExplainRequest(doc)
	checkExplanation(t, explained{translation.Operation().Fields(), "request", from, to, doc, out, err, call.Report, err == nil}, e)
	return e
}

// explainReply checks the explanation of a reply.
func explainReply(t rapid.TB, translation *translate.Translation, from, to translate.Form, request []byte, status int, doc []byte) *translate.Explanation {
	doc = withoutMark(doc)
	t.Helper()
	call := translation.Start()
	defer call.Release()
	if request != nil {
		_, _ = call.Request(nil, request)
	}
	out, err := call.Reply(nil, status, doc)
	e := translation.ExplainReply(request, status, doc)
	checkExplanation(t, explained{translation.Operation().Fields(), "reply", from, to, doc, out, err, call.Report, call.Succeeded()}, e)
	return e
}

// explainCallback checks the explanation of a callback.
func explainCallback(t rapid.TB, c *translate.Callback, from, to translate.Form, doc []byte) *translate.Explanation {
	t.Helper()
	out, notice, err := c.Translate(nil, doc, from, to)
	e := c.Explain(doc, from, to)
	if e.Recognised != notice.Recognised {
		t.Fatalf("recognised as %q, not %q", e.Recognised, notice.Recognised)
	}
	switch translated := notice.Recognised == translate.Translated; {
	case translated && from == to:
		from = other(from)
	case !translated && from != to && notice.Recognised == translate.InForm:
		from = to
	case !translated:
		to = from
	}
	checkExplanation(t, explained{c.Fields(), "request", from, to, doc, out, err, notice.Report, true}, e)
	return e
}
