package operate_test

import (
	"testing"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/operate"
	"billbridge/proxy/proxytest"
)

// What was counted of a key is the partner's when the key becomes one of its keys: also of an operation that the partner
// has not called, and also if the counts are stored later.
func TestCountsOfAKeyBecomeThePartners(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, at string) {
		d := newTestOperator(t, proxytest.Open(t, at), separate)
		d.seen("k", 48*time.Hour)
		d.change("/rollout/stage?partner=<k>&stage=canary&percent=5&by=anna")
		d.proves("k")
		keys := []string{"cancel", "destroy"} // by the operation of their calls
		for _, key := range keys {
			d.seen(key, 48*time.Hour)
			d.ends(key, "bill."+key, evidence.Old, 200, fine)
			d.ends(key, "bill."+key, evidence.New, 200, evidence.End{Code: "ERROR"})
			if key == "cancel" {
				answers[operate.Report](d, "GET", "/rollout/report")
			}
			answers[operate.AddedKey](d, "POST", "/store/keys?partner=<k>&hash=<"+key+">&by=anna")
		}
		for _, query := range []string{"", "?partner=<k>"} {
			for _, v := range answers[operate.Report](d, "GET", "/rollout/report"+query).Verdicts {
				equal(t, string(v.Partner), hash("k")[:12], v.Operation)
			}
		}
		for _, key := range keys {
			d.refuses("/rollout/stage?partner=<k>&stage=canary&percent=50&by=anna", "bill."+key+" by calls is FAIL")
		}
	})
}
