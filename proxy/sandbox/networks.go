package sandbox

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// declineCodes are the codes that a card network or an issuer can give a payment or
// a cancel ("Errors"). PAYMENT_002 is a cancel's alone.
var declineCodes = []string{codeNoNetwork, codeNoMethod, codeUnreadableCard}

// networkQueue are the card networkQueue, banks and issuers behind the service. They say
// yes, unless they were told what to say next.
type networkQueue struct {
	mu      sync.Mutex
	waiting []string
}

// Networks makes the networks answer the next count payments and cancels with
// code: PAYMENT_001 or PAYMENT_004; BILL_004, which waits for a card that was
// keyed in; or PAYMENT_002, which waits for a cancel. A count that is not
// positive is 1, and the code 0000 forgets what they were told before.
func (s *Service) Networks(code string, count int) error {
	n := &s.networks
	n.mu.Lock()
	defer n.mu.Unlock()
	if code == codeSuccess {
		n.waiting = nil
		return nil
	}
	known := append([]string{codeCancelFailed}, declineCodes...)
	if !slices.Contains(known, code) {
		return fmt.Errorf("%w: expected %s or one of %s but got: %q", errInvalidPayment, codeSuccess, strings.Join(known, ", "), code)
	}
	for range max(count, 1) {
		n.waiting = append(n.waiting, code)
	}
	return nil
}

// next is what they say of a payment, or of the cancel of one.
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
