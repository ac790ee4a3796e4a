package operate_test

import (
	"testing"

	"billbridge/proxy/evidence"
	"billbridge/proxy/operate"
)

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
