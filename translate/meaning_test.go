package translate_test

import (
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

func TestMeans(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		overlay string
		form    translate.Form
		code    string
		means   translate.Meaning
		not     translate.Meaning
	}{
		"of the catalogue":                      {"", "v2", "BILL_003", translate.NotFound, translate.Refused},
		"of the catalogue, in the other form":   {"", "legacy", "BILL_003", translate.NotFound, translate.Refused},
		"of one form":                           {"", "legacy", "9980", translate.NotFound, translate.Exists},
		"of one form, in the other":             {"", "v2", "9980", "", translate.NotFound},
		"unknown":                               {"", "v2", "BILL_099", "", translate.NotFound},
		"none":                                  {"", "legacy", "", "", translate.NotFound},
		"by a pair":                             {`codes: [{v2: BILL_001, legacy: "9800"}]`, "legacy", "9800", translate.Exists, translate.NotFound},
		"a pair is for its form only":           {`codes: [{v2: BILL_001, legacy: "9800"}]`, "v2", "9800", "", translate.Exists},
		"added to a form":                       {`catalogue: [{code: "9800", form: legacy, means: exists}]`, "legacy", "9800", translate.Exists, translate.NotFound},
		"added to the meaning in the catalogue": {`catalogue: [{code: PARTNER_003, form: legacy, means: not_found}]`, "legacy", "PARTNER_003", translate.NotFound, translate.Refused},
		"keeps the meaning in the catalogue":    {`catalogue: [{code: PARTNER_003, form: legacy, means: not_found}]`, "legacy", "PARTNER_003", translate.CallerRefused, translate.Refused},
		"added to one form, used in the other":  {`catalogue: [{code: PARTNER_003, form: legacy, means: not_found}]`, "v2", "PARTNER_003", translate.CallerRefused, translate.NotFound},
		"removed":                               {`catalogue: [{code: "9980", form: legacy}]`, "legacy", "9980", "", translate.NotFound},
		"a code that an overlay repeats stays":  {`catalogue: [BILL_003]`, "legacy", "BILL_003", translate.NotFound, translate.Refused},
		"new in the catalogue":                  {`catalogue: [{code: BILL_011, means: refused}]`, "legacy", "BILL_011", translate.Refused, translate.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := overlaid(t, row.overlay)
			if row.means != "" && !table.Means(row.form, row.code, translate.Malformed, row.means) {
				t.Errorf("%s of %s does not mean %s", row.code, row.form, row.means)
			}
			if table.Means(row.form, row.code, row.not) {
				t.Errorf("%s of %s means %s", row.code, row.form, row.not)
			}
		})
	}
}

func TestStateAfterADestroyAndACancel(t *testing.T) {
	t.Parallel()
	for operation, want := range map[string][2]string{
		"bill.destroy": {"D", "destroyed"}, "bill.cancel": {"C", "cancelled"}, "bill.create": {}, "bill.resend": {}, "bill.read": {},
	} {
		if value, means := shipped().Operation(operation).Sets(billing.State); value != want[0] || means != want[1] {
			t.Errorf("%s sets %q, which means %q", operation, value, means)
		}
	}
}
