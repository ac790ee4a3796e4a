package translate_test

import (
	"testing"

	"billbridge/translate"
)

// Rows have the text and the example that fields has for their name.
func TestFieldsDescribeRows(t *testing.T) {
	t.Parallel()
	table := overlaid(t, "fields: {price: [amount to charge, 500], tax: [tax amount, 7]}\n"+
		"operations: {bill.create: {request: {bill.tax: {lost: drop}}}}")
	for form, want := range map[translate.Form]string{"v2": `"price":500`, "legacy": `"price":"500"`} {
		example := table.Operation("bill.create").Schema(translate.Request, form).Example
		has(t, string(example), want, form, example)
	}
	for _, f := range table.Operation("bill.create").Fields() {
		want := map[string]string{"bill.price": "amount to charge", "bill.tax": "tax amount"}[f.Source]
		if want != "" && f.About != want {
			t.Errorf("%s is about %q, want %q", f.Source, f.About, want)
		}
	}
}

// A callback is never refused: with another constant it passes as it came.
func TestFieldsOfCallbackWithConstant(t *testing.T) {
	t.Parallel()
	for _, f := range tableOf(t, "values").Callback.Fields() {
		if f.Source == "event" && (f.Refused != "" || f.Detail.String() != `left out if it is "moved", else the callback passes unchanged`) {
			t.Errorf("%+v", f)
		}
	}
}
