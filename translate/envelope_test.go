package translate_test

import (
	"strings"
	"testing"

	"billbridge/translate"
)

// Of several codes for one, the first is the one that is written.
func TestCodesOf(t *testing.T) {
	t.Parallel()
	own, _ := tableOf(t, "envelopes", `forms: {deep: {codes: {TAKEN: "409"}}}`).Envelope("deep").CodesOf("409")
	equal(t, strings.Join(own, " "), "DUPLICATE TAKEN")
}

// What the gateway answers by itself, and what a receiver of a callback answers, has the envelope of the form.
func TestEnvelopesOfOwnAnswers(t *testing.T) {
	t.Parallel()
	table := tableOf(t, "envelopes")
	for _, row := range []struct{ form, code, want string }{
		{"flat", "404", `{"rc":404,"rt":"x"}`},
		{"deep", "404", `{"status":"ERROR","error":{"code":"NOT_FOUND","message":"x"},"result":null}`},
	} {
		equal(t, string(table.Envelope(translate.Form(row.form)).AppendFailure(nil, row.code, "x")), row.want)
	}
	equal(t, table.Envelope("flat").FailureStatus("404", 503), 503)
	http := compiled(t, strings.Replace(tableText(t, "envelopes-status"), "410: NOT_FOUND, 409: DUPLICATE", "500: VALIDATION", 1))
	equal(t, http.Envelope("deep").FailureStatus("404", 400), 404)
	equal(t, http.Envelope("deep").FailureStatus("404", 503), 503) // many failures of the gateway have one code
	equal(t, http.Envelope("deep").FailureStatus("409", 400), 400)
	equal(t, http.Envelope("deep").FailureStatus("400", 503), 503) // it says that nothing was sent
	c := table.Callback
	for _, row := range []struct {
		form translate.Form
		body string
		want bool
		code string
	}{
		{"flat", `{"rc":0}`, true, "0"},
		{"flat", `{"rc":"0"}`, false, "0"},
		{"flat", `{"rc":900}`, false, "900"},
		{"deep", `{"status":"SUCCESS"}`, true, "SUCCESS"},
		{"deep", `{"status":"ERROR"}`, false, "ERROR"},
		{"deep", `{"status":true}`, false, "true"},
		{"deep", `{}`, false, ""},
	} {
		if code, got := c.Answered(row.form, []byte(row.body)); got != row.want || code != row.code {
			t.Errorf("%s %s: %q, %v", row.form, row.body, code, got)
		}
	}
}
