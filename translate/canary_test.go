package translate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"billbridge/translate"

	"github.com/tidwall/sjson"
)

// canaries are values of fields by their JSON. Each of them contains one of the marks, or has no mark.
var canaries = []string{
	`"canary-A7"`, `"0424242"`, `"424242.5"`, `"-424242"`, `424242.5`, `-424242`, `424242e1`, `4242424242424242424242424242`, `424242`, `"424242"`, `42`,
	`{"other-name":"canary-A7"}`, `["canary-A7",424242]`, `true`, `null`, `""`, `"` + strings.Repeat("canary-A7", 40) + `"`,
}

// hasValue reports whether a text has a value of canaries, or a part of one.
func hasValue(text string) bool {
	return strings.Contains(text, "canary") || strings.Contains(text, "42") || strings.Contains(text, "A7")
}

// No error and no report has the value of a field: not of any field of any message, in any operation and direction.
func TestErrorsNeverHaveTheValueOfAField(t *testing.T) {
	t.Parallel()
	reasons := map[string]bool{}
	for _, overlay := range []string{
		"bounds: upstream", "bounds: enforce", "unknown: {request: refuse, reply: drop}", "unknown: {request: pass, reply: pass}",
		"operations: {bill.create: {request: {bill.message: {values: [{v2: a, legacy: '11월 수강료 납부 안내드립니다.'}]}}}}",
	} {
		table := overlaid(t, overlay)
		for c, forms := range translations(table) {
			checkCanaries(t, c, c.Operation().Fields(), forms[0], forms[1], reasons)
		}
		callback := table.Callback
		for _, from := range table.Forms() {
			for _, f := range callback.Fields() {
				for _, canary := range canaries {
					doc := set(t, set(t, `{}`, map[translate.Form]string{"v2": "billId", "legacy": "bill_id"}[from], `"B1"`), f.Source, canary)
					for _, to := range table.Forms() {
						_, notice, err := callback.Translate(nil, []byte(doc), from, to)
						checkTexts(t, doc, err, notice.Report, reasons)
					}
				}
			}
		}
	}
	for _, want := range []string{ // otherwise the loops have not reached them
		"has the wrong type: want a whole number in digits, got a number with a fraction", "has the wrong type: want a whole number in digits, got a number with an exponent",
		"has the wrong type: want a whole number in digits, got a negative number", "has the wrong type: want a whole number in digits, got text with a leading zero",
		"has the wrong type: want a single value, got an object", "has the wrong type: want an object, got text", "has the wrong type: want text, got true or false",
		"must be one of the texts TALK, URL", "legacy has no place for it", "has a value without a counterpart in v2",
		"is missing", "must be at least 100", "unusable reply: code has the wrong type: want text, got a number",
	} {
		if !reasons[want] {
			t.Errorf("no message has had the error %q", want)
		}
	}
}

// set sets a field of a JSON document.
func set(t *testing.T, doc, path, value string) string {
	if path == "" {
		return doc
	}
	out, err := sjson.SetRaw(doc, path, value)
	must(t, err)
	return out
}

// checkCanaries translates requests and replies that have each canary in each field.
func checkCanaries(t *testing.T, translation *translate.Translation, fields []translate.Field, client, upstream translate.Form, reasons map[string]bool) {
	request := map[translate.Form]string{"v2": `{"apiKey":"k","bill":{"billId":"B1","sendType":"TALK"}}`, "legacy": `{"apikey":"k","bill_id":"B1","bill":{"bill_id":"B1"}}`}[client]
	if translation.Operation().Name == "bill.create" { // with everything that is required
		request = createRequest
		if client == "v2" {
			out, err := translation.Operation().Translation("legacy", "v2").Start().Request(nil, []byte(createRequest))
			must(t, err)
			request = string(out)
		}
	}
	reply := map[translate.Form]string{"v2": `{"code":"0000","message":"m","data":{"billId":"B1"}}`, "legacy": `{"code":"0000","msg":"m","bill_id":"B1"}`}[upstream]
	for _, canary := range canaries {
		docs := map[string]string{}
		for _, f := range fields {
			switch {
			case f.Message == "request" && f.From == client && f.Source != "":
				path := f.Source
				docs[path] = set(t, request, path, canary)
				for parent, _, deeper := cut(path); deeper; parent, _, deeper = cut(parent) {
					docs[parent] = set(t, request, parent, canary)
				}
			case f.Message == "reply" && f.From == upstream && f.Source != "":
				docs["reply "+f.Source] = set(t, reply, map[translate.Form]string{"v2": "data."}[upstream]+f.Source, canary)
			}
		}
		for _, name := range []string{"code", "message", "msg", "data"} {
			docs["reply "+name] = set(t, reply, name, canary)
		}
		docs["body"], docs["reply body"] = canary, canary
		for field, doc := range docs {
			call, err := translation.Start(), error(nil)
			if strings.HasPrefix(field, "reply ") {
				_, _ = call.Request(nil, []byte(request)) // not every request has what the operation needs
				_, err = call.Reply(nil, 200, []byte(doc))
			} else {
				_, err = call.Request(nil, []byte(doc))
			}
			checkTexts(t, doc, err, call.Report, reasons)
		}
	}
}

// cut splits a path before its last name.
func cut(path string) (parent, name string, ok bool) {
	i := strings.LastIndex(path, ".")
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

// checkTexts checks the texts of an error and a report, and adds the reasons to those that were seen.
func checkTexts(t *testing.T, doc string, err error, r translate.Report, reasons map[string]bool) {
	t.Helper()
	if err != nil {
		if hasValue(err.Error()) {
			t.Errorf("%s\nthe error has its value: %v", doc, err)
		}
		var refusal *translate.Refusal
		if reason := err.Error(); errors.As(err, &refusal) {
			reasons[refusal.Reason.String()] = true
		} else {
			reasons[reason] = true
		}
		return
	}
	equal(t, len(r.Mismatches), len(r.Mismatched), doc)
	for _, m := range r.Mismatches {
		reasons[m.String()] = true
	}
	if text := fmt.Sprint(r.Dropped, r.Defaulted, r.Echoed, r.Mismatched, r.Mismatches); hasValue(text) {
		t.Errorf("%s\nthe report has its value: %s", doc, text)
	}
}

// A name is chosen by the sender: it is escaped and cut, on a character.
func TestNamesInErrorsAreEscapedAndCut(t *testing.T) {
	t.Parallel()
	table := overlaid(t, "unknown: {request: refuse}")
	long, hangul := strings.Repeat("x", 100_000), strings.Repeat("가", 100)
	for name, want := range map[string]string{
		`simple`: "simple", long: strings.Repeat("x", 64) + "…", hangul: strings.Repeat("가", 64) + "…", strings.Repeat("가", 64): strings.Repeat("가", 64),
		`a\u001b[31m\n`: `a\u001b[31m\u000a`, `\u202ename`: `\u202ename`, "\u009b": `\u009b`, `\udb40\udc41`: `\U000e0041`, strings.Repeat("y", 60) + `\u0000`: strings.Repeat("y", 60) + "…",
		`a/b~c`: "a/b~c", "이름": "이름",
	} {
		for kind, doc := range map[string]string{
			"duplicate": `{"` + name + `":1,"` + name + `":2}`, "unknown": `{"apiKey":"k","` + name + `":1}`, "not JSON": `{"` + name + `":x}`,
		} {
			_, err := table.Operation("bill.resend").Translation("v2", "legacy").Start().Request(nil, []byte(doc))
			var refusal *translate.Refusal
			if !errors.As(err, &refusal) || refusal.Field != want {
				t.Errorf("%s %.80q: got %+v, want the field %s", kind, name, refusal, want)
			}
		}
	}
}
