package sandbox

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	maxMonths     = 12 // on the page, whose template has the numbers
	maxCashNumber = 20 // digits; mobile, business and receipt card numbers are shorter
)

// statusWords are the states of a bill on the page, which adds "expired".
var statusWords = map[string]string{
	stateUnpaid: "open", statePaid: "paid", stateCancelled: "cancelled", stateDestroyed: "destroyed",
}

// A billView is the data of the page of a bill.
type billView struct {
	Bill
	Status string // how the page names the state

	// Of a submitted form:
	Payment          // its options, as far as they are valid
	Submitted bool   // there is one
	Wrong     string // the field that has a mistake, or ""
	Declined  string // the code with which the payment was declined, or ""
}

// billScreen returns the screen of a bill, after the submitted form of v, if it has one.
func (s *Service) billScreen(k billKey, v billView) screen {
	s.view(func(t *tables) {
		v.Bill = *t.Bills.get(k)
		v.Status = statusWords[v.State]
		if v.State == stateUnpaid && expired(v.ExpireDt, t.now) {
			v.Status = "expired"
		}
	})
	if !slices.Contains(methods, v.Method) {
		v.Method = methods[0]
	}
	status := http.StatusOK
	switch {
	case v.Submitted && v.Status != "open":
		v.Wrong, v.Declined, status = "", "", http.StatusConflict
	case v.Wrong != "":
		status = http.StatusUnprocessableEntity
	}
	return screen{status: status, template: "bill", data: v}
}

// payPage shows a bill, or pays it with a submitted form.
func (s *Service) payPage(k billKey, token string, form url.Values) screen {
	if form == nil {
		return s.billScreen(k, billView{})
	}
	b, err := s.PayWith(k.partner, k.id, paymentOf(form))
	refused := new(refusedError)
	switch {
	case err == nil:
		return screen{to: redirectTarget(b.PageRedirectURL, token)}
	case !errors.As(err, &refused):
		return s.failedScreen(err)
	}
	v := billView{Submitted: true, Payment: paymentOf(form), Wrong: refused.option}
	v.CashNumber = bareDigits(form.Get("cash_number"))
	if b.State == stateUnpaid {
		// The status is 200: the form was processed, and the bill records the failed payment.
		v.Declined = b.lastFailure()
	}
	return s.billScreen(k, v)
}

// paymentOf returns the payment that a form describes. A mistake that a Payment cannot have becomes one that is
// refused. Fields that do not apply to the payment method are ignored.
func paymentOf(form url.Values) Payment {
	p := Payment{Method: cmp.Or(form.Get("method"), "none")}
	if isCard(p.Method) {
		months, err := strconv.Atoi(cmp.Or(form.Get("months"), "0"))
		if err != nil || months == 1 || months > maxMonths {
			months = -1
		}
		p.Months = months
		return p
	}
	p.CashReceipt = form.Get("cash_receipt")
	number := bareDigits(form.Get("cash_number"))
	if isDigits(number) && len(number) <= maxCashNumber {
		p.CashNumber = number
	}
	return p
}

// receiptKind returns the kind of the cash receipt of a payment.
func receiptKind(a *Approval) string {
	switch {
	case a.CashClass == cashBusiness:
		return "business"
	case a.CashRequest == selfIssueNumber:
		return "self"
	}
	return "personal"
}

// bareDigits removes the hyphens and spaces of a number.
func bareDigits(typed string) string { return strings.NewReplacer("-", "", " ", "").Replace(typed) }

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
