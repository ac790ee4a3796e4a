package sandbox

import (
	"slices"
	"strings"
)

// declineCodes are the codes with which a card network or issuer declines a payment or a cancel ("Errors"). Only a
// cancel can have PAYMENT_002 too.
var declineCodes = []string{codeNoNetwork, codeNoMethod, codeUnreadableCard}

// Networks makes card networks decline the next count payments and cancels with a code: PAYMENT_001, PAYMENT_004,
// BILL_004 (keyed-in cards only) or PAYMENT_002 (cancels only). A count that is not positive counts as 1. The code 0000
// removes the answers that are not used yet.
func (s *Service) Networks(code string, count int) error {
	codes := append([]string{codeCancelFailed}, declineCodes...)
	switch {
	case code == codeSuccess:
		s.view(func(t *tables) { t.networks = nil })
	case !slices.Contains(codes, code):
		return invalidPayment("", "expected %s or one of %s but got: %q", codeSuccess, strings.Join(codes, ", "), code)
	default:
		s.view(func(t *tables) { t.networks = append(t.networks, Fault{Code: code, Count: count}) })
	}
	return nil
}

// network returns the code with which a card network declines a payment or a cancel of a bill, or "".
func (t *tables) network(on string, b *Bill) string {
	if code := b.decides(on); code != "" {
		return code
	}
	return take(&t.networks, func(f Fault) bool {
		switch f.Code {
		case codeCancelFailed:
			return on == onCancel
		case codeUnreadableCard:
			return b.Approval.Method == methodKeyIn
		}
		return true
	}).Code
}
