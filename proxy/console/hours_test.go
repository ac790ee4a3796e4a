package console

import (
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"
)

// The page of a partner has its hours, or says that there is no call.
func TestPartnerPageShowsHours(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.seen("hana", 2*time.Hour)
	page := "/partners/" + partner.ShortOf("hana")
	d.shows(page, 200, "No call in the last 48 hours.", "<dt>Calls, 24 h</dt><dd>0</dd>")
	end := evidence.End{Code: "0000", Succeeded: true, Arrived: time.Now(), Took: time.Second}
	for range 3 {
		d.Operator.Rollout.Counts().Ended(partner.Of("hana"), "bill.read", evidence.New, end)
	}
	end.Failed, end.Arrived = true, time.Now().Add(-30*time.Hour)
	d.Operator.Rollout.Counts().Ended(partner.Of("hana"), "bill.read", evidence.Old, end)
	d.shows(page, 200, "<dt>Calls, 24 h</dt><dd>3</dd>", "100.0 % (1 / 1)", "0.0 % (0 / 3)", "≤ 1.0 s")
	d.shows("/partners", 200, "Calls in the last 24 hours: 3")
}
