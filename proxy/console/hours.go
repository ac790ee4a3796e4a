package console

import (
	"fmt"

	"billbridge/proxy/operate"
	"billbridge/proxy/pages"
	"billbridge/proxy/store"
)

// partnerHours are the calls of a partner in the last hours.
type partnerHours struct {
	Sums [2]store.Sums // by backend
}

// Failed returns how many of the calls failed, as a text.
func (partnerHours) Failed(s store.Sums) string {
	if s.Calls == 0 {
		return "–"
	}
	percent := 100 * float64(s.Failed) / float64(s.Calls)
	return fmt.Sprintf("%.1f %% (%s / %s)", percent, pages.Number(s.Failed), pages.Number(s.Calls))
}

// P99 returns the p99 as a text.
func (partnerHours) P99(s store.Sums) string {
	if s.P99() == 0 {
		return "–"
	}
	return "≤ " + rounded(s.P99())
}

// hoursOf adds up the calls of a partner.
func hoursOf(h operate.Hours) (page partnerHours) {
	for _, one := range h.Hours {
		page.Sums[one.Backend].Add(one.Sums)
	}
	return page
}
