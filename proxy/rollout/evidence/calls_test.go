package evidence_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"
)

// The probability equals the hypergeometric distribution, computed with integers.
func TestChanceOfMore(t *testing.T) {
	t.Parallel()
	for _, n := range [][4]int{{1, 1, 0, 1}, {5, 100, 0, 300}, {3, 10, 1, 40}, {20, 120, 0, 120}, {2, 100, 2, 300}, {100, 100, 99, 100}, {7, 50, 10, 1000}} {
		failed := n[0] + n[2]
		logChoose := func(n, k int) *big.Int { return new(big.Int).Binomial(int64(n), int64(k)) }
		sum := new(big.Int)
		for k := n[0]; k <= min(failed, n[1]); k++ {
			if failed-k <= n[3] {
				sum.Add(sum, new(big.Int).Mul(logChoose(n[1], k), logChoose(n[3], failed-k)))
			}
		}
		want, _ := new(big.Rat).SetFrac(sum, logChoose(n[1]+n[3], failed)).Float64()
		if got := evidence.ChanceOfMore(n[0], n[1], n[2], n[3]); math.Abs(got-want) > 1e-9*want+1e-15 {
			t.Errorf("%v: %g, want %g", n, got, want)
		}
	}
	for _, n := range [][4]int{{1, 100, 3, 300}, {0, 100, 0, 100}, {0, 0, 5, 10}, {1, 100, 2, 100}} {
		if got := evidence.ChanceOfMore(n[0], n[1], n[2], n[3]); got != 1 {
			t.Errorf("%v is not more often, but %g", n, got)
		}
	}
}

func TestVerdictOfCalls(t *testing.T) {
	t.Parallel()
	type backend map[string]int // calls by code
	for name, row := range map[string]struct {
		before, after backend
		creates       bool
		lack          string
		want          evidence.Ruling
		few           bool
		why           string
	}{
		"alike":                             {backend{"0000": 90, "BILL_001": 10}, backend{"0000": 90, "BILL_001": 10}, false, "", evidence.Pass, false, "no code more often than at the old backend"},
		"fewer failures at the new backend": {backend{"0000": 50, "BILL_001": 50}, backend{"0000": 100}, false, "", evidence.Pass, false, "no code more often than at the old backend"},
		"one too few":                       {backend{"0000": 100}, backend{"0000": 99}, false, "", evidence.Inconclusive, true, "calls: 99, at least 100 are needed"},
		"too few at the old backend":        {backend{"0000": 99}, backend{"0000": 100}, false, "", evidence.Inconclusive, true, "calls at the old backend to compare with: 99, at least 100 are needed"},
		"a failure that is new, once":       {backend{"0000": 1000}, backend{"0000": 99, "PARTNER_007": 1}, false, "", evidence.Inconclusive, false, "never at the old backend: PARTNER_007 1 of 100, at the old backend 0 of 1000"},
		"a failure that is new":             {backend{"0000": 1000}, backend{"0000": 95, "PARTNER_007": 5}, false, "", evidence.Fail, false, "significantly more often: PARTNER_007 5 of 100, at the old backend 0 of 1000"},
		"more often, not significantly":     {backend{"0000": 95, "BILL_001": 5}, backend{"0000": 92, "BILL_001": 8}, false, "", evidence.Pass, false, "no code more often than at the old backend"},
		"more often":                        {backend{"0000": 95, "BILL_001": 5}, backend{"0000": 70, "BILL_001": 30}, false, "", evidence.Fail, false, "significantly more often: BILL_001 30 of 100, at the old backend 5 of 100"},
		"no answers":                        {backend{"0000": 100}, backend{"0000": 80, "none": 20}, false, "", evidence.Fail, false, "significantly more often: none 20 of 100, at the old backend 0 of 100"},
		"of few calls, and significant":     {backend{"0000": 20}, backend{"ERROR": 20}, false, "", evidence.Fail, false, "significantly more often: ERROR 20 of 20, at the old backend 0 of 20"},
		"creates that fail less often":      {backend{"0000": 160, "BILL_007": 40}, backend{"0000": 200}, true, "", evidence.Fail, false, "significantly less often: BILL_007 0 of 200, at the old backend 40 of 200"},
		"others that fail less often":       {backend{"0000": 160, "BILL_002": 40}, backend{"0000": 200}, false, "", evidence.Pass, false, "no code more often than at the old backend"},
		"a little more of each code": {
			backend{"0000": 1990, "BILL_001": 2, "BILL_002": 2, "BILL_003": 2, "BILL_007": 2, "BILL_009": 2},
			backend{"0000": 165, "BILL_001": 3, "BILL_002": 3, "BILL_003": 3, "BILL_007": 3, "BILL_009": 3},
			false, "",
			evidence.Fail, false, "significantly more often: failures 15 of 180, at the old backend 10 of 2000",
		},
		"what cannot be carried": {backend{"0000": 200}, backend{}, false, "BILL_010 bill.sendType", evidence.Fail, false, "the form of the new backend cannot carry BILL_010 bill.sendType (calls: 1)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			counts := newCounts()
			for backend, calls := range map[evidence.Backend]backend{evidence.Old: row.before, evidence.New: row.after} {
				for code, n := range calls {
					for range n {
						counts.Ended(someone, "bill.create", backend, evidence.End{Code: code, Succeeded: true, Creates: row.creates})
					}
				}
			}
			if row.lack != "" {
				counts.Ended(someone, "bill.create", evidence.Old, evidence.End{Code: "0000", Succeeded: true, Unsupported: [2]string{"", row.lack}})
			}
			got := evidence.Verdicts(counts.Snapshot(), limits)
			if len(got) != 1 || got[0].Evidence != evidence.ByCalls || got[0].Ruling != row.want || got[0].Reason.String() != row.why || got[0].Few != row.few {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Calls of a key without a success are not counted; a partner's failures are, also after its counts were drained.
func TestCallsWithoutASuccessAreNotCounted(t *testing.T) {
	t.Parallel()
	counts := newCounts()
	fails := func() { counts.Ended(someone, "bill.create", evidence.New, evidence.End{Code: "PARTNER_003"}) }
	fails()
	if s := counts.Snapshot(); len(s) != 0 {
		t.Errorf("%+v", s)
	}
	counts.Ended(someone, "bill.read", evidence.New, evidence.End{Code: "0000", Succeeded: true})
	fails()
	if s := counts.Drain(); len(s) != 2 {
		t.Errorf("%+v", s)
	}
	fails()
	if s := counts.Snapshot(); len(s) != 1 || s[0].Codes["PARTNER_003"][evidence.New] != 1 {
		t.Errorf("%+v", s)
	}
	if counts.Add("", "bill.read", evidence.Comparison{Class: evidence.Same, Succeeded: [2]bool{true, true}}); len(counts.Snapshot()) != 1 {
		t.Error("a call that names no partner is counted")
	}
	counts.Know(partner.Of("refused"))
	if counts.Ended(partner.Of("refused"), "bill.create", evidence.New, evidence.End{Code: "PARTNER_006"}); len(counts.Snapshot()) != 2 {
		t.Error("a partner that is known is not counted")
	}
	counts.Forget(partner.Of("refused"))
	counts.Forget(partner.Of("else"))
	if s := counts.Snapshot(); len(s) != 1 {
		t.Errorf("%+v", s)
	}
	counts.Forget(someone)
	if s := counts.Snapshot(); len(s) != 0 {
		t.Errorf("%+v", s)
	}
}

// A read of a created bill is compared with its create.
func TestReadBackIsComparedWithTheCreate(t *testing.T) {
	t.Parallel()
	read := compileTable(t).Operation("bill.read")
	for name, row := range map[string]struct {
		body    string
		status  int
		want    evidence.Class
		differs string
	}{
		"unpaid, no amount":             {`{"billId":"1","apprState":"W","apprPrice":""}`, 200, evidence.Same, ""},
		"unpaid, zero":                  {`{"billId":"1","apprState":"W","apprPrice":0}`, 200, evidence.Same, ""},
		"unpaid, what was asked for":    {`{"billId":"1","apprState":"W","apprPrice":"30000"}`, 200, evidence.Same, ""},
		"unpaid, another amount":        {`{"billId":"1","apprState":"W","apprPrice":3000}`, 200, evidence.Differs, "apprPrice money 30000 (requested) 3000"},
		"paid":                          {`{"billId":"1","apprState":"F","apprPrice":30000}`, 200, evidence.Same, ""},
		"paid, another amount":          {`{"billId":"1","apprState":"F","apprPrice":"300000"}`, 200, evidence.Differs, "apprPrice money 30000 (requested) 300000"},
		"paid, nothing":                 {`{"billId":"1","apprState":"F","apprPrice":"0"}`, 200, evidence.Differs, "apprPrice money 30000 (requested) 0"},
		"paid, no amount shown":         {`{"billId":"1","apprState":"F"}`, 200, evidence.NoAnswer, ""},
		"destroyed by then":             {`{"billId":"1","apprState":"D"}`, 200, evidence.Moved, ""},
		"cancelled by then":             {`{"billId":"1","apprState":"C","apprPrice":"1"}`, 200, evidence.Moved, ""},
		"a state that there is not":     {`{"billId":"1","apprState":"X"}`, 200, evidence.Differs, "apprState state unpaid (requested) X"},
		"another bill":                  {`{"billId":"2","apprState":"W"}`, 200, evidence.Differs, "billId bill (requested) (another)"},
		"not found":                     {`{"code":"BILL_003","message":"no","data":null}`, 200, evidence.NotThere, ""},
		"not found, in the other form":  {`{"code":"9980","message":"no","data":null}`, 200, evidence.Differs, "(code) code 0000 9980"},
		"refused":                       {`{"code":"PARTNER_006","message":"no","data":null}`, 200, evidence.Differs, "(code) code 0000 PARTNER_006"},
		"maintenance":                   {`{"code":"MAINTAINED_METHOD","message":"no","data":null}`, 200, evidence.NoAnswer, ""},
		"no answer":                     {`<html>`, 502, evidence.NoAnswer, ""},
		"a success that shows nothing":  {`{"billId":"1","apprPrice":"30000"}`, 200, evidence.NoAnswer, ""},
		"its bill, the amount as a sum": {`{"billId":"1","apprState":"F","apprPrice":30000.0}`, 200, evidence.Differs, "apprPrice money 30000 (requested) 30000.0"},
	} {
		a := answer("v2", row.body)
		a.Status = row.status
		got := evidence.CompareCreated(read, "1", "30000", a)
		if got.Class != row.want || shownDifferences(got) != row.differs || !got.ReadBack || got.Bill != "1" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A bill of canary that a read does not show gives INCONCLUSIVE; a difference in it gives FAIL.
func TestVerdictOfReadBacks(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		last evidence.Comparison
		want evidence.Ruling
		why  string
	}{
		"alike":     {evidence.Comparison{Class: evidence.Same}, evidence.Pass, "at most 2.45 % differ"},
		"not shown": {evidence.Comparison{Class: evidence.NotThere}, evidence.Inconclusive, "1 of 121 bills were not shown by a read after their create"},
		"money":     {evidence.Comparison{Class: evidence.Differs, Differences: []evidence.Difference{{Path: "apprPrice", Kind: evidence.InMoney}}}, evidence.Fail, "differs: apprPrice (money) in 1"},
		"bill":      {evidence.Comparison{Class: evidence.Differs, Differences: []evidence.Difference{{Path: "billId", Kind: evidence.InBill}}}, evidence.Fail, "differs: billId (bill) in 1"},
	} {
		counts := evidence.NewCounts("t", func() time.Time { return since })
		for i := range 120 {
			counts.Add(someone, "bill.create", evidence.Comparison{Class: evidence.Same, Bill: string(rune('a' + i)), Succeeded: [2]bool{true, true}, ReadBack: true})
		}
		row.last.Bill, row.last.ReadBack, row.last.Succeeded = "last", true, [2]bool{true, true}
		counts.Add(someone, "bill.create", row.last)
		got := evidence.Verdicts(counts.Snapshot(), limits)
		if len(got) != 1 || got[0].Evidence != evidence.ByReadBack || got[0].Ruling != row.want || got[0].Reason.String() != row.why {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Replies that do not fit their documented type give INCONCLUSIVE if those of the old backend fit.
func TestVerdictOfMismatches(t *testing.T) {
	t.Parallel()
	for _, at := range []struct {
		old  int
		want evidence.Ruling
	}{{0, evidence.Inconclusive}, {200, evidence.Pass}} {
		counts := newCounts()
		for i := range 200 {
			end := evidence.End{Code: "0000", Succeeded: true}
			if i < at.old {
				end.Mismatched = []string{"apprPrice"}
			}
			counts.Ended(someone, "bill.read", evidence.Old, end)
			counts.Ended(someone, "bill.read", evidence.New, evidence.End{Code: "0000", Succeeded: true, Mismatched: []string{"apprPrice"}})
		}
		if got := evidence.Verdicts(counts.Snapshot(), limits); len(got) != 1 || got[0].Ruling != at.want || got[0].Few {
			t.Errorf("%+v", got)
		}
	}
}
