package sandbox

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// methods are the legacy words of the payment methods, as public integrations use them. The place of one is its number
// in v2. Those from 1 to 3 are cards.
var methods = []string{"SIMPLE_PAY", "CARD_VAN", "KEYIN", "OFFLINE_CARD", "OFFLINE_CASH"}

// The classes of a cash receipt in legacy ("Approval and payment data").
const (
	cashPersonal = "0"
	cashBusiness = "1"
)

// Errors of payments, for which the interface has no codes.
var (
	errNoBill    = &refusedError{http.StatusNotFound, "no such bill"}
	errAmbiguous = &refusedError{
		http.StatusConflict, "several partners have a bill with this id: name the partner",
	}
	errWrongState = &refusedError{http.StatusConflict, "the bill is in another state"}
	errNotPayable = &refusedError{http.StatusConflict, "the bill cannot be paid"}
	errNoMapping  = &refusedError{http.StatusNotFound, "no such registration"}
	errNoPartner  = &refusedError{http.StatusNotFound, "no such partner"}
)

// invalidPayment refuses a payment that has a mistake.
func invalidPayment(format string, args ...any) error {
	return badRequest("invalid payment: " + fmt.Sprintf(format, args...))
}

// A Payment describes a payment of a customer. The zero value is a card payment without installments.
type Payment struct {
	// Method is the legacy word of a payment method; CARD_VAN if empty.
	Method string `json:"method"`
	// Months is the number of installments of a card payment; 0 is none.
	Months int `json:"months"`
	// CashReceipt requests a receipt for a payment without a card: "personal", "business" or "self" (issued by the
	// merchant itself). None if empty.
	CashReceipt string `json:"cash_receipt"`
	// CashNumber is the number for the receipt. It is ignored for "self".
	CashNumber string `json:"cash_number"`
}

// Pay pays a bill by card, which changes its state from W to F. partnerKey may be empty if only one partner has a bill
// with this id.
func (s *Service) Pay(partnerKey, billID string) error {
	_, err := s.PayWith(partnerKey, billID, Payment{})
	return err
}

// PayWith pays a bill. If a fault declines the payment, it returns an error and the bill, which stays unpaid, records
// the payment and has no callback.
func (s *Service) PayWith(partnerKey, billID string, p Payment) (Bill, error) {
	b, err := s.withBill(partnerKey, billID, stateUnpaid, func(t *tables, b *Bill) (err error) {
		if expired(b.ExpireDt, t.now) {
			return fmt.Errorf("%w: it expired on %s", errNotPayable, b.ExpireDt)
		}
		if b.Approval, err = approve(t, p); err != nil {
			return err
		}
		if f := t.takeFault(opPayment, b.Partner, b.ID); f.Code != "" {
			b.Approval, b.Failed = nil, append(slices.Clip(b.Failed), FailedPayment{t.now, f.Code})
		} else {
			b.State = statePaid
			t.notify(b)
		}
		t.Bills.put(*b)
		return nil
	})
	if err == nil && b.State == stateUnpaid {
		code := b.lastFailure()
		err = &refusedError{status: http.StatusConflict, text: code + ": " + messageOf(code)}
	}
	return b, err
}

// Expire makes yesterday the last day of an unpaid bill.
func (s *Service) Expire(partnerKey, billID string) (Bill, error) {
	return s.withBill(partnerKey, billID, stateUnpaid, func(t *tables, b *Bill) error {
		b.ExpireDt = t.now.AddDate(0, 0, -1).Format(dateLayout)
		t.Bills.put(*b)
		return nil
	})
}

// Cancel cancels a paid bill without the partner, as a card company does at the wish of a customer.
func (s *Service) Cancel(partnerKey, billID string) (Bill, error) {
	return s.withBill(partnerKey, billID, statePaid, func(t *tables, b *Bill) error {
		t.finish(b, stateCancelled, "cancelled by the card company")
		return nil
	})
}

// withBill runs f as a transaction with a copy of a bill, and returns the copy. The bill must be in a state, unless
// that is empty. partnerKey may be empty if only one partner has a bill with this id.
func (s *Service) withBill(partnerKey, billID, state string, f func(*tables, *Bill) error) (b Bill, err error) {
	err = s.update(func(t *tables) error {
		var found *Bill
		for _, k := range t.Bills.order {
			switch {
			case k.id != billID || partnerKey != "" && k.partner != partnerKey:
				continue
			case found != nil:
				return errAmbiguous
			}
			found = t.Bills.get(k)
		}
		switch {
		case found == nil:
			return fmt.Errorf("%w: %q", errNoBill, billID)
		case state != "" && found.State != state:
			return fmt.Errorf("%w: its state is %s, not %s", errWrongState, found.State, state)
		}
		b = *found
		return f(t, &b)
	})
	if err != nil {
		return Bill{}, err
	}
	s.sendDue()
	return b, nil
}

// Bill returns a bill. partnerKey may be empty if only one partner has a bill with this id.
func (s *Service) Bill(partnerKey, billID string) (Bill, error) {
	return s.withBill(partnerKey, billID, "", func(*tables, *Bill) error { return nil })
}

// Bills returns all bills in the order of creation.
func (s *Service) Bills() (list []Bill) {
	s.view(func(t *tables) { list = t.Bills.all() })
	return list
}

// expired reports whether the day of expireDt is over in Korea. A bill without expireDt does not expire.
func expired(expireDt string, now time.Time) bool {
	end, err := time.ParseInLocation(dateLayout, expireDt, seoul)
	return err == nil && !now.Before(end.AddDate(0, 0, 1))
}

// approve creates the approval of a payment ("Approval and payment data"), with invented names and numbers in realistic
// formats.
func approve(t *tables, p Payment) (*Approval, error) {
	p.Method = cmp.Or(p.Method, methods[1])
	card := isCard(p.Method)
	receipt, known := receipts[p.CashReceipt]
	switch {
	case !slices.Contains(methods, p.Method):
		return nil, invalidPayment("unknown method %q", p.Method)
	case p.Months < 0 || p.Months > 99:
		return nil, invalidPayment("expected 0 to 99 months but got: %d", p.Months)
	case card && p.CashReceipt != "":
		return nil, invalidPayment("a card payment has no cash receipt")
	case !card && p.Months != 0:
		return nil, invalidPayment("%s has no installments", p.Method)
	case !known:
		return nil, invalidPayment("expected a personal, business or self cash receipt but got: %q", p.CashReceipt)
	}
	n := t.nextApproval()
	a := &Approval{
		Method: p.Method, Num: approvalNumber(n), At: t.now, TerminalID: "2863000001",
		Months: fmt.Sprintf("%02d", p.Months), TxNum: fmt.Sprintf("TX%012d", n),
	}
	if card {
		a.CardType, a.Issuer, a.IssuerCode, a.IssuerNum = "신용", "신한카드", "04", "4518-42**-****-1234"
		a.AcquirerCode, a.Acquirer, a.MerchantNum = "04", "신한카드", "0012345678"
	}
	if receipt == (Receipt{}) {
		return a, nil
	}
	a.Receipt = receipt
	a.CashNum, a.CashRequest = fmt.Sprintf("%09d", 700000000+n), cmp.Or(receipt.CashRequest, p.CashNumber)
	if a.CashRequest == "" {
		return nil, invalidPayment("a cash receipt requires cash_number")
	}
	return a, nil
}

// receipts are the kinds of cash receipts. The number of one that the merchant issues by itself is designated.
var receipts = map[string]Receipt{
	"": {}, "personal": {CashClass: cashPersonal}, "business": {CashClass: cashBusiness},
	"self": {CashClass: cashPersonal, CashRequest: "0100001234"},
}

// isCard reports whether a method has installments. The others have cash receipts.
func isCard(method string) bool { return slices.Contains(methods[1:4], method) }

// approvalNumber returns a unique number of eight digits.
func approvalNumber(n int) string { return fmt.Sprintf("%08d", 30000000+n) }
