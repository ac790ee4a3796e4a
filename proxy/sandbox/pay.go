package sandbox

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// The legacy words of payment methods, as public integrations use them.
const (
	methodCardVAN     = "CARD_VAN"
	methodKeyIn       = "KEYIN"
	methodOfflineCard = "OFFLINE_CARD"
)

// The classes of a cash receipt in legacy ("Approval and payment data").
const (
	cashPersonal = "0"
	cashBusiness = "1"
)

// selfIssueNumber is the request number of a cash receipt that the merchant issues by itself.
const selfIssueNumber = "0100001234"

// Errors of payments, for which the interface has no codes.
var (
	errNoBill    = &refusedError{http.StatusNotFound, "no such bill"}
	errAmbiguous = &refusedError{
		http.StatusConflict, "several partners have a bill with this id: name the partner",
	}
	errNotPayable = &refusedError{http.StatusConflict, "the bill cannot be paid"}
	errNoMapping  = &refusedError{http.StatusNotFound, "no such registration"}
	errNoPartner  = &refusedError{http.StatusNotFound, "no such partner"}
)

func invalidPayment(format string, args ...any) error {
	return &refusedError{http.StatusBadRequest, "invalid payment: " + fmt.Sprintf(format, args...)}
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
	return s.PayWith(partnerKey, billID, Payment{})
}

// PayWith pays a bill. It returns an error if a card network declines the payment.
func (s *Service) PayWith(partnerKey, billID string, p Payment) error {
	_, err := s.pay(partnerKey, billID, p)
	return err
}

// pay is PayWith. If the payment is declined, it also returns the bill, which stays unpaid and records the payment.
func (s *Service) pay(partnerKey, billID string, p Payment) (Bill, error) {
	b, err := s.attemptPayment(partnerKey, billID, func(t *tables, b *Bill) (declined string, err error) {
		if b.Approval, err = s.approve(t, p); err != nil {
			return "", err
		}
		return s.network(false, b.Approval.Method), nil
	})
	if err == nil && b.State == stateUnpaid {
		code := b.lastFailure()
		err = &refusedError{http.StatusConflict, code + ": " + messageOf(code)}
	}
	return b, err
}

// Fail makes a payment that fails with one of declineCodes. The bill stays unpaid, and no callback is sent.
func (s *Service) Fail(partnerKey, billID, code string) error {
	_, err := s.fail(partnerKey, billID, code)
	return err
}

func (s *Service) fail(partnerKey, billID, code string) (Bill, error) {
	if !slices.Contains(declineCodes, code) {
		return Bill{}, invalidPayment("expected one of %s but got: %q", strings.Join(declineCodes, ", "), code)
	}
	return s.attemptPayment(partnerKey, billID, func(*tables, *Bill) (string, error) { return code, nil })
}

// attemptPayment makes a payment of a bill that can be paid: pay approves it, or returns the code with which it is
// declined.
func (s *Service) attemptPayment(
	partnerKey, billID string, pay func(*tables, *Bill) (declined string, err error),
) (after Bill, err error) {
	err = s.store.update(func(t *tables) error {
		before, err := t.lookUp(partnerKey, billID)
		switch {
		case err != nil:
			return err
		case before.State != stateUnpaid:
			return fmt.Errorf("%w: its state is %s", errNotPayable, before.State)
		case s.expired(before.ExpireDt, t.now):
			return fmt.Errorf("%w: it expired on %s", errNotPayable, before.ExpireDt)
		}
		after = *before
		switch declined, err := pay(t, &after); {
		case err != nil:
			return err
		case declined != "":
			after.Approval, after.Failed = nil, append(slices.Clip(after.Failed), FailedPayment{t.now, declined})
		default:
			after.State = statePaid
			s.notify(t, &after)
		}
		t.Bills.put(after)
		return nil
	})
	if err != nil {
		return Bill{}, err
	}
	s.sender.sendDue()
	return after, nil
}

// lookUp returns a bill. partnerKey may be empty if only one partner has a bill with this id.
func (t *tables) lookUp(partnerKey, billID string) (*Bill, error) {
	found := t.billsByID[billID]
	switch {
	case partnerKey != "":
		found = []billKey{{partnerKey, billID}}
	case len(found) > 1:
		return nil, errAmbiguous
	}
	for _, k := range found {
		if b := t.Bills.get(k); b != nil {
			return b, nil
		}
	}
	return nil, fmt.Errorf("%w: %q", errNoBill, billID)
}

// Bill returns a bill. partnerKey may be empty if only one partner has a bill with this id.
func (s *Service) Bill(partnerKey, billID string) (found Bill, err error) {
	err = s.store.update(func(t *tables) error {
		b, err := t.lookUp(partnerKey, billID)
		if err == nil {
			found = *b
		}
		return err
	})
	return found, err
}

// Bills returns all bills in the order of creation.
func (s *Service) Bills() (list []Bill) {
	s.store.view(func(t *tables) { list = t.Bills.all() })
	return list
}

// expired reports whether the day of expireDt is over in Korea. A bill without expireDt does not expire.
func (s *Service) expired(expireDt string, now time.Time) bool {
	end, err := time.ParseInLocation(dateLayout, expireDt, seoul)
	if !s.opt.ExpiresAtDawn {
		end = end.AddDate(0, 0, 1)
	}
	return err == nil && !now.Before(end)
}

// approve creates the approval of a payment ("Approval and payment data"), with invented names and numbers in realistic
// formats.
func (s *Service) approve(t *tables, p Payment) (*Approval, error) {
	if p.Method == "" {
		p.Method = methodCardVAN
	}
	if _, ok := s.opt.PayTypes[p.Method]; !ok {
		return nil, invalidPayment("unknown method %q", p.Method)
	}
	if p.Months < 0 || p.Months > 99 {
		return nil, invalidPayment("expected 0 to 99 months but got: %d", p.Months)
	}
	n := t.nextApproval()
	a := &Approval{
		Method: p.Method, Num: approvalNumber(n), At: t.now, TerminalID: "2863000001", Months: "00",
		TxNum: fmt.Sprintf("TX%012d", n),
	}
	switch p.Method {
	case methodCardVAN, methodKeyIn, methodOfflineCard:
		if p.CashReceipt != "" {
			return nil, invalidPayment("a card payment has no cash receipt")
		}
		a.CardType, a.Issuer, a.IssuerCode, a.IssuerNum = "신용", "신한카드", "04", "4518-42**-****-1234"
		a.AcquirerCode, a.Acquirer, a.MerchantNum = "04", "신한카드", "0012345678"
		a.Months = fmt.Sprintf("%02d", p.Months)
		return a, nil
	}
	if p.Months != 0 {
		return nil, invalidPayment("%s has no installments", p.Method)
	}
	switch p.CashReceipt {
	case "":
		return a, nil
	case "personal":
		a.CashClass, a.CashRequest = cashPersonal, p.CashNumber
	case "business":
		a.CashClass, a.CashRequest = cashBusiness, p.CashNumber
	case "self":
		a.CashClass, a.CashRequest = cashPersonal, selfIssueNumber
	default:
		return nil, invalidPayment("expected a personal, business or self cash receipt but got: %q", p.CashReceipt)
	}
	if a.CashRequest == "" {
		return nil, invalidPayment("a cash receipt requires cash_number")
	}
	a.CashNum = fmt.Sprintf("%09d", 700000000+n)
	return a, nil
}

// approvalNumber returns a unique number of eight digits.
func approvalNumber(n int) string { return fmt.Sprintf("%08d", 30000000+n) }
