package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/rollout"
)

// Where each backend has its own bills, shadow has nothing to compare. set says so, the report says what would help, and that
// way is open without force.
func TestShadowOfSeparateBillsNamesTheWayOut(t *testing.T) {
	t.Parallel()
	d := newDesk(t, open(t, "memory:"), separate)
	d.seen("k", time.Hour)
	set := "/rollout/stage?by=a&partner=" + hash("k") + "&stage="
	if c := answers[rollout.Changed](d, "POST", set+"shadow"); c.Forced ||
		c.Warning != "bills are separate: fresh has none of the bills that are read at legacy, so that shadow proves nothing unless fresh is fed a copy of them. "+
			"Otherwise set old, then canary: its new bills are read back" {
		t.Errorf("%+v", c)
	}
	d.denies(409, "POST", set+"canary&percent=10", "\n  "+hash("k")[:12]+": no read was compared yet in stage shadow; unless the new backend is fed a copy of the bills, none will be: set old, then canary\n")
	for i := range 2193 {
		d.Counts().Add(hash("k"), "bill.read", rollout.Comparison{Class: rollout.NotThere, Bill: fmt.Sprint(i), Succeeded: [2]bool{true, false}})
	}
	const reason = "the new backend had none of the bills of 2,193 reads: with bills: separate, shadow proves nothing unless the new backend is fed a copy of them; set old, then canary"
	r := answers[rollout.Report](d, "GET", "/rollout/report")
	if v := r.Verdicts[0]; v.Ruling != rollout.Inconclusive || v.Reason != reason {
		t.Errorf("%+v", v)
	}
	d.denies(409, "POST", set+"canary&percent=10", "\n  "+hash("k")[:12]+": bill.read by shadow is INCONCLUSIVE, "+reason+"\n")
	if c := answers[rollout.Changed](d, "POST", set+"old"); c.Warning != "" {
		t.Errorf("%+v", c)
	}
	if c := answers[rollout.Changed](d, "POST", set+"canary&percent=10"); c.Forced || c.Warning != "" {
		t.Errorf("%+v", c)
	}
	if c := answers[rollout.Changed](d, "POST", "/rollout/stage?by=a&partner=default&stage=shadow"); !strings.HasPrefix(c.Warning, "bills are separate") {
		t.Errorf("%+v", c)
	}
	if c := answers[rollout.Changed](d, "POST", "/rollout/unset?by=a&partner="+hash("k")); !strings.HasPrefix(c.Warning, "bills are separate") {
		t.Errorf("%+v", c)
	}
	shared := newDesk(t, open(t, "memory:"), strings.Replace(separate, "new: fresh", "new: fresh, bills: shared", 1))
	if c := answers[rollout.Changed](shared, "POST", set+"shadow"); c.Warning != "" {
		t.Errorf("of shared bills: %+v", c)
	}
}

// Few comparisons that are there, and bills that only the new backend has, are told apart from none.
func TestVerdictOfBillsThatOneBackendLacks(t *testing.T) {
	t.Parallel()
	for want, counts := range map[string]map[[2]bool]int{
		"the new backend had 3 of the bills of 1,003 reads: with bills: separate, shadow proves nothing unless the new backend is fed a copy of them; set old, then canary": {
			{true, true}: 3, {true, false}: 1000,
		},
		"0 compared, at least 100 are needed":  {{false, true}: 500, {false, false}: 500}, // the old backend lacks them
		"60 compared, at least 100 are needed": {{true, true}: 60, {true, false}: 60},
		"at most 2.96 % differ":                {{true, true}: 100, {true, false}: 5000},
	} {
		tally := newTally()
		for succeeded, n := range counts {
			class := rollout.NotThere
			if succeeded == [2]bool{true, true} {
				class = rollout.Same
			}
			tally.Add(partner, "bill.create", rollout.Comparison{Class: rollout.Same, Succeeded: [2]bool{true, true}}) // the partner is known
			for i := range n {
				more := newTally()
				more.Know(partner)
				more.Add(partner, "bill.read", rollout.Comparison{Class: class, Bill: fmt.Sprint(i), Succeeded: succeeded})
				if err := tally.Merge(more.Snapshot()); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, v := range rollout.Judge(tally.Snapshot(), rollout.Limits{}) {
			if v.Operation == "bill.read" && v.Reason != want {
				t.Errorf("%q, want %q", v.Reason, want)
			}
		}
		// Where both see the same bills, one that the new backend lacks is a fault.
		if old := counts[[2]bool{true, false}]; old > 0 {
			const want = "with bills: shared it must have all of them"
			for _, v := range rollout.Judge(tally.Snapshot(), rollout.Limits{Shared: true}) {
				if v.Operation == "bill.read" && (v.Ruling != rollout.Inconclusive || !strings.HasSuffix(v.Reason, want)) {
					t.Errorf("%s %q, want %q", v.Ruling, v.Reason, want)
				}
			}
		}
	}
}
