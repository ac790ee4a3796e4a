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
	maxMonths     = 12 // that the page offers
	maxCashNumber = 20 // digits; no mobile, business or receipt card number has more
)

// methodWords are the payment methods that customers have words for.
var methodWords = map[string]localized{
	"SIMPLE_PAY":      {"간편결제", "Easy pay"},
	methodCardVAN:     {"카드", "Card"},
	methodKeyIn:       {"카드 번호 입력", "Keyed-in card"},
	methodOfflineCard: {"현장 카드", "Card, on site"},
	"OFFLINE_CASH":    {"현장 현금", "Cash, on site"},
}

// receipts are the cash receipts a customer can ask for.
var receipts = []choice{
	{Value: "", Label: localized{"신청 안 함", "None"}},
	{Value: "personal", Label: localized{"개인", "Personal"}},
	{Value: "business", Label: localized{"사업자", "Business"}},
	{Value: "self", Label: localized{"자진발급", "Self-issued"}},
}

// declinedWords are declines in English; the catalogue has them in Korean.
var declinedWords = map[string]string{
	codeNoNetwork:      "The card network or the cash receipt issuer did not answer, or refused.",
	codeNoMethod:       "The payment method was not found or cannot be used.",
	codeUnreadableCard: "The card number that was entered cannot be decrypted.",
}

// choice is one of several on a form.
type choice struct {
	Value   string
	Label   localized
	Card    bool // a payment method that is a card
	Checked bool
}

// billView is what the page shows of a bill.
type billView struct {
	Bill
	Amount  string // in groups of three digits
	Status  localized
	StatusClass    string // of the status: open, paid or over
	Open    bool   // it can be paid
	Closed  localized  // why it cannot
	Receipt []row  // empty unless it was paid
	// Methods, Months and Receipts are those of the form, as they were last chosen.
	Methods, Months, Receipts []choice
	CashNumber                string

	Refused  bool             // Closed is the answer to a payment
	Declined *declinedView    // nil unless it is the answer to one
	Wrong    map[string]localized // by field; nil unless the form has a mistake
}

type declinedView struct {
	Code string
	Text localized
}

// row is a line of a receipt.
type row struct {
	Label localized
	Value localized
}

// billScreen shows a bill. If mark is not nil, it says what else there is to show.
func (s *Service) billScreen(k billKey, mark func(*billView)) screen {
	var v billView
	s.view(func(t *tables) { v = s.viewBill(t.bills.get(k), t.now) })
	if mark != nil {
		mark(&v)
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

// receipt is what a payment, and a cancel after it, left.
func receipt(b *Bill, amount string) []row {
	a := b.Approval
	same := func(text string) localized { return localized{KO: text} }
	rows := []row{
		{localized{"승인 번호", "Approval number"}, same(a.Num)},
		{localized{"승인 일시", "Approved (Korea time)"}, same(a.At.In(seoul).Format(time.RFC3339))},
		{localized{"결제 수단", "Paid by"}, methodLabel(a.Method)},
		{localized{"결제 금액", "Amount"}, localized{amount + "원", amount + " won"}},
	}
	if isCard(a.Method) {
		months, _ := strconv.Atoi(a.Months) // two digits, of approve
		rows = append(rows,
			row{localized{"카드사", "Issuer"}, same(a.Issuer)},
			row{localized{"카드 번호", "Card number"}, same(a.IssuerNum)},
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
			row{localized{"현금영수증 번호", "Cash receipt number"}, same(a.CashNum)})
	}
	if b.Cancel != nil {
		rows = append(rows,
			row{localized{"취소 승인 번호", "Cancel number"}, same(b.Cancel.Num)},
			row{localized{"취소 일시", "Cancelled (Korea time)"}, same(b.Cancel.At.In(seoul).Format(time.RFC3339))})
	}
	return rows
}

// choose fills the form, with what p has chosen.
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

// takePayment pays a bill as its form says.
func (s *Service) takePayment(k billKey, token string, form url.Values) screen {
	p, wrong := s.paymentOf(form)
	again := func(mark func(*billView)) screen {
		return s.billScreen(k, func(v *billView) {
			if v.Refused = !v.Open; v.Open {
				v.choose(s.opt.PayTypes, p)
				mark(v)
			}
		})
	}
	if wrong != nil {
		return again(func(v *billView) { v.Wrong = wrong })
	}
	b, err := s.pay(k.partner, k.id, p)
	declined := new(declinedError)
	switch {
	case err == nil:
		return screen{to: redirectTarget(b.PageRedirectURL, token)}
	case errors.As(err, &declined):
		// 200: the payment was carried out as far as it goes, the bill remembers it,
		// and the customer's visit goes on.
		return again(func(v *billView) {
			v.Declined = &declinedView{declined.Code, localized{messageOf(declined.Code), declinedWords[declined.Code]}}
		})
	case errors.Is(err, errNotPayable):
		return again(func(*billView) {})
	}
	return s.failedScreen(err)
}

// paymentOf reads the form of the pay page. Only what applies to the method is
// looked at: which that is, the interface knows and a customer need not. What is
// wrong is told by field.
func (s *Service) paymentOf(form url.Values) (p Payment, wrong map[string]localized) {
	again := localized{"다시 선택해 주세요.", "Please choose again."}
	p.Method = form.Get("method")
	if _, ok := s.opt.PayTypes[p.Method]; !ok {
		return p, map[string]localized{"method": again}
	}
	if isCard(p.Method) {
		months, err := strconv.Atoi(cmp.Or(form.Get("months"), "0"))
		if err != nil || months < 0 || months == 1 || months > maxMonths {
			return p, map[string]localized{"months": again}
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
		return p, map[string]localized{"cash_receipt": again}
	}
	p.CashNumber = bareDigits(form.Get("cash_number"))
	if !isDigits(p.CashNumber) || len(p.CashNumber) > maxCashNumber {
		return p, map[string]localized{"cash_number": {
			"현금영수증 번호를 숫자로 입력해 주세요.", "Please enter the number for the cash receipt, in digits.",
		}}
	}
	return p, nil
}

// isCard: approve takes installments with these methods, and cash receipts with
// the others.
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

// bareDigits is a number without the hyphens and spaces that people write in it.
func bareDigits(typed string) string { return strings.NewReplacer("-", "", " ", "").Replace(typed) }

// grouped writes an amount as people read it, whatever its length.
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
