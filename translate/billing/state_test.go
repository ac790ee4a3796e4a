package billing_test

import (
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// The state of a callback is read by the words of its form: that of a bill's end must not be one by its spelling alone.
func TestStateOfACallbackIsReadInItsForm(t *testing.T) {
	t.Parallel()
	overlay := translate.File{Name: "overlay.yaml", Data: []byte("operations: {bill.read: {reply: {apprState: " +
		"{values: [{v2: F, legacy: PAID}, {v2: W, legacy: W}, {v2: C, legacy: C}, {v2: D, legacy: D}]}}}}")}
	table, err := translate.Compile(32, billing.Table(), overlay)
	if err != nil {
		t.Fatal(err)
	}
	read, err := billing.ReadOperation(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		form translate.Form
		path string
		word string
		want billing.Reported
	}{
		{"legacy", "appr_state", "PAID", billing.Reported{Word: "PAID", Means: "paid"}},
		{"legacy", "appr_state", "F", billing.Reported{Unknown: true}},
		{"v2", "apprState", "F", billing.Reported{Word: "F", Means: "paid"}},
		{"v2", "apprState", "PAID", billing.Reported{Unknown: true}},
	} {
		body := `{"apiKey":"k","billId":"b","apprState":"` + row.word + `"}`
		if row.form == "legacy" {
			body = `{"apikey":"k","bill_id":"b","appr_state":"` + row.word + `"}`
		}
		if got := billing.StateIn(table.Callback.Explain([]byte(body), row.form, row.form), read, row.form); got != row.want {
			t.Errorf("%s of %s: %+v", row.word, row.form, got)
		}
	}
}
