package evidence

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"billbridge/proxy/partner"
)

// A Ruling is the result of a verdict.
type Ruling string

// The rulings.
const (
	Pass         Ruling = "PASS"
	Fail         Ruling = "FAIL"
	Inconclusive Ruling = "INCONCLUSIVE"
)

// Rulings are all rulings.
var Rulings = []Ruling{Pass, Fail, Inconclusive}

// Limits are the limits of verdicts.
type Limits struct {
	Comparisons int     `json:"comparisons"` // with fewer, or fewer calls, a verdict is inconclusive
	Bills       int     `json:"bills"`       // also with fewer distinct bills, if the operation is about bills
	Paid        int     `json:"paid"`        // also with fewer distinct paid bills, if the operation shows states
	Mismatch    float64 `json:"mismatch"`    // the upper bound of the mismatch rate must not be above it
	Unclear     float64 `json:"unclear"`     // a larger part without an answer is inconclusive
	// the code of a success in the catalogue
	Success string `json:"-"`
}

// Evidence is the kind of evidence of a verdict.
type Evidence string

// The evidence.
const (
	ByShadow   Evidence = "shadow"    // the answers of both backends to the same reads
	ByReadBack Evidence = "read back" // bills of canary, as a read at the new backend showed them after their create
	ByCalls    Evidence = "calls"     // calls at the new backend, compared with those at the old one
)

// A Verdict is the ruling on one partner and operation, with the counts that it depends on.
type Verdict struct {
	Partner   partner.ID `json:"partner"`        // full; in a report for people, short
	Name      string     `json:"name,omitempty"` // of the partner; in a report for people
	Operation string     `json:"operation"`
	Evidence  Evidence   `json:"evidence"`
	Ruling    Ruling     `json:"ruling"`
	Reason    Note       `json:"reason"`
	Few       bool       `json:"few,omitempty"` // INCONCLUSIVE only because there were too few comparisons or calls
	// INCONCLUSIVE only because too few of the bills were paid; Few is true then
	Unpaid bool `json:"unpaid,omitempty"`
	// FAIL only because calls at the new backend had no answer, as in an outage
	NoAnswer bool `json:"no_answer,omitempty"`

	*Compared  `json:"compared,omitempty"`   // ByShadow, ByReadBack
	*CallStats `json:"call_stats,omitempty"` // ByCalls
}

// Compared are the counts of comparisons.
type Compared struct {
	Number int `json:"number"`
	Bills  int `json:"bills"`
	Paid   int `json:"paid"` // of Bills
	Tally

	Bound  float64 `json:"bound"`  // the upper bound of the mismatch rate at 95 % confidence; see Assumption
	Fields []Field `json:"fields"` // that differ, sorted by kind, the gravest first, and count
}

// Assumption describes the bound and its assumptions.
const Assumption = "The bound is the exact one of Clopper and Pearson, " +
	"one-sided, at 95 % confidence (none in n: about 3/n). " +
	"It assumes that the compared calls are independent and like the later ones. " +
	"If many of them are about the same bills, or if some kind of bill was rare at the time, " +
	"the true rate can be higher."

// Verdicts gives the verdicts of what was counted, in its order, by the rules of moves/README.md ("The report").
func Verdicts(counted []Count, limits Limits) []Verdict {
	all := []Verdict{}
	give := func(v Verdict, r Ruling, why Note) {
		v.Ruling, v.Reason = r, why
		v.Unpaid, v.NoAnswer = why.Kind == "paid", why.Kind == "no_answers"
		v.Few = slices.Contains([]string{"comparisons", "bills", "paid", "calls", "calls_at_old"}, why.Kind)
		all = append(all, v)
	}
	for _, n := range counted {
		v := Verdict{Partner: n.Partner, Operation: n.Operation, Evidence: ByCalls, CallStats: &n.CallStats}
		if n.Unread != nil { // what there is beside it is not all
			give(v, Inconclusive, Say("unchecked", n.Unread))
			continue
		}
		// A create is a write: its comparisons are those of the created bills.
		if n.Compared+n.Refused+n.NotThere+n.Moved+n.Unclear > 0 {
			v := Verdict{Partner: n.Partner, Operation: n.Operation, Evidence: ByShadow, Compared: n.compared()}
			if n.Creates {
				v.Evidence = ByReadBack
			}
			r, why := n.rule(v.Evidence, v.Compared, limits)
			give(v, r, why)
		}
		if n.Calls[New]+len(n.Unsupported[New]) > 0 {
			r, why := n.CallStats.rule(limits, n.Creates)
			give(v, r, why)
		}
	}
	return all
}

// Together is the ruling of all verdicts of a partner: FAIL if one is, then INCONCLUSIVE, then PASS. A verdict that
// is INCONCLUSIVE only for too few calls counts if there is no other. It is "" without verdicts.
func Together(verdicts []Verdict) Ruling {
	for _, first := range []Verdict{
		{Ruling: Fail}, {Ruling: Inconclusive}, {Ruling: Pass}, {Ruling: Inconclusive, Few: true},
	} {
		for _, v := range verdicts {
			if v.Ruling == first.Ruling && v.Few == first.Few {
				return v.Ruling
			}
		}
	}
	return ""
}

func (n Count) compared() *Compared {
	c := &Compared{
		Number: n.Compared, Bills: len(n.Bills), Paid: len(n.Paid), Tally: n.Tally,
		Bound: upperBound(n.Differed, n.Compared), Fields: slices.AppendSeq([]Field{}, maps.Values(n.Fields)),
	}
	slices.SortFunc(c.Fields, func(a, b Field) int {
		return cmp.Or(cmp.Compare(rank(a.Kind), rank(b.Kind)), cmp.Compare(b.Count, a.Count),
			strings.Compare(a.Path, b.Path))
	})
	return c
}

// rank is the place of a kind in a report.
func rank(k Kind) int {
	return slices.Index([]Kind{InBill, InMoney, InState, InExact, InCode, InOther}, k)
}

func (n Count) rule(by Evidence, c *Compared, limits Limits) (Ruling, Note) {
	of := Say("reads")
	if by == ByReadBack {
		of = Say("bills_read_back")
	}
	var grave []Note
	for _, path := range slices.Sorted(maps.Keys(n.Fields)) {
		switch f := n.Fields[path]; f.Kind {
		case InOther:
		case InCode:
			grave = append(grave, Say("codes", f.Count, n.Compared, of, f.Old, f.New))
		default:
			grave = append(grave, Say("field", f.Count, n.Compared, of, path, f.Kind, f.Old, f.New))
		}
	}
	asked := n.Compared + n.Unclear
	switch {
	case len(grave) > 0:
		return Fail, Say("list", grave)
	case by == ByReadBack && n.NotThere > 0:
		return Inconclusive, Say("not_there", n.NotThere, asked+n.NotThere+n.Moved)
	case by == ByReadBack && float64(n.Moved) > limits.Unclear*float64(asked+n.Moved):
		return Inconclusive, Say("moved", n.Moved, asked+n.Moved)
	case by == ByShadow && float64(n.OldOnly) > limits.Unclear*float64(n.Compared+n.OldOnly):
		return Inconclusive, Say("old_only", n.OldOnly, n.Compared+n.OldOnly)
	case n.Compared < limits.Comparisons:
		return Inconclusive, Say("comparisons", n.Compared, limits.Comparisons)
	case lowerBound(n.Differed, n.Compared) > limits.Mismatch:
		return Fail, Say("certain", n.Differed, n.Compared, Percent(limits.Mismatch))
	case c.Bills > 0 && c.Bills < limits.Bills:
		return Inconclusive, Say("bills", c.Bills, limits.Bills)
	case float64(n.Unclear) > limits.Unclear*float64(asked):
		return Inconclusive, Say("unclear", n.Unclear, asked)
	case c.Bound > limits.Mismatch:
		return Inconclusive, Say("bound", Percent(c.Bound), Percent(limits.Mismatch))
	case n.States && c.Paid < limits.Paid:
		return Inconclusive, Say("paid", c.Paid, limits.Paid)
	}
	return Pass, Say("pass", Percent(c.Bound))
}

// byChance is the significance level: with a smaller probability a difference between the backends is not by chance.
const byChance = 0.001

func (b *CallStats) rule(limits Limits, creates bool) (Ruling, Note) {
	compared := func(kind Note, times [2]int) Note {
		return Say("compared", kind, times[New], b.Calls[New], times[Old], b.Calls[Old])
	}
	more := func(times [2]int) bool {
		return chanceOfMore(times[New], b.Calls[New], times[Old], b.Calls[Old]) < byChance
	}
	var lacking, against, less, open []Note
	for _, why := range slices.Sorted(maps.Keys(b.Unsupported[New])) {
		lacking = append(lacking, Say("unsupported", why, b.Unsupported[New][why].Count))
	}
	failed, answers, unanswered := b.Calls, false, b.Codes[None]
	answered := [2]int{b.Calls[Old] - unanswered[Old], b.Calls[New] - unanswered[New]}
	for _, code := range slices.Sorted(maps.Keys(b.Codes)) {
		switch times := b.Codes[code]; {
		case code == limits.Success:
			failed = [2]int{failed[Old] - times[Old], failed[New] - times[New]}
		case more(times):
			against = append(against, compared(Say("more", code), times))
			answers = answers || code != None
		case creates && code != None && chanceOfMore(times[Old], answered[Old], times[New], answered[New]) < byChance:
			// Only for creates: the failures of other calls depend on their bills, and the bills of the old backend
			// are older.
			less = append(less, compared(Say("less", code), times))
		case times[Old] == 0:
			open = append(open, compared(Say("never", code), times))
		}
	}
	noAnswers := len(against) > 0 && !answers && len(less) == 0
	if against = append(against, less...); len(against) == 0 && more(failed) {
		against = append(against, compared(Say("more_failures"), failed))
	}
	for _, field := range slices.Sorted(maps.Keys(b.Mismatched)) {
		// Some values are always missing of some bills: their rate changes.
		if t := b.Mismatched[field]; more(t) && 10*t[Old]*b.Calls[New] < t[New]*b.Calls[Old] {
			open = append(open, compared(Say("other_type", field), t))
		}
	}
	switch {
	case len(lacking) > 0:
		return Fail, Say("cannot_carry", lacking)
	case noAnswers:
		return Fail, Say("no_answers", against)
	case len(against) > 0:
		return Fail, Say("list", against)
	case len(open) > 0:
		return Inconclusive, Say("list", open)
	case b.Calls[New] < limits.Comparisons:
		return Inconclusive, Say("calls", b.Calls[New], limits.Comparisons)
	case b.Calls[Old] < limits.Comparisons:
		return Inconclusive, Say("calls_at_old", b.Calls[Old], limits.Comparisons)
	}
	return Pass, Say("pass_calls")
}

// chanceOfMore is the probability that so many or more of all occurrences are at the new backend if the rate is the
// same at both: the one-sided exact test of Fisher.
func chanceOfMore(atNew, ofNew, atOld, ofOld int) float64 {
	failed, all := atNew+atOld, ofNew+ofOld
	if atNew*ofOld <= atOld*ofNew { // not more often
		return 1
	}
	sum := 0.0
	for k := atNew; k <= min(failed, ofNew); k++ {
		term := math.Exp(logChoose(ofNew, k) + logChoose(ofOld, failed-k) - logChoose(all, failed))
		if sum += term; term <= sum*1e-15 { // after the largest term, each is smaller than the one before
			break
		}
	}
	return sum
}

// logChoose is the logarithm of the number of ways to choose k of n.
func logChoose(n, k int) float64 {
	all, _ := math.Lgamma(float64(n) + 1)
	chosen, _ := math.Lgamma(float64(k) + 1)
	left, _ := math.Lgamma(float64(n-k) + 1)
	return all - chosen - left
}

// Percent is a rate for people, rounded up, so that a bound is not shown too small.
func Percent(rate float64) string {
	return fmt.Sprintf("%.2f %%", max(0, math.Ceil(rate*10_000-1e-6))/100)
}

// missed is the probability that a bound is wrong: 1 minus the confidence.
const missed = 0.05

// upperBound is the upper bound of Clopper and Pearson for the rate of which k in n were seen: at a higher rate, the
// probability of k or fewer is below missed.
func upperBound(k, n int) float64 {
	if k = max(k, 0); k >= n {
		return 1 // also if nothing was compared
	}
	low, high := float64(k)/float64(n), 1.0
	for {
		rate, sum, term := (low+high)/2, 0.0, 1.0
		if rate == low || rate == high { // there is no number between them
			return high
		}
		for i := k; i >= 0 && term > sum*1e-17; i-- { // each is smaller than the one before
			term = math.Exp(logChoose(n, i) + float64(i)*math.Log(rate) + float64(n-i)*math.Log1p(-rate))
			sum += term
		}
		if sum < missed {
			high = rate
		} else {
			low = rate
		}
	}
}

// lowerBound is the lower bound, by the upper bound for the equal calls.
func lowerBound(k, n int) float64 { return 1 - upperBound(n-k, n) }
