package translate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"billbridge/translate"
)

// translateCallback translates a callback by the billing table.
func translateCallback(doc string, from, to translate.Form) (string, translate.Notice, error) {
	out, notice, err := shipped().Callback.Translate(nil, []byte(doc), from, to)
	return string(out), notice, err
}

// The answers are those of the field notes (Callbacks), byte for byte. A partner acknowledges a callback with the code.
func TestCallbackAnswers(t *testing.T) {
	t.Parallel()
	c := shipped().Callback
	for form, want := range map[translate.Form]string{"legacy": `{"code":"0000","msg":"성공하였습니다."}`, "v2": `{"code":"0000"}`} {
		got := c.Answer(form)
		if _, ok := c.Answered(form, got); string(got) != want || !ok {
			t.Errorf("%s: %s", form, got)
		}
		got[2] = 'x'
		equal(t, string(c.Answer(form)), want, form)
	}
	for _, form := range forms {
		for body, want := range map[string]bool{
			`{"code":"0000"}`: true,
			` { "msg" : "ok" , "code" : "0000" } ` + "\n": true,
			`{"code":"0\u003000","data":{"code":"9999"}}`: true,
			`{"c\u006fde":"0000"}`:                        true,
			`{"code":"0001"}`:                             false,
			`{"code":"00000"}`:                            false,
			`{"code":" 0000"}`:                            false,
			`{"code":0}`:                                  false,
			`{"code":0000}`:                               false,
			`{"code":null}`:                               false,
			`{"code":["0000"]}`:                           false,
			`{"Code":"0000"}`:                             false,
			`{"data":{"code":"0000"}}`:                    false,
			`{"code":"9999","code":"0000"}`:               false,
			`{"code":"0000","c\u006fde":"0000"}`:          false,
			`{"code":"0000","x":{"y":1,"y":1}}`:           false,
			`{"code":"0000","msg":"` + "\xff" + `"}`:      false,
			`{"code":"0000"`:                              false,
			`{"code":"0000"}}`:                            false,
			`[{"code":"0000"}]`:                           false,
			`"0000"`:                                      false,
			`0000`:                                        false,
			``:                                            false,
			`{}`:                                          false,
			`<html>0000</html>`:                           false,
			`{"code":"0000","x":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`: false,
		} {
			_, got := c.Answered(form, []byte(body))
			equal(t, got, want, form, body)
		}
	}
}

// A callback that is not JSON passes byte for byte, and is reported as unrecognised.
func TestR02_CallbacksThatAreNotJSONPassUnchanged(t *testing.T) {
	t.Parallel()
	for _, file := range corpus(t, "n_") {
		for _, pair := range [][2]translate.Form{{"v2", "legacy"}, {"legacy", "v2"}, {"v2", "v2"}} {
			out, notice, err := translateCallback(string(file.data), pair[0], pair[1])
			if err != nil {
				// Deep nesting is refused without reading. Invalid UTF-8 in well-formed JSON is refused too.
				if out != "" || !strings.Contains(err.Error(), "deeper") && json.Valid(file.data) == false {
					t.Errorf("%s: %q, %v", file.name, out, err)
				}
				continue
			}
			if out != string(file.data) || notice.Recognised != translate.Unrecognised || notice.Values["partner"] != nil || notice.Values["bill"] != nil {
				t.Errorf("%s: %q, %v", file.name, out, notice)
			}
		}
	}
}

// A Notice does not refer to the body, which may be modified afterwards.
func TestNoticeIsACopy(t *testing.T) {
	t.Parallel()
	doc := []byte(`{"apikey":"demo-key","bill_id":"A1","more":1,"apiKey":"other-key"}`)
	_, notice, err := shipped().Callback.Translate(nil, doc, "legacy", "v2")
	must(t, err)
	copy(doc, bytes.Repeat([]byte{'#'}, len(doc)))
	equal(t, fmt.Sprint(notice.Values["partner"], notice.Values["bill"], notice.Report.UnknownNames),
		"[demo-key other-key] [A1] [more apiKey]")
}
