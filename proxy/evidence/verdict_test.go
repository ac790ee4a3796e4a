package evidence_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"

	"github.com/google/go-cmp/cmp"
)

// If none or all but one differ, the probability is a power, so that the bound is known: also for more comparisons than a rollout has.
func TestBoundsOfRareDifferences(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 10, 1000, 1_000_000, math.MaxInt32} {
		none, one := -math.Expm1(math.Log(0.05)/float64(n)), -math.Expm1(math.Log(0.95)/float64(n))
		if upper := evidence.UpperBound(0, n); math.Abs(upper-none) > none*1e-9 {
			t.Errorf("0 of %d: at most %g, want %g", n, upper, none)
		}
		if lower := evidence.LowerBound(1, n); math.Abs(lower-one) > one*1e-5+1e-15 {
			t.Errorf("1 of %d: at least %g, want %g", n, lower, one)
		}
	}
}

// The limits of PASS and FAIL and their bounds equal those of a summation of the binomial distribution: another way to compute
// them must not change a verdict.
func TestVerdictsMatchTheBinomialDistribution(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		limit        float64
		compared     int
		pass, fail   int // the most that differ for PASS, -1 for none; the fewest for FAIL
		upper, lower float64
	}{
		{0.001, 250, -1, 2, 1, 0.001423284000},
		{0.001, 100000, 83, 118, 0.000996138076, 0.001007268236},
		{0.01, 1000, 4, 16, 0.009129952564, 0.010061014596},
		{0.01, 2000000, 19768, 20233, 0.009999835104, 0.010000383183},
		{0.03, 100, 0, 7, 0.029513049607, 0.033311915618},
		{0.03, 250, 2, 13, 0.024967681769, 0.031028818204},
		{0.03, 1000, 20, 40, 0.028930122851, 0.030330486490},
		{0.03, 100000, 2911, 3090, 0.029999610102, 0.030004968891},
		{0.1, 100, 4, 16, 0.089196250159, 0.103011199516},
		{0.1, 1000, 84, 117, 0.099857299052, 0.100633795109},
		{0.1, 2000000, 199301, 200699, 0.099999561657, 0.100000209931},
	} {
		upper, lower := evidence.UpperBound(row.pass, row.compared), evidence.LowerBound(row.fail, row.compared)
		if row.pass >= 0 && math.Abs(upper-row.upper) > 1e-12 || math.Abs(lower-row.lower) > 1e-12 {
			t.Errorf("of %d: at most %.12f and at least %.12f, want %.12f and %.12f", row.compared, upper, lower, row.upper, row.lower)
		}
		for _, at := range []struct {
			differed int
			want     evidence.Ruling
		}{{row.pass, evidence.Pass}, {row.pass + 1, evidence.Inconclusive}, {row.fail - 1, evidence.Inconclusive}, {row.fail, evidence.Fail}} {
			if at.differed < 0 {
				continue
			}
			counted := []evidence.Count{{Partner: someone, Operation: "bill.read", Compared: row.compared, Tally: evidence.Tally{Differed: at.differed}}}
			v := evidence.Verdicts(counted, evidence.Limits{Comparisons: 100, Mismatch: row.limit, Success: "0000"})
			if len(v) != 1 || v[0].Ruling != at.want {
				t.Errorf("%d of %d differ, the limit is %g: %+v, want %s", at.differed, row.compared, row.limit, v, at.want)
			}
		}
	}
}

// Impossible counts from the store must not end the process.
func TestBoundsOfImpossibleCountsDoNotPanic(t *testing.T) {
	t.Parallel()
	for _, n := range [][2]int{{-1, 10}, {11, 10}, {1, -1}, {-2, -1}, {0, 0}, {math.MinInt32, math.MaxInt32}, {math.MaxInt32 - 1, math.MaxInt32}} {
		lower, upper := evidence.LowerBound(n[0], n[1]), evidence.UpperBound(n[0], n[1])
		if math.IsNaN(lower) || math.IsNaN(upper) {
			t.Errorf("%d of %d: %f to %f", n[0], n[1], lower, upper)
		}
	}
}

var must = proxytest.Must

var since = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// limits are the defaults of the config.
var limits = evidence.Limits{Comparisons: 100, Bills: 30, Paid: 5, Mismatch: 0.03, Unclear: 0.05, Success: "0000"}

func newCounts() *evidence.Counts {
	return evidence.NewCounts("0123456789ab", func() time.Time { return since })
}

func TestR46_Verdict(t *testing.T) {
	t.Parallel()
	for _, cells := range proxytest.Rows(t, "testdata/verdicts.txt") {
		t.Run(cells[0], func(t *testing.T) {
			t.Parallel()
			counts := newCounts()
			by := evidence.ByShadow
			for part := range strings.SplitSeq(cells[1], ", ") {
				if counted(t, counts, strings.Fields(part)) == "bill.create" {
					by = evidence.ByReadBack
				}
			}
			got := evidence.Verdicts(counts.Snapshot(), limits)
			if len(got) != 1 || got[0].Evidence != by || string(got[0].Ruling) != cells[2] || got[0].Reason.String() != cells[3] {
				t.Errorf("%+v, want %s: %s", got, cells[2], cells[3])
			}
		})
	}
}

// counted counts the comparisons of words of testdata/verdicts.txt, and returns their operation.
func counted(t *testing.T, counts *evidence.Counts, words []string) (operation string) {
	t.Helper()
	n, err := strconv.Atoi(words[0])
	must(t, err)
	operation, paid, times := "bill.read", 0, 1
	c := evidence.Comparison{Class: evidence.Same, Succeeded: [2]bool{true, true}}
	noBill := false
	for _, word := range words[1:] {
		number, isPaid := strings.CutPrefix(word, "paid:")
		repeats, isTimes := strings.CutPrefix(word, "x")
		switch {
		case isPaid:
			paid, err = strconv.Atoi(number)
			c.States = true
			fallthrough
		case word == "created":
			operation, c.ReadBack = "bill.create", true
		case isTimes:
			times, err = strconv.Atoi(repeats)
		case word == "nobill":
			noBill = true
		case word == "refused":
			c.Succeeded = [2]bool{}
		case slices.Contains(evidence.Classes, evidence.Class(word)):
			c.Class = evidence.Class(word)
		case c.Differences == nil:
			c.Class, c.Differences = evidence.Differs, []evidence.Difference{{Path: word, Old: "9", New: "99"}}
		default:
			c.Differences[0].Kind = evidence.Kind(word)
		}
		must(t, err)
	}
	for range times {
		for i := range n {
			if c.Bill, c.Paid = fmt.Sprint("bill-", c.Class, c.ReadBack && c.Class != evidence.Same, i), i < paid; noBill {
				c.Bill = ""
			}
			counts.Add(someone, operation, c)
		}
	}
	return operation
}

// The merged counts of two replicas equal those of one replica that made all comparisons.
func TestCountsMerge(t *testing.T) {
	t.Parallel()
	one, a, b := newCounts(), newCounts(), evidence.NewCounts("0123456789ab", func() time.Time { return since.Add(-time.Hour) })
	for i := range 2000 {
		c := evidence.Comparison{Class: evidence.Classes[i%5], Bill: fmt.Sprint("bill-", i%700), Succeeded: [2]bool{true, true}, At: since.Add(time.Duration(i) * time.Second)}
		if c.Class == evidence.Differs {
			c.Differences = []evidence.Difference{{Path: fmt.Sprint("field", i/10%4), Kind: evidence.InOther, Old: "9", New: "a"}}
		}
		operation := []string{"bill.read", "mapping.list"}[i/40%2]
		one.Add(someone, operation, c)
		[]*evidence.Counts{a, b}[i%2].Add(someone, operation, c)
	}
	kept, err := json.Marshal(b.Snapshot())
	must(t, err)
	var read []evidence.Count
	must(t, json.Unmarshal(kept, &read))
	a.Merge(read)
	want := one.Snapshot()
	for i := range want {
		want[i].Since = since.Add(-time.Hour)
	}
	if diff := cmp.Diff(want, a.Snapshot()); diff != "" {
		t.Error(diff)
	}
}

// Later counts do not change a snapshot.
func TestSnapshotIsACopy(t *testing.T) {
	t.Parallel()
	counts := newCounts()
	counted(t, counts, strings.Fields("10 apprNum other"))
	s := counts.Snapshot()
	before, err := json.Marshal(s)
	must(t, err)
	counted(t, counts, strings.Fields("500 apprNum other"))
	if after, err := json.Marshal(s); err != nil || string(after) != string(before) {
		t.Errorf("%s, then %s, %v", before, after, err)
	}
}

// The example of a field is the earliest one of the gravest kind, whatever the order in which replicas are merged.
func TestExampleIsTheFirst(t *testing.T) {
	t.Parallel()
	at := func(minute int, kind evidence.Kind) []evidence.Count {
		counts := newCounts()
		counts.Add(someone, "bill.read", evidence.Comparison{
			Class: evidence.Differs, Bill: fmt.Sprint("bill-", 9-minute), Succeeded: [2]bool{true, true}, At: since.Add(time.Duration(minute) * time.Minute),
			Differences: []evidence.Difference{{Path: "apprPrice", Kind: kind}},
		})
		return counts.Snapshot()
	}
	all := [][]evidence.Count{at(1, evidence.InOther), at(2, evidence.InMoney), at(3, evidence.InMoney)}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		merged := newCounts()
		for _, i := range order {
			merged.Merge(all[i])
		}
		if f := merged.Snapshot()[0].Fields["apprPrice"]; f.Count != 3 || f.Kind != evidence.InMoney || f.Bill != "bill-7" || !f.At.Equal(since.Add(2*time.Minute)) {
			t.Errorf("%v: %+v", order, f)
		}
	}
}

// The size of the counts is bounded, whatever partners send.
func TestCountsAreBounded(t *testing.T) {
	t.Parallel()
	counts := newCounts()
	for i := range 10_000 {
		// Keys without a success get no place.
		counts.Add(partner.ID(fmt.Sprint("nobody-", i)), "bill.read", evidence.Comparison{Class: evidence.NotThere})
	}
	if s := counts.Snapshot(); len(s) != 0 {
		t.Errorf("%d counts", len(s))
	}
	for i := range 200_000 {
		c := evidence.Comparison{
			Class: evidence.Differs, Bill: fmt.Sprint("bill-", i), Succeeded: [2]bool{true, false},
			Differences: []evidence.Difference{{Path: "apprNum", Kind: evidence.InOther}},
		}
		counts.Add(someone, "bill.read", c)
		if i < 5000 {
			counts.Add(partner.ID(fmt.Sprint("partner-", i)), "bill.read", c)
		}
	}
	s := counts.Snapshot()
	first := s[0]
	if len(s) != 4096 || len(first.Bills) != 256 {
		t.Errorf("%d counts, %d hashes", len(s), len(first.Bills))
	}
}

// The new backend must have all bills that the old one has, but for a few. Bills that the old one does not have do not matter.
func TestVerdictOfBillsThatOneBackendDoesNotHave(t *testing.T) {
	t.Parallel()
	for want, reads := range map[string]map[[2]bool]int{
		"the new backend did not have the bills of 1000 of 1003 reads: it must have all of them": {{true, true}: 3, {true, false}: 1000},
		"the new backend did not have the bills of 60 of 120 reads: it must have all of them":    {{true, true}: 60, {true, false}: 60},
		"comparisons: 0, at least 100 are needed":                                                {{false, true}: 500, {false, false}: 500},
		"at most 2.96 % differ": {{true, true}: 100, {true, false}: 5, {false, true}: 5000},
	} {
		counts := newCounts()
		for succeeded, n := range reads {
			class := evidence.NotThere
			if succeeded == [2]bool{true, true} {
				class = evidence.Same
			}
			counts.Add(someone, "bill.create", evidence.Comparison{Class: evidence.Same, Succeeded: [2]bool{true, true}}) // the partner is known
			for i := range n {
				more := newCounts()
				more.Know(someone)
				more.Add(someone, "bill.read", evidence.Comparison{Class: class, Bill: fmt.Sprint(i), Succeeded: succeeded})
				counts.Merge(more.Snapshot())
			}
		}
		for _, v := range evidence.Verdicts(counts.Snapshot(), limits) {
			if v.Operation == "bill.read" && v.Reason.String() != want {
				t.Errorf("%q, want %q", v.Reason, want)
			}
		}
	}
}

func TestPercent(t *testing.T) {
	t.Parallel()
	for rate, want := range map[float64]string{0: "0.00 %", 0.01: "1.00 %", 0.010001: "1.01 %", 1: "100.00 %"} {
		if got := evidence.Percent(rate); got != want {
			t.Errorf("%v is %s, want %s", rate, got, want)
		}
	}
}
