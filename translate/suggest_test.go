package translate_test

import (
	"strings"
	"testing"

	"billbridge/translate"
)

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	known := []string{"listen", "limits", "timeouts", "callbacks", "apprPayType", "apprCardType", "bill.read", "bill.resend", "v2", "as", "", "VALIDATION_001", "VALIDATION_002", "v2"}
	for name, want := range map[string]string{
		"listne": "listen", "Listen": "listen", "limit": "limits", "time_outs": "timeouts", "callback": "callbacks",
		"apprPayTyp": "apprPayType", "appr_pay_type": "apprPayType", "bill.reads": "bill.read", "bil.resent": "bill.resend", "bill.history": "", "VALIDATION_003": "", "VALIDATION_0001": "VALIDATION_001", "V2": "v2",
		"is": "as", "colour": "", "x": "", "": "", "if": "", "bill.check": "", "listen": "", strings.Repeat("listen", 9): "",
	} {
		if want != "" {
			want = "; did you mean " + want + "?"
		}
		equal(t, translate.DidYouMean(name, known), want, name)
	}
}
