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

// What the gateway answers by itself has the envelope of the form.
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
}
