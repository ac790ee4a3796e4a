package sandbox

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// statusWords are the states of a bill on the page, which adds "expired".
var statusWords = map[string]string{
	stateUnpaid: "open", statePaid: "paid", stateCancelled: "cancelled", stateDestroyed: "destroyed",
}

// A billView is the data of the page of a bill.
type billView struct {
	Bill
	Status string // how the page names the state
	Method string // the payment method that is chosen

	// Of a submitted form:
	Submitted bool   // there is one
	Declined  string // the code with which the payment was declined, or ""
}

// payPage shows a bill, or pays it with a submitted form, which has the payment method.
func (s *Service) payPage(k billKey, token string, form url.Values) screen {
	v, status := billView{Method: methods[0], Submitted: form != nil}, http.StatusOK
	if v.Submitted {
		v.Method = cmp.Or(form.Get("method"), "none")
		b, err := s.PayWith(k.partner, k.id, Payment{Method: v.Method})
		refused := new(refusedError)
		switch {
		case err == nil:
			return screen{to: redirectTarget(b.PageRedirectURL, token)}
		case !errors.As(err, &refused):
			return s.opt.failedScreen(err)
		case refused.status == http.StatusBadRequest: // no such method
			return notice(http.StatusBadRequest, "")
		case b.State == stateUnpaid:
			// The status is 200: the form was processed, and the bill records the failed payment.
			v.Declined = b.lastFailure()
		}
	}
	s.view(func(t *tables) {
		v.Bill = *t.Bills.get(k)
		v.Status = statusWords[v.State]
		if v.State == stateUnpaid && expired(v.ExpireDt, t.now) {
			v.Status = "expired"
		}
	})
	if v.Submitted && v.Status != "open" {
		v.Declined, status = "", http.StatusConflict
	}
	return screen{status: status, template: "bill", data: v}
}

// grouped formats an amount of any length in groups of three digits.
func grouped(amount string) string {
	digits := cmp.Or(trimZeros(amount), "0")
	var b strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return b.String()
}
