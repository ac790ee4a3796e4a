package rollout

import (
	"strings"

	"billbridge/config"
)

// Chosen reports whether canary sends the new bill of a call to the new backend. Ids that differ only in case or in
// surrounding space get the same answer: a backend may take them for one bill.
func (s *Settings) Chosen(c Call, percent int) bool {
	drawn := strings.ToLower(strings.TrimSpace(c.Bill))
	if s.Config.Split == config.ByMerchant {
		drawn = c.Merchant
	}
	return inPercentage(c.Partner, drawn, percent)
}
