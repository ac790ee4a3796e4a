package operate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"
)

// With bills: separate, shadow has nothing to compare. set reports this, the report says what to do, and that change needs no
// force.
func TestShadowOfSeparateBillsReportsWhatToDo(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	d.seen("k", time.Hour)
	set := "/rollout/stage?by=a&partner=<k>&stage="
	if c := d.change(set + "shadow"); c.Forced ||
		c.Warning.String() != "with bills: separate, shadow compares nothing unless fresh gets a copy of the bills of legacy. "+
			"If it does, set rollout.copy: true. Without a copy go on to canary: there the gateway reads new bills back and compares them" {
		t.Errorf("%+v", c)
	}
	for i := range 2193 {
		d.Router.Counts().Add(partner.Of("k"), "bill.read", evidence.Comparison{Class: evidence.NotThere, Bill: fmt.Sprint(i), Succeeded: [2]bool{true, false}})
	}
	const reason = "the new backend had none of the bills that were read (reads: 2,193): with bills: separate, shadow compares nothing unless the new backend gets a copy of the bills; go on to canary"
	r := answers[operate.Report](d, "GET", "/rollout/report")
	if v := r.Verdicts[0]; v.Ruling != evidence.Inconclusive || v.Reason.String() != reason {
		t.Errorf("%+v", v)
	}
	if c := d.change(set + "canary&percent=10"); c.Forced || c.Warning.String() != "" {
		t.Errorf("%+v", c)
	}
	if c := d.change("/rollout/stage?by=a&partner=default&stage=shadow"); !strings.HasPrefix(c.Warning.String(), "with bills: separate") {
		t.Errorf("%+v", c)
	}
	if c := d.change("/rollout/unset?by=a&partner=<k>"); !strings.HasPrefix(c.Warning.String(), "with bills: separate") {
		t.Errorf("%+v", c)
	}
	shared := operatorInMemory(t, strings.Replace(separate, "new: fresh", "new: fresh, bills: shared", 1))
	equal(t, shared.change(set+"shadow").Warning.String(), "", "of shared bills")
}
