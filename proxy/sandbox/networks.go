package sandbox

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// declineCodes are the codes with which a card network or issuer declines a payment or a cancel ("Errors"). Only a cancel
// can have PAYMENT_002 too.
var declineCodes = []string{codeNoNetwork, codeNoMethod, codeUnreadableCard}

// A networkQueue has the next answers of the card networks. If it is empty, they accept.
type networkQueue struct {
	mu      sync.Mutex
	waiting []string
}

// Networks makes card networks decline the next count payments and cancels with a code: PAYMENT_001, PAYMENT_004,
// BILL_004 (keyed-in cards only) or PAYMENT_002 (cancels only). A count that is not positive counts as 1. The code 0000
// removes the answers that are not used yet.
func (s *Service) Networks(code string, count int) error {
	n := &s.networks
	n.mu.Lock()
	defer n.mu.Unlock()
	if code == codeSuccess {
		n.waiting = nil
		return nil
	}
	codes := append([]string{codeCancelFailed}, declineCodes...)
	if !slices.Contains(codes, code) {
		return fmt.Errorf("%w: expected %s or one of %s but got: %q", errInvalidPayment, codeSuccess, strings.Join(codes, ", "), code)
	}
	for range max(count, 1) {
		n.waiting = append(n.waiting, code)
	}
	return nil
}

// next removes and returns the next answer for a payment or a cancel.
func (n *networkQueue) next(cancel bool, method string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.waiting, func(code string) bool {
		switch code {
		case codeCancelFailed:
			return cancel
		case codeUnreadableCard:
			return method == methodKeyIn
		}
		return true
	})
	if i < 0 {
		return codeSuccess
	}
	code := n.waiting[i]
	n.waiting = slices.Delete(n.waiting, i, i+1)
	return code
}
