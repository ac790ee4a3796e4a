package translate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"billbridge/translate"
)

// envelopes is a table whose two forms differ in their envelopes.
const envelopes = `
forms:
  flat:  {code: rc, text: rt, codes: number, other_code: 900, digits: string}
  deep:  {code: error.code, text: error.message, result: result, flag: {name: status, success: SUCCESS, failure: ERROR}, digits: number}
success: {code: {flat: 0}, text: fine}
invalid: "400"
roles: {key: {}}
catalogue: ["0", "400", {code: "404", means: not_found}, {code: "409", means: exists}, {code: GONE, form: deep}]
codes:
  - {flat: 404, deep: NOT_FOUND}
  - {flat: 409, deep: DUPLICATE}
  - {flat: 400, deep: VALIDATION}
operations:
  get:
    flat: /flat/get
    deep: /deep/get
    effect: read
    request: [{flat: id, deep: id, role: key}]
    reply: [{flat: id, deep: id}, {flat: n, deep: n, as: digits, optional: true}]
callbacks:
  done:
    method: POST
    identified_by: [key]
    request: [{flat: id, deep: id, role: key}]
    answer: {flat: '{"rc":0}', deep: '{"status":"SUCCESS"}'}
`

// withForm returns the table of envelopes with another form.
func withForm(line string) string {
	name, _, _ := strings.Cut(line, ":")
	var lines []string
	for _, l := range strings.Split(envelopes, "\n") {
		if strings.HasPrefix(l, "  "+name+": ") && strings.Contains(l, "code") {
			l = "  " + line
		}
		lines = append(lines, l)
	}
	return strings.Join(lines, "\n")
}

// Codes that are numbers, flags, objects around the code and statuses are translated in both directions.
func TestEnvelopes(t *testing.T) {
	t.Parallel()
	const (
		deep = `deep: {code: error.code, text: error.message, result: result, flag: {name: status, success: SUCCESS, failure: ERROR}, digits: number}`
		bare = `deep: {code: error.code, text: error.message, result: result, flag: ok, unused: omit, digits: number}`
		mix  = `deep: {code: error.code, text: message, flag: ok, digits: number}`
		many = `deep: {code: code, text: message, result: result, digits: number, status: {404: NOT_FOUND, 409: [DUPLICATE, VALIDATION]}}`
		http = `deep: {code: code, text: message, result: result, digits: number, status: {200: OK, 404: NOT_FOUND, 410: NOT_FOUND, 409: DUPLICATE}}`
	)
	for _, row := range []struct {
		form, from string
		status     int
		in, out    string // out begins with the status; it is the reason if there is no reply
	}{
		{deep, "flat", 200, `{"rc":0,"rt":"ok","id":"1","n":"7"}`, `200 {"status":"SUCCESS","error":null,"result":{"id":"1","n":7}}`},
		{deep, "flat", 200, `{"rc":404,"rt":"no","id":"1"}`, `200 {"status":"ERROR","error":{"code":"NOT_FOUND","message":"no"},"result":null}`},
		{deep, "flat", 500, `{"rc":777,"rt":"odd"}`, `500 {"status":"ERROR","error":{"code":"777","message":"odd"},"result":null}`},
		{deep, "flat", 200, `{"rc":-1,"rt":"odd"}`, `200 {"status":"ERROR","error":{"code":"-1","message":"odd"},"result":null}`},
		{deep, "flat", 200, `{"rc":"0","rt":"ok"}`, `rc has the wrong type: want a whole number, got text`},
		{deep, "flat", 200, `{"rc":0.5,"rt":"ok"}`, `rc has the wrong type: want a whole number, got a number`},
		{deep, "flat", 200, `{"rc":null,"rt":"ok"}`, `rc has the wrong type: want a whole number, got null`},
		{deep, "flat", 200, `{"rt":"ok"}`, `rc is missing`},
		{deep, "deep", 200, `{"status":"SUCCESS","result":{"id":"1","n":7},"error":null}`, `200 {"rc":0,"rt":"fine","id":"1","n":"7"}`},
		{deep, "deep", 200, `{"status":"ERROR","result":null,"error":{"code":"DUPLICATE","message":"twice"}}`, `200 {"rc":409,"rt":"twice"}`},
		{deep, "deep", 200, `{"status":"ERROR","result":null,"error":{"code":"UNHEARD_OF","message":"x"}}`, `200 {"rc":900,"rt":"x"}`},
		{deep, "deep", 200, `{"status":"ERROR","result":null,"error":{"code":"777","message":"x"}}`, `200 {"rc":900,"rt":"x"}`},
		{deep, "deep", 200, `{"status":"ERROR","result":null,"error":null}`, `error.code is missing`},
		{deep, "deep", 200, `{"status":"ERROR","error":{"code":5}}`, `error.code has the wrong type: want text, got a number`},
		{deep, "deep", 200, `{"status":"ERROR","error":{"code":"0"}}`, `status and error.code contradict each other`},
		{deep, "deep", 200, `{"status":"SUCCESS","error":{"code":"DUPLICATE"},"result":{"id":"1"}}`, `status and error.code contradict each other`},
		{deep, "deep", 200, `{"status":"OK","result":{"id":"1"}}`, `status is neither "SUCCESS" nor "ERROR"`},
		{deep, "deep", 200, `{"result":{"id":"1"}}`, `error.code is missing`},
		{deep, "deep", 200, `{"error":{"code":"NOT_FOUND","message":"x"}}`, `status is neither "SUCCESS" nor "ERROR"`},
		{bare, "flat", 200, `{"rc":0,"rt":"ok","id":"1"}`, `200 {"ok":true,"result":{"id":"1"}}`},
		{bare, "flat", 200, `{"rc":404,"rt":"no"}`, `200 {"ok":false,"error":{"code":"NOT_FOUND","message":"no"}}`},
		{bare, "deep", 200, `{"ok":true,"result":{"id":"1"}}`, `200 {"rc":0,"rt":"fine","id":"1"}`},
		{bare, "deep", 200, `{"ok":"true","result":{"id":"1"}}`, `ok is neither true nor false`},
		{mix, "flat", 200, `{"rc":0,"rt":"ok","id":"1"}`, `200 {"ok":true,"message":"ok","error":null,"id":"1"}`},
		{mix, "flat", 200, `{"rc":404,"rt":"no"}`, `200 {"ok":false,"message":"no","error":{"code":"NOT_FOUND"}}`},
		{mix, "deep", 200, `{"ok":false,"message":"no","error":{"code":"NOT_FOUND"}}`, `200 {"rc":404,"rt":"no"}`},
		{http, "flat", 200, `{"rc":0,"rt":"ok","id":"1"}`, `200 {"code":"OK","message":"ok","result":{"id":"1"}}`},
		{http, "flat", 200, `{"rc":404,"rt":"no"}`, `404 {"code":"NOT_FOUND","message":"no","result":null}`},
		{http, "flat", 200, `{"rc":400,"rt":"no"}`, `200 {"code":"VALIDATION","message":"no","result":null}`},
		{http, "deep", 404, `{"message":"no"}`, `200 {"rc":404,"rt":"no"}`},
		{http, "deep", 410, `{"code":null,"message":"no"}`, `200 {"rc":404,"rt":"no"}`},
		{http, "deep", 404, `{"code":"DUPLICATE","message":"no"}`, `200 {"rc":409,"rt":"no"}`},
		{http, "deep", 200, `{"message":"ok","result":{"id":"1"}}`, `200 {"rc":0,"rt":"ok","id":"1"}`},
		{http, "deep", 500, `{"message":"no"}`, `code is missing`},
		// A list gives several codes their status, and says nothing about a reply without a code.
		{many, "flat", 200, `{"rc":409,"rt":"no"}`, `409 {"code":"DUPLICATE","message":"no","result":null}`},
		{many, "flat", 200, `{"rc":400,"rt":"no"}`, `409 {"code":"VALIDATION","message":"no","result":null}`},
		{many, "deep", 409, `{"code":"VALIDATION","message":"no"}`, `200 {"rc":400,"rt":"no"}`},
		{many, "deep", 409, `{"message":"no"}`, `code is missing`},
		// What leaves the outcome open still does.
		{http, "deep", 500, `{"code":"DUPLICATE","message":"no"}`, `500 {"rc":409,"rt":"no"}`},
		{http, "deep", 502, `{"code":"OK","message":"ok","result":{"id":"1"}}`, `502 {"rc":0,"rt":"ok","id":"1"}`},
		{http, "deep", 409, `{"code":"BUSY","message":"no"}`, `409 {"rc":900,"rt":"no"}`},
		{http, "deep", 429, `{"code":"BUSY","message":"no"}`, `429 {"rc":900,"rt":"no"}`},
		{http, "flat", 500, `{"rc":404,"rt":"no"}`, `500 {"code":"NOT_FOUND","message":"no","result":null}`},
		{http, "flat", 503, `{"rc":0,"rt":"ok","id":"1"}`, `503 {"code":"OK","message":"ok","result":{"id":"1"}}`},
		{http, "flat", 404, `{"rc":0,"rt":"ok","id":"1"}`, `404 {"code":"OK","message":"ok","result":{"id":"1"}}`},
	} {
		text := withForm(row.form)
		if row.form == http || row.form == many {
			text = strings.Replace(text, "{flat: 0}", "{flat: 0, deep: OK}", 1)
			text = strings.Replace(text, `deep: '{"status":"SUCCESS"}'`, `deep: '{"code":"OK"}'`, 1)
		} else if row.form != deep {
			text = strings.Replace(text, `{"status":"SUCCESS"}`, `{"ok":true}`, 1)
		}
		from := translate.Form(row.from)
		to := map[translate.Form]translate.Form{"flat": "deep", "deep": "flat"}[from]
		translation := compiled(t, text).Operation("get").Translation(to, from)
		call := translation.Start()
		_, err := call.Request(nil, []byte(`{"id":"1"}`))
		must(t, err)
		reply, err := call.Reply(nil, row.status, []byte(row.in))
		got := fmt.Sprintf("%d %s", call.Status(), reply)
		if err != nil {
			got = strings.TrimPrefix(err.Error(), "unusable reply: ")
		}
		if got != row.out {
			t.Errorf("%d %s\nbecame %s\nwant   %s", row.status, row.in, got, row.out)
		}
		checkExplained(t, translation.ExplainReply([]byte(`{"id":"1"}`), row.status, []byte(row.in)), reply, err)
		if same := compiled(t, text).Operation("get").Translation(from, from).Start(); err == nil {
			_, err := same.Request(nil, []byte(`{"id":"1"}`))
			must(t, err)
			if out, err := same.Reply(nil, row.status, []byte(row.in)); err != nil || string(out) != row.in || same.Status() != row.status || same.Succeeded() != call.Succeeded() {
				t.Errorf("%s between equal forms: %s %v %d", row.in, out, err, same.Status())
			}
		}
	}
}

// A code that the other form does not have is written as other_code, and reported.
func TestOtherCodeIsReported(t *testing.T) {
	t.Parallel()
	table := compiled(t, envelopes)
	for code, want := range map[string]string{"UNHEARD_OF": "error.code", "DUPLICATE": ""} {
		translation := table.Operation("get").Translation("flat", "deep")
		call := translation.Start()
		_, err := call.Request(nil, []byte(`{"id":"1"}`))
		must(t, err)
		_, err = call.Reply(nil, 409, []byte(`{"status":"ERROR","result":null,"error":{"code":"`+code+`","message":"x"}}`))
		must(t, err)
		equal(t, strings.Join(call.Report.Mismatched, " "), want)
		_, reply := translation.ReportPaths()
		if !slices.Contains(reply.Mismatched, "error.code") {
			t.Errorf("no series for error.code: %v", reply.Mismatched)
		}
	}
	for status, want := range map[string]int{"400": 409, "200": 409, "503": 503} { // only if the outcome stays open
		of := compiled(t, strings.NewReplacer("catalogue: [", "catalogue: ['900', ", "other_code: 900,", "other_code: 900, status: {"+status+": '900'},", "codes:\n", "codes:\n  - {flat: 900, deep: OTHER}\n").Replace(envelopes))
		call := of.Operation("get").Translation("flat", "deep").Start()
		_, err := call.Request(nil, []byte(`{"id":"1"}`))
		must(t, err)
		_, err = call.Reply(nil, 409, []byte(`{"status":"ERROR","result":null,"error":{"code":"UNHEARD_OF","message":"x"}}`))
		must(t, err)
		equal(t, call.Status(), want)
	}
	split := compiled(t, strings.Replace(envelopes, "codes:\n", "codes:\n  - {flat: 409, deep: TAKEN, prefer: true}\n", 1))
	own, _ := split.CodesOf("409", "deep")
	equal(t, strings.Join(own, " "), "TAKEN DUPLICATE")
}

// What the gateway answers by itself, and what a receiver of a callback answers, has the envelope of the form.
func TestEnvelopesOfOwnAnswers(t *testing.T) {
	t.Parallel()
	table := compiled(t, envelopes)
	for _, row := range []struct{ form, code, want string }{
		{"flat", "404", `{"rc":404,"rt":"x"}`},
		{"deep", "404", `{"status":"ERROR","error":{"code":"NOT_FOUND","message":"x"},"result":null}`},
	} {
		equal(t, string(table.AppendFailure(nil, translate.Form(row.form), row.code, "x")), row.want)
	}
	equal(t, table.FailureStatus("flat", "404", 503), 503)
	http := compiled(t, strings.Replace(strings.Replace(withForm(`deep: {code: code, text: message, digits: number, status: {404: NOT_FOUND, 500: VALIDATION}}`), `'{"status":"SUCCESS"}'`, `'{"code":"0"}'`, 1), "{flat: 0}", "0", 1))
	equal(t, http.FailureStatus("deep", "404", 400), 404)
	equal(t, http.FailureStatus("deep", "404", 503), 503) // many failures of the gateway have one code
	equal(t, http.FailureStatus("deep", "409", 400), 400)
	equal(t, http.FailureStatus("deep", "400", 503), 503) // it says that nothing was sent
	c := table.Callback()
	for _, row := range []struct {
		form   translate.Form
		status int
		body   string
		want   bool
		code   string
	}{
		{"flat", 200, `{"rc":0}`, true, "0"},
		{"flat", 200, `{"rc":"0"}`, false, "0"},
		{"flat", 200, `{"rc":900}`, false, "900"},
		{"flat", 500, `{"rc":0}`, false, "0"},
		{"deep", 201, `{"status":"SUCCESS"}`, true, "SUCCESS"},
		{"deep", 200, `{"status":"ERROR"}`, false, "ERROR"},
		{"deep", 200, `{"status":true}`, false, "true"},
		{"deep", 200, `{}`, false, ""},
	} {
		if got := c.Succeeded(row.form, row.status, []byte(row.body)); got != row.want || c.AnsweredCode(row.form, []byte(row.body)) != row.code {
			t.Errorf("%s %d %s: %v", row.form, row.status, row.body, got)
		}
	}
	equal(t, fmt.Sprint(table.CheckSuccess("deep", "OK")), "deep reports a success by status, and has no code of a success")
	normal, err := table.NormaliseSuccess("flat", "1", []byte(`{"rc":1,"rt":"ok"}`))
	if err != nil || string(normal) != `{"rc":0,"rt":"ok"}` {
		t.Errorf("%s %v", normal, err)
	}
}

// A flag that says failure is no success without an envelope.
func TestFlagOfAFailureWithoutAnEnvelope(t *testing.T) {
	t.Parallel()
	text := strings.Replace(withForm(`deep: {code: error.code, text: error.message, flag: ok, digits: number}`), `{"status":"SUCCESS"}`, `{"ok":true}`, 1)
	text = strings.Replace(text, "effect: read", "effect: read\n    no_envelope: deep", 1)
	text = strings.Replace(text, "reply: [{flat: id, deep: id}", "reply: [{flat: id, deep: id, must_equal_request: id}", 1)
	translation := compiled(t, text).Operation("get").Translation("flat", "deep")
	for reply, want := range map[string]string{
		`{"id":"1"}`:             `{"rc":0,"rt":"fine","id":"1"}`,
		`{"ok":true,"id":"1"}`:   `{"rc":0,"rt":"fine","id":"1"}`,
		`{"ok":false,"id":"1"}`:  ``,
		`{"ok":null,"id":"1"}`:   ``,
		`{"ok":"true","id":"1"}`: ``,
	} {
		call := translation.Start()
		_, err := call.Request(nil, []byte(`{"id":"1"}`))
		must(t, err)
		if got, err := call.Reply(nil, 200, []byte(reply)); string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s became %s, %v", reply, got, err)
		}
	}
}

// A table whose envelopes contradict themselves is refused.
func TestBadEnvelopes(t *testing.T) {
	t.Parallel()
	for form, want := range map[string]string{
		`deep: {code: error.code, text: error.message, result: result, digits: number}`:                   `form "deep": a code in an object needs flag: a success has no such object`,
		`deep: {code: error.code, text: other.message, flag: ok, digits: number}`:                         `form "deep": code and text can be in one object at the top level, as in error.code and error.message`,
		`deep: {code: a.b.code, text: message, flag: ok, digits: number}`:                                 `form "deep": code and text can be in one object at the top level, as in error.code and error.message`,
		`deep: {code: ok, text: message, flag: ok, digits: number}`:                                       `form "deep": code, text, result and flag must have different names`,
		`deep: {code: code, text: message, flag: {name: ok, success: "Y", failure: "Y"}, digits: number}`: `flag: success and failure must have different values`,
		`deep: {code: code, text: message, flag: {success: "Y"}, digits: number}`:                         `name is missing in a flag`,
		`deep: {code: code, text: message, codes: number, digits: number}`:                                `codes: number needs other_code: the number for a code that this form does not have`,
		`deep: {code: code, text: message, codes: number, other_code: 9, digits: number}`:                 `codes: number: the code "NOT_FOUND" of deep is no whole number`,
		`deep: {code: code, text: message, digits: number, status: {404: NOT_THERE}}`:                     `status: the form has no code "NOT_THERE": add it to the catalogue or to a pair`,
		`deep: {code: code, text: message, digits: number, status: {40: NOT_FOUND}}`:                      `status: an HTTP status is a number from 200 to 599, but this is "40"`,
		`deep: {code: code, text: message, digits: number, other_code: "0"}`:                              `other_code cannot be the code of a success`,
		`flat: {code: rc, text: id, codes: number, other_code: 900, digits: string}`:                      `id: the envelope of flat has a field of this name`,
	} {
		text := withForm(form)
		if strings.Contains(form, "other_code: \"0\"") {
			text = strings.Replace(text, "{flat: 0}", "0", 1)
		}
		text = strings.Replace(strings.Replace(text, `deep: '{"status":"SUCCESS"}'`, `deep: '{"code":"0","ok":true}'`, 1), "{flat: 0}", "{flat: 0, deep: \"0\"}", 1)
		_, err := translate.Compile(32, translate.File{Name: "t", Data: []byte(text)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", form, err, want)
		}
	}
	_, err := translate.Compile(32, translate.File{Name: "t", Data: []byte(strings.Replace(envelopes, "{flat: 404, deep: NOT_FOUND}", "{flat: 0, deep: NOT_FOUND}", 1))})
	if err == nil || !strings.Contains(err.Error(), `codes: "0" is the code of a success and cannot have a pair`) {
		t.Error(err)
	}
	_, err = translate.Compile(32, translate.File{Name: "t", Data: []byte(strings.Replace(envelopes, ", text: fine", "", 1))})
	if err == nil || !strings.Contains(err.Error(), "success: the text is missing: a success of deep has none, and flat needs one") {
		t.Error(err)
	}
}
