package operate_test

import (
	"testing"
	"time"
)

// A partner leaves the old backend after the settling period, or with force.
func TestStageNeedsTheSettlingPeriod(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	d.seen("young", 3*time.Minute)
	d.proves("young")
	d.proves("unseen")
	young, unseen := "/rollout/stage?by=a&partner=<young>", "/rollout/stage?by=a&partner=<unseen>"
	for _, stage := range []string{"new", "drained", "canary&percent=1"} {
		d.refuses(young+"&stage="+stage, "the first call of the partner was seen 3m ago, and the settling period is 15m: calls that it sent to legacy without the gateway may still be under way [settling]\n")
		d.refuses(unseen+"&stage="+stage, "no call of the partner was seen yet. It can leave legacy 15m after its first call")
	}
	d.later.Store(int64(12*time.Minute - time.Second))
	d.refuses(young+"&stage=new", "seen 14m59s ago, and the settling period is 15m")
	for _, stage := range []string{"old", "shadow", "canary&percent=0"} { // it stays where it is
		d.change(young + "&stage=" + stage)
	}
	d.createsAt("young", "legacy", "")
	d.forced(young + "&stage=new&force=<all>")
	d.createsAt("young", "fresh", "legacy")
	d.change(unseen + "&stage=canary&percent=100&force=<all>")
	d.createsAt("unseen", "fresh", "legacy")
	// A default has no settling period of its own: force does not skip that of each partner.
	d.change("/rollout/stage?by=a&partner=default&stage=new&force=<all>")
	d.createsAt("late", "legacy", "")
	if c := d.change("/rollout/stage?by=a&partner=default&stage=drained&force=<all>"); !c.Forced {
		t.Errorf("late has a bill at legacy: %+v", c)
	}
	d.createsAt("late", "legacy", "")
	d.later.Store(int64(12 * time.Minute))
	if c := d.change(young + "&stage=new&force=<all>"); c.Forced {
		t.Errorf("nothing spoke against it: %+v", c)
	}
}

// For a drained partner the old backend is not probed, so no open bill may be there.
func TestOpenBillsAreAReasonAgainstDrained(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	for _, key := range []string{"k", "one", "none", "staged"} {
		d.seen(key, time.Hour)
		d.proves(key)
	}
	d.owns("k", "legacy", 2, 3, 1)
	d.owns("k", "fresh", 1, 1, 1)
	d.owns("one", "legacy", 0, 1, 0)
	d.owns("none", "legacy", 0, 0, 4)
	d.owns("none", "fresh", 1, 5, 0)
	stage := func(key string) string { return "/rollout/stage?by=a&stage=drained&partner=" + key }
	d.refuses(stage(hash("k")), "bills that may still be open at legacy: 5, which are not past their last day and were not seen destroyed or cancelled. "+
		"Known bills keep working; bills that the ledger does not know will not be looked up at legacy [open_bills]\n")
	d.refuses(stage(hash("one")[:12]), "may still be open at legacy: 1, ")
	d.unforced(stage(hash("none")))
	d.refuses(stage("default"), "may still be open at legacy: 6, ")
	d.forced(stage(hash("k")) + "&force=<all>")
	d.refuses(stage("default"), "may still be open at legacy: 1, ") // k has a stage of its own
	d.seen("young", time.Minute)
	d.proves("young")
	d.owns("young", "legacy", 1, 0, 0)
	d.refuses(stage(hash("young")), "seen 1m ago, and the settling period is 15m: calls that it sent to legacy without the gateway may still be under way [settling]\n  bills that may still be open at legacy: 1, ")
}
