package translate_test

import (
	"slices"
	"strings"
	"testing"

	"billbridge/translate/billing"
)

// Operators copy the example of code pairs in the table. v2 clients send a call again if it failed with one of the codes below
// (field notes, Replies and statuses), so a final refusal of a legacy backend must not become one of them. 9999 ("anything else")
// must not become any other code of the catalogue either.
func TestExampleOfCodePairsKeepsFinalRefusalsFinal(t *testing.T) {
	t.Parallel()
	retried := []string{"ERROR", "MAINTAINED_METHOD", "PAYMENT_001", "PAYMENT_002", "BILL_006"}
	var example []string
	for line := range strings.Lines(string(billing.Table().Data)) {
		if code, ok := strings.CutPrefix(line, `#     "`); ok {
			example = append(example, `"`+strings.TrimSpace(code))
		}
	}
	table := overlaid(t, "forms: {legacy: {codes: {"+strings.Join(example, ", ")+"}}}")
	for legacy, want := range map[string]string{"9800": "BILL_001", "9980": "9980", "9999": "9999"} {
		if got := table.Code(legacy, "legacy", "v2"); got != want || slices.Contains(retried, got) {
			t.Errorf("%s becomes %s in v2, want %s", legacy, got, want)
		}
	}
	for _, code := range retried {
		equal(t, table.Code(code, "v2", "legacy"), code, "which may be sent again, becomes in legacy")
	}
}
