package operate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"

	"github.com/google/go-cmp/cmp"
)

// creates counts bills of a partner that were created at a backend.
func (d *testOperator) created(key string, backend evidence.Backend, bills int) {
	for i := range bills {
		d.Router.Counts().Ended(partner.Of(key), "bill.create", backend, evidence.End{Code: "0000", Succeeded: true, Creates: true, Merchant: fmt.Sprint("m", i%3)})
	}
}

// A card shows what its partner did in the last day, and the verdicts together.
func TestBoardShowsTrafficAndVerdicts(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate+"partners: {"+hash("k")[:12]+": {name: Hana Clinic}}\n")
	d.seen("k", time.Hour)
	d.seen("young", time.Minute)
	d.created("k", evidence.Old, 50)
	d.later.Add(int64(25 * time.Hour))
	d.created("k", evidence.Old, 6)
	d.created("k", evidence.New, 3)
	d.Router.Counts().Ended(partner.Of("k"), "bill.read", evidence.Old, evidence.End{Code: "BILL_003"})
	d.change("/rollout/stage?force=<all>&by=anna&stage=canary&percent=25&partner=<k>")
	board := answers[operate.Board](d, "GET", "/rollout/board")
	if len(board.Columns) != 5 || board.Columns[0].Number != 1 || board.Columns[2].Number != 1 || board.Columns[4].Number != 0 {
		t.Fatalf("%+v", board)
	}
	card := board.Columns[2].Partners[0]
	if card.Traffic.Since == nil || !card.Traffic.Since.Equal(noon) {
		t.Errorf("counted since %v", card.Traffic.Since)
	}
	card.Traffic.Since, card.Seen = nil, nil
	at, percent := noon.Add(25*time.Hour), 25
	want := operate.Card{
		PartnerStatus: operate.PartnerStatus{
			Partner: hash("k")[:12], Name: "Hana Clinic", Settled: true,
			StageSetting: operate.StageSetting{Stage: "canary", Percent: &percent, By: "anna", At: &at},
		},
		Traffic: operate.Traffic{Calls: 60, Bills: 9, AtNew: 3}, Ruling: evidence.Inconclusive,
	}
	if diff := cmp.Diff(want, card); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := card.Traffic.Share(); got != 33 {
		t.Errorf("a share of %d %%", got)
	}
	for i, column := range answers[operate.Board](d, "GET", "/rollout/board?partner=<k>").Columns {
		if want := map[bool]int{true: 1}[i == 2]; column.Number != want || len(column.Partners) != want {
			t.Errorf("the board of one partner has %+v", column)
		}
	}
	young := board.Columns[0].Partners[0]
	if young.Partner != hash("young")[:12] || !young.Default || !young.Settled || young.Traffic.Share() != -1 || young.Ruling != "" {
		t.Errorf("%+v", young)
	}
}

// The pages of a column have each partner once: those with a name first, in the order of names.
func TestBoardHasPages(t *testing.T) {
	t.Parallel()
	names := "partners: {" + hash("key3") + ": {name: beta}, " + hash("key4")[:12] + ": {name: Alpha}, " + hash("key5")[:12] + ": {name: 하나}}\n"
	d := operatorInMemory(t, separate+names)
	var rest []string
	for i := range 45 {
		key := fmt.Sprint("key", i)
		d.seen(key, time.Hour)
		if i < 3 || i > 5 {
			rest = append(rest, hash(key)[:12])
		}
	}
	slices.Sort(rest)
	want := append([]string{hash("key4")[:12], hash("key3")[:12], hash("key5")[:12]}, rest...)
	for _, limit := range []int{1, 2, 3, 4, 44, 45, 46} {
		var got []string
		for after := ""; ; {
			column := answers[operate.Board](d, "GET", fmt.Sprintf("/rollout/board?stage=old&limit=%d%s", limit, after)).Columns[0]
			if column.Number != 45 || len(column.Partners) > limit {
				t.Fatalf("a page of %d has %d of %d", limit, len(column.Partners), column.Number)
			}
			for _, card := range column.Partners {
				got = append(got, card.Partner)
			}
			if column.Next == "" {
				break
			}
			after = "&after=" + column.Next
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pages of %d: -want +got\n%s", limit, diff)
		}
	}
	first := answers[operate.Board](d, "GET", "/rollout/board").Columns[0]
	if len(first.Partners) != 20 || first.Next != want[19] {
		t.Errorf("the first page has %d, the next begins after %s", len(first.Partners), first.Next)
	}
	for query, says := range map[string]string{
		"stage=x": "stage must be one of", "after=abc&stage=old": "after is the next", "after=" + want[0]: "needs a stage", "limit=0&stage=old": "limit must be 1 to 500", "x=1": "no key",
	} {
		d.denies(400, "GET", "/rollout/board?"+query, says)
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
		if got := evidence.Together(row.of); got != row.want {
			t.Errorf("%+v: %q, want %q", row.of, got, row.want)
		}
	}
}
