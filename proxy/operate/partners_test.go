package operate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
)

// creates counts bills of a partner that were created at a backend.
func (d *testOperator) created(key string, backend evidence.Backend, bills int) {
	for range bills {
		d.Router.Counts().Ended(partner.Of(key), "bill.create", backend, evidence.End{Code: "0000", Succeeded: true, Creates: true})
	}
}

// The share of the new backend is of the bills, and there is none without a bill.
func TestShareOfTheNewBackend(t *testing.T) {
	t.Parallel()
	equal(t, operate.Traffic{Bills: 9, AtNew: 3}.Share(), 33)
	equal(t, operate.Traffic{}.Share(), -1)
}

// The verdict of a partner's row is about the next stage alone, and the reasons against it are those of the change.
func TestVerdictIsThatOfTheNextStage(t *testing.T) {
	t.Parallel()
	for _, cells := range proxytest.Rows(t, "testdata/nextstages.txt") {
		t.Run(strings.Join(cells[:3], " "), func(t *testing.T) {
			t.Parallel()
			d := operatorInMemory(t, strings.Replace(separate, "new: fresh", "new: fresh, bills: "+cells[0], 1))
			d.seen("k", time.Hour)
			d.change("/rollout/stage?by=a&partner=<k>&force=<all>&stage=" + cells[1])
			for word := range strings.FieldsSeq(cells[2]) {
				d.counted(word)
			}
			step := answers[operate.PartnerList](d, "GET", "/rollout/partners").Partners[0].Step
			kinds := moves.JoinKinds(moves.KindsOf(step.Reasons))
			if step.String() != cells[3] || string(step.Ruling) != cells[4] || kinds != cells[5] {
				t.Errorf("%s has %q against it, next %s, want %v", step.Ruling, kinds, step, cells[3:])
			}
			if cells[3] == "" {
				return
			}
			equal(t, step.Reasons, answers[operate.Change](d, "POST", "/rollout/next?preview=true&partner=<k>").Reasons, "reasons of the row and of the change")
		})
	}
}

// Partners are sorted by what needs a person and by name, and filtered by stage and state.
func TestPartnersAreFiltered(t *testing.T) {
	t.Parallel()
	names := map[string]string{}
	config := shared + "partners:\n"
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		config += "  " + hash(key)[:12] + ": {name: partner-" + key + "}\n"
		names[hash(key)[:12]] = key
	}
	d := operatorInMemory(t, config)
	for key, stage := range map[string]string{"a": "new", "b": "shadow", "c": "canary&percent=50", "d": "canary&percent=10", "e": "drained"} {
		d.seen(key, time.Hour)
		d.change("/rollout/stage?by=a&force=<all>&partner=" + hash(key) + "&stage=" + stage)
	}
	d.proves("c")
	d.compares("b", 1, evidence.Differs, evidence.Difference{Path: "apprIssuer", Kind: evidence.InCode})
	d.created("d", evidence.Old, 3)
	d.created("d", evidence.New, 1)
	must(t, d.Router.Counts().Flush(t.Context()))
	d.later.Add(int64(time.Hour))
	d.created("a", evidence.New, 4)
	for query, want := range map[string]string{
		"":             "b a c d e",
		"stage=canary": "c d", "stage=old": "",
		"state=ready": "c d", "state=waiting": "a", "state=fail": "b", "state=last": "e", "state=ready&stage=canary": "c d",
		"limit=2": "b a", "limit=2&after=4": "e", "after=9": "",
	} {
		var got []string
		list := answers[operate.PartnerList](d, "GET", "/rollout/partners?"+query)
		for _, row := range list.Partners {
			got = append(got, names[row.Partner])
		}
		if strings.Join(got, " ") != want || list.All != 5 {
			t.Errorf("%s: %v of %d, want %s", query, got, list.All, want)
		}
	}
	if list := answers[operate.PartnerList](d, "GET", "/rollout/partners?limit=1&after=1&state=ready"); list.Number != 2 || list.Next != 0 || len(list.Partners) != 1 {
		t.Errorf("the last page of a filter: %+v", list)
	}
	equal(t, answers[operate.PartnerList](d, "GET", "/rollout/partners?limit=2&after=1").Next, 3, "the page after this one begins after")
	for query, says := range map[string]string{
		"stage=x": "stage must be one of", "state=x": "state must be one of [fail outage person", "after=-1": "after must be next",
		"limit=0": "limit must be 1 to", "x=1": "no key",
		"partner=default": "partner cannot be default",
	} {
		d.denies(400, "GET", "/rollout/partners?"+query, says)
	}
}

// One FAIL decides, and too few calls of one operation do not hide a verdict about another.
func TestRulingOfAllVerdicts(t *testing.T) {
	t.Parallel()
	few := evidence.Verdict{Ruling: evidence.Inconclusive, Few: true}
	unclear, pass, fail := evidence.Verdict{Ruling: evidence.Inconclusive}, evidence.Verdict{Ruling: evidence.Pass}, evidence.Verdict{Ruling: evidence.Fail}
	for _, row := range []struct {
		of   []evidence.Verdict
		want evidence.Ruling
	}{
		{nil, ""},
		{[]evidence.Verdict{few}, evidence.Inconclusive},
		{[]evidence.Verdict{few, pass}, evidence.Pass},
		{[]evidence.Verdict{pass, unclear, pass}, evidence.Inconclusive},
		{[]evidence.Verdict{pass, fail, unclear}, evidence.Fail},
	} {
		equal(t, evidence.Together(row.of), row.want, row.of)
	}
}

// A FAIL by calls without an answer is told from one by answers, and a partner whose wave waits for a person from others.
func TestStatesOfAPartner(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, shared)
	state := func(want operate.PartnerState) {
		t.Helper()
		must(t, d.Router.Counts().Flush(t.Context()))
		list := answers[operate.PartnerList](d, "GET", "/rollout/partners")
		equal(t, list.Partners[0].State, want)
		equal(t, list.States, map[operate.PartnerState]int{want: 1})
	}
	d.seen("k", time.Hour)
	state(operate.Ready)
	d.change("/rollout/stage?by=a&force=<all>&partner=<k>&stage=new")
	state(operate.Waiting)
	answers[operate.WaveInfo](d, "POST", "/rollout/waves?name=w&by=a&steps=new,drained&partners=<k>")
	d.change("/rollout/stage?by=b&force=<all>&partner=<k>&stage=old")
	state(operate.Person)
	d.change("/rollout/stage?by=a&force=<all>&partner=<k>&stage=canary&percent=10")
	d.created("k", evidence.Old, 200)
	d.ends("k", "bill.create", evidence.New, 200, evidence.End{Code: evidence.None, Creates: true})
	state(operate.NoAnswer)
	d.ends("k", "bill.create", evidence.New, 100, evidence.End{Code: "BILL_007", Creates: true})
	state(operate.Wrong)
	d.change("/rollout/stage?by=a&force=<all>&partner=<k>&stage=drained")
	state(operate.Wrong) // also in the last stage
	d.change("/rollout/reset?by=a&force=<all>&partner=<k>")
	state(operate.Last)
}

// Of many partners the bills are read at once, and each has its own reasons.
func TestManyPartnersHaveTheirOwnBills(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	for i := range 12 {
		key := fmt.Sprint("k", i)
		d.seen(key, time.Hour)
		d.change("/rollout/stage?by=a&force=<all>&partner=" + hash(key) + "&stage=new")
		d.owns(key, "legacy", 0, i, 0)
	}
	for _, row := range answers[operate.PartnerList](d, "GET", "/rollout/partners").Partners {
		change := answers[operate.Change](d, "POST", "/rollout/next?preview=true&partner="+row.Partner)
		equal(t, row.Step.Reasons, change.Reasons, "reasons of the row and of the change", row.Partner)
	}
}
