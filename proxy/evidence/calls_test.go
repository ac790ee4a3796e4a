package evidence_test

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"billbridge/proxy/evidence"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
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
	for _, cells := range proxytest.Rows(t, "testdata/calls.txt") {
		t.Run(cells[0], func(t *testing.T) {
			t.Parallel()
			counts := newCounts()
			for backend, calls := range cells[1:3] {
				for call := range strings.FieldsSeq(calls) {
					code, number, _ := strings.Cut(call, ":")
					n, err := strconv.Atoi(number)
					must(t, err)
					for range n {
						counts.Ended(someone, "bill.create", evidence.Backend(backend), evidence.End{Code: code, Succeeded: true, Creates: cells[3] != ""})
					}
				}
			}
			if lack := cells[4]; lack != "" {
				counts.Ended(someone, "bill.create", evidence.Old, evidence.End{Code: "0000", Succeeded: true, Unsupported: [2]string{"", lack}})
			}
			got := evidence.Verdicts(counts.Snapshot(), limits)
			if len(got) != 1 || got[0].Evidence != evidence.ByCalls || string(got[0].Ruling) != cells[5] || got[0].Few != (cells[6] != "") ||
				got[0].NoAnswer != strings.HasPrefix(cells[7], "calls without") || got[0].Reason.String() != cells[7] {
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
	for _, cells := range proxytest.Rows(t, "testdata/readbacks.txt") {
		got := evidence.CompareCreated(read, "1", "30000", answerIn(cells[1]))
		if string(got.Class) != cells[2] || shownDifferences(got) != cells[3] || !got.ReadBack || got.Bill != "1" {
			t.Errorf("%s: %+v", cells[0], got)
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
