package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxMonths     = 12 // the maximum on the page
	maxCashNumber = 20 // digits; mobile, business and receipt card numbers are shorter
)

// methodWords are the names of payment methods on the page.
var methodWords = map[string]localized{
	"SIMPLE_PAY":      {"간편결제", "Easy pay"},
	methodCardVAN:     {"카드", "Card"},
	methodKeyIn:       {"카드 번호 입력", "Keyed-in card"},
	methodOfflineCard: {"현장 카드", "Card, on site"},
	"OFFLINE_CASH":    {"현장 현금", "Cash, on site"},
}

// receipts are the kinds of cash receipts on the page.
var receipts = []choice{
	{Value: "", Label: localized{"신청 안 함", "None"}},
	{Value: "personal", Label: localized{"개인", "Personal"}},
	{Value: "business", Label: localized{"사업자", "Business"}},
	{Value: "self", Label: localized{"자진발급", "Self-issued"}},
}

// declinedWords are English texts for declineCodes. The catalogue has the Korean ones.
var declinedWords = map[string]string{
	codeNoNetwork:      "The card network or the cash receipt issuer did not answer, or refused.",
	codeNoMethod:       "The payment method was not found or cannot be used.",
	codeUnreadableCard: "The card number that was entered cannot be decrypted.",
}

// A choice is one option of a form.
type choice struct {
	Value   string
	Label   localized
	Card    bool // the option is a payment method by card
	Checked bool
}

// A billView is the data of the page of a bill.
type billView struct {
	Bill
	Amount      string // in groups of three digits
	Status      localized
	StatusClass string    // open, paid or over
	Open        bool      // the bill can be paid
	Closed      localized // why the bill cannot be paid
	Receipt     []row     // empty unless it was paid
	// The options of the form, as they were last chosen.
	Methods, Months, Receipts []choice
	CashNumber                string

	Refused  bool                 // a payment was refused, for the reason in Closed
	Declined *declinedView        // nil unless a payment was declined
	Wrong    map[string]localized // by field; nil unless the form has mistakes
}

type declinedView struct {
	Code string
	Text localized
}

// A row is a line of a receipt.
type row struct {
	Label localized
	Value localized
}

// billScreen returns the screen of a bill. modify may be nil.
func (s *Service) billScreen(k billKey, modify func(*billView)) screen {
	var v billView
	s.view(func(t *tables) { v = s.viewBill(t.Bills.get(k), t.now) })
	if modify != nil {
		modify(&v)
	}
	status := http.StatusOK
	switch {
	case v.Refused:
		status = http.StatusConflict
	case v.Wrong != nil:
		status = http.StatusUnprocessableEntity
	}
	return screen{status: status, template: "bill", data: v}
}

func (s *Service) viewBill(b *Bill, now time.Time) billView {
	v := billView{Bill: *b, Amount: grouped(b.Price)}
	switch {
	case b.State == statePaid:
		v.Status, v.StatusClass = localized{"결제 완료", "Paid"}, "paid"
		v.Closed = localized{"결제가 완료된 청구서입니다.", "This bill has been paid."}
	case b.State == stateCancelled:
		v.Status, v.StatusClass = localized{"결제 취소", "Cancelled"}, "over"
		v.Closed = localized{"결제가 취소된 청구서입니다.", "The payment of this bill was cancelled."}
	case b.State == stateDestroyed:
		v.Status, v.StatusClass = localized{"파기", "Withdrawn"}, "over"
		v.Closed = localized{"발행처가 파기한 청구서입니다.", "The issuer has withdrawn this bill."}
	case s.expired(b.ExpireDt, now):
		v.Status, v.StatusClass = localized{"기한 만료", "Expired"}, "over"
		v.Closed = localized{"납부 기한이 지나 결제할 수 없습니다.", "The time to pay this bill has passed."}
	default:
		v.Status, v.StatusClass, v.Open = localized{"결제 대기", "Not paid yet"}, "open", true
	}
	if v.Open {
		v.choose(s.opt.PayTypes, Payment{})
	}
	if b.Approval != nil {
		v.Receipt = receipt(b, v.Amount)
	}
	return v
}

// receipt returns the lines of a receipt, for a payment and its cancel.
func receipt(b *Bill, amount string) []row {
	a := b.Approval
	untranslated := func(text string) localized { return localized{KO: text} }
	rows := []row{
		{localized{"승인 번호", "Approval number"}, untranslated(a.Num)},
		{localized{"승인 일시", "Approved (Korea time)"}, untranslated(a.At.In(seoul).Format(time.RFC3339))},
		{localized{"결제 수단", "Paid by"}, methodLabel(a.Method)},
		{localized{"결제 금액", "Amount"}, localized{amount + "원", amount + " won"}},
	}
	if isCard(a.Method) {
		months, _ := strconv.Atoi(a.Months) // set by approve: two digits
		rows = append(rows,
			row{localized{"카드사", "Issuer"}, untranslated(a.Issuer)},
			row{localized{"카드 번호", "Card number"}, untranslated(a.IssuerNum)},
			row{localized{"할부", "Installments"}, monthsLabel(months)})
	}
	if a.CashNum != "" {
		kind := "personal"
		switch {
		case a.CashClass == cashBusiness:
			kind = "business"
		case a.CashRequest == selfIssueNumber:
			kind = "self"
		}
		at := slices.IndexFunc(receipts, func(c choice) bool { return c.Value == kind })
		rows = append(rows,
			row{localized{"현금영수증", "Cash receipt"}, receipts[at].Label},
			row{localized{"현금영수증 번호", "Cash receipt number"}, untranslated(a.CashNum)})
	}
	if b.Cancel != nil {
		rows = append(rows,
			row{localized{"취소 승인 번호", "Cancel number"}, untranslated(b.Cancel.Num)},
			row{localized{"취소 일시", "Cancelled (Korea time)"}, untranslated(b.Cancel.At.In(seoul).Format(time.RFC3339))})
	}
	return rows
}

// choose sets the options of the form, with those of p checked.
func (v *billView) choose(payTypes map[string]int, p Payment) {
	v.Methods, v.Months, v.Receipts, v.CashNumber = nil, nil, slices.Clone(receipts), p.CashNumber
	for method := range payTypes {
		v.Methods = append(v.Methods, choice{Value: method, Label: methodLabel(method), Card: isCard(method), Checked: method == p.Method})
	}
	slices.SortFunc(v.Methods, func(a, b choice) int {
		return cmp.Or(cmp.Compare(payTypes[a.Value], payTypes[b.Value]), cmp.Compare(a.Value, b.Value))
	})
	if len(v.Methods) > 0 && !slices.ContainsFunc(v.Methods, func(c choice) bool { return c.Checked }) {
		v.Methods[0].Checked = true
	}
	for months := range maxMonths + 1 {
		if months != 1 {
			v.Months = append(v.Months, choice{Value: strconv.Itoa(months), Label: monthsLabel(months), Checked: months == p.Months})
		}
	}
	for i := range v.Receipts {
		v.Receipts[i].Checked = v.Receipts[i].Value == p.CashReceipt
	}
}

// takePayment pays a bill with a submitted form.
func (s *Service) takePayment(k billKey, token string, form url.Values) screen {
	p, mistakes := s.paymentOf(form)
	showAgain := func(modify func(*billView)) screen {
		return s.billScreen(k, func(v *billView) {
			if v.Refused = !v.Open; v.Open {
				v.choose(s.opt.PayTypes, p)
				modify(v)
			}
		})
	}
	if mistakes != nil {
		return showAgain(func(v *billView) { v.Wrong = mistakes })
	}
	b, err := s.pay(k.partner, k.id, p)
	switch {
	case err == nil:
		return screen{to: redirectTarget(b.PageRedirectURL, token)}
	case b.State == stateUnpaid: // declined
		// The status is 200: the form was processed, and the bill records the failed payment.
		return showAgain(func(v *billView) {
			code := b.lastFailure()
			v.Declined = &declinedView{code, localized{messageOf(code), declinedWords[code]}}
		})
	case errors.Is(err, errNotPayable):
		return showAgain(func(*billView) {})
	}
	return s.failedScreen(err)
}

// paymentOf parses the form of the page, and returns mistakes by field. It ignores fields that do not apply to the
// payment method.
func (s *Service) paymentOf(form url.Values) (p Payment, mistakes map[string]localized) {
	chooseAgain := localized{"다시 선택해 주세요.", "Please choose again."}
	p.Method = form.Get("method")
	if _, ok := s.opt.PayTypes[p.Method]; !ok {
		return p, map[string]localized{"method": chooseAgain}
	}
	if isCard(p.Method) {
		months, err := strconv.Atoi(cmp.Or(form.Get("months"), "0"))
		if err != nil || months < 0 || months == 1 || months > maxMonths {
			return p, map[string]localized{"months": chooseAgain}
		}
		p.Months = months
		return p, nil
	}
	p.CashReceipt = form.Get("cash_receipt")
	switch p.CashReceipt {
	case "", "self":
		return p, nil
	case "personal", "business":
	default:
		return p, map[string]localized{"cash_receipt": chooseAgain}
	}
	p.CashNumber = bareDigits(form.Get("cash_number"))
	if !isDigits(p.CashNumber) || len(p.CashNumber) > maxCashNumber {
		return p, map[string]localized{"cash_number": {
			"현금영수증 번호를 숫자로 입력해 주세요.", "Please enter the number for the cash receipt, in digits.",
		}}
	}
	return p, nil
}

// isCard reports whether a method has installments. The others have cash receipts.
func isCard(method string) bool {
	return method == methodCardVAN || method == methodKeyIn || method == methodOfflineCard
}

func methodLabel(method string) localized {
	if w, ok := methodWords[method]; ok {
		return w
	}
	return localized{KO: method}
}

func monthsLabel(months int) localized {
	if months == 0 {
		return localized{"일시불", "Pay in full"}
	}
	return localized{fmt.Sprintf("%d개월", months), fmt.Sprintf("%d months", months)}
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
