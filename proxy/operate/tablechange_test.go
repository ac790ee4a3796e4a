package operate_test

import (
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"
)

// A reload that changes the table loses no evidence that is not stored yet: neither a difference in money nor that of an operation
// which it does not change.
func TestReloadOfTheTableLosesNoEvidence(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	for _, key := range []string{"k", "else"} {
		d.seen(key, 48*time.Hour)
	}
	d.ends("k", "bill.cancel", evidence.Old, 200, fine)
	d.ends("k", "bill.cancel", evidence.New, 200, evidence.End{Code: "ERROR"})
	d.Router.Counts().Add(partner.Of("else"), "bill.create", evidence.Comparison{
		Class: evidence.Differs, Bill: "B-7", Succeeded: [2]bool{true, true}, ReadBack: true,
		Differences: []evidence.Difference{{Path: "apprPrice", Kind: evidence.InMoney, First: "1000", Second: "1001"}},
	})
	d.Router.Use(parse(t, overlaid(t, "operations: {bill.create: {reply: [{v2: hash, legacy: hash, optional: true}]}}")))
	d.refuses("/rollout/stage?by=a&partner=<k>&stage=canary&percent=5", "bill.cancel by calls is FAIL")
	d.refuses("/rollout/stage?by=a&partner=<k>&stage=canary&percent=5", "money_elsewhere")
}

// A call of an operation that a reload has removed ends after it: nothing else that was counted waits for that.
func TestCallOfARemovedOperationIsNotCounted(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	d.ends("k", "a.removed", evidence.New, 1, fine)
	d.ends("k", "bill.cancel", evidence.New, 1, fine)
	if r := answers[operate.Report](d, "GET", "/rollout/report"); len(r.Verdicts) != 1 {
		t.Errorf("%+v", r)
	}
}
