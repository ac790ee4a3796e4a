package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// A Ruling is one of the three words of a verdict.
type Ruling string

// The rulings.
const (
	Pass         Ruling = "PASS"
	Fail         Ruling = "FAIL"
	Inconclusive Ruling = "INCONCLUSIVE"
)

// Limits are what a verdict asks for. A zero is the default.
type Limits struct {
	Comparisons int     `json:"comparisons"` // fewer are inconclusive; 100
	Bills       int     `json:"bills"`       // so are those of fewer distinct bills, where the operation is about bills; 30
	Mismatch    float64 `json:"mismatch"`    // what the true mismatch rate must lie below, for all that is known; 0.03, which 100 that are alike show
	Unclear     float64 `json:"unclear"`     // of all that was asked, more without an answer are inconclusive; 0.05
}

func (l Limits) filled() Limits {
	return Limits{cmp.Or(l.Comparisons, 100), cmp.Or(l.Bills, 30), cmp.Or(l.Mismatch, 0.03), cmp.Or(l.Unclear, 0.05)}
}

// A Verdict is what the comparisons of one partner and operation come to.
type Verdict struct {
	Partner   string `json:"partner"`
	Operation string `json:"operation"`
	Ruling    Ruling `json:"ruling"`
	Reason    string `json:"reason"`

	Compared int `json:"compared"`
	Bills    int `json:"bills"`
	Differed int `json:"differed"`
	Refused  int `json:"refused"`
	NotThere int `json:"not_there"`
	Moved    int `json:"moved"`
	Unclear  int `json:"unclear"`

	Bound  float64       `json:"bound"`  // the true mismatch rate is not above it, at 95 % confidence; see Assumption
	Fields []FieldReport `json:"fields"` // that differ: the gravest kinds first, then the most often, at most topFields
	More   int           `json:"more"`   // fields beyond those
}

// A FieldReport is one field that differs.
type FieldReport struct {
	Path string `json:"path"`
	Field
}

const topFields = 5

// Assumption is what the bound rests on.
const Assumption = "The bound is the exact one of Clopper and Pearson, one-sided, at 95 % confidence (none in n: about 3/n). " +
	"It takes the compared calls for independent draws from the calls that will come: calls of the same bill, or of a time " +
	"when some kind of bill was rare, say less than it claims."

// Judge gives the verdicts of what was counted, in its order. A difference in money, state or code is FAIL, however few
// calls there are. Any other is one where it is certain that the mismatch rate is above the limit, so that a field that is
// always wrong is no PASS. A bill that one side does not have counts neither for nor against.
func Judge(s Snapshot, limits Limits) []Verdict {
	limits = limits.filled()
	var all []Verdict
	for _, n := range s.Counts {
		v := Verdict{
			Partner: n.Partner, Operation: n.Operation, Compared: n.Compared, Bills: n.Bills.Number(), Differed: n.Differed,
			Refused: n.Refused, NotThere: n.NotThere, Moved: n.Moved, Unclear: n.Unclear,
			Bound: upperBound(n.Differed, n.Compared), Fields: []FieldReport{},
		}
		for path, f := range n.Fields {
			v.Fields = append(v.Fields, FieldReport{path, f})
		}
		slices.SortFunc(v.Fields, func(a, b FieldReport) int {
			return cmp.Or(cmp.Compare(rank(a.Kind), rank(b.Kind)), cmp.Compare(b.Count, a.Count), strings.Compare(a.Path, b.Path))
		})
		if len(v.Fields) > topFields {
			v.Fields, v.More = v.Fields[:topFields], len(v.Fields)-topFields
		}
		v.Ruling, v.Reason = n.rule(v, limits)
		all = append(all, v)
	}
	return all
}

// rank puts the kinds in the order in which they are shown.
func rank(k Kind) int { return slices.Index([]Kind{InMoney, InState, InCode, InOther}, k) }

func (n Count) rule(v Verdict, limits Limits) (Ruling, string) {
	var grave []string
	for _, path := range slices.Sorted(maps.Keys(n.Fields)) {
		if f := n.Fields[path]; f.Kind.Grave() {
			grave = append(grave, fmt.Sprintf("%s (%s) in %d", path, f.Kind, f.Count))
		}
	}
	asked := n.Compared + n.Unclear
	switch {
	case len(grave) > 0:
		return Fail, "differs: " + strings.Join(grave, ", ")
	case n.Compared < limits.Comparisons:
		return Inconclusive, fmt.Sprintf("%d compared, at least %d are needed", n.Compared, limits.Comparisons)
	case lowerBound(n.Differed, n.Compared) > limits.Mismatch:
		return Fail, fmt.Sprintf("%d of %d differ: certainly more than %s", n.Differed, n.Compared, percent(limits.Mismatch))
	case v.Bills > 0 && v.Bills < limits.Bills:
		return Inconclusive, fmt.Sprintf("%d distinct bills, at least %d are needed", v.Bills, limits.Bills)
	case float64(n.Unclear) > limits.Unclear*float64(asked):
		return Inconclusive, fmt.Sprintf("%d of %d had no answer", n.Unclear, asked)
	case v.Bound > limits.Mismatch:
		return Inconclusive, fmt.Sprintf("up to %s may differ, %s is the limit", percent(v.Bound), percent(limits.Mismatch))
	}
	return Pass, fmt.Sprintf("at most %s differ", percent(v.Bound))
}

// percent is a share for people, rounded up: it must not claim more than is known.
func percent(share float64) string {
	return fmt.Sprintf("%.2f %%", math.Ceil(share*10_000-1e-6)/100)
}

// missed is how often a bound may be wrong: 1 minus the confidence.
const missed = 0.05

// upperBound is the rate at which k or fewer mismatches in n calls would be seen in one of twenty cases. A higher rate
// would have shown more of them, so that the true one lies below it at 95 % confidence.
func upperBound(k, n int) float64 {
	switch {
	case k >= n:
		return 1 // also where nothing was compared, and nothing is known
	case k == 0:
		return -math.Expm1(math.Log(missed) / float64(n))
	}
	low, high := float64(k)/float64(n), 1.0
	for range 60 {
		middle := (low + high) / 2
		if atMost(k, n, middle) > missed {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// lowerBound is its mirror: the calls that are alike are the rest.
func lowerBound(k, n int) float64 {
	if n == 0 {
		return 0
	}
	return 1 - upperBound(n-k, n)
}

// atMost is the chance of k or fewer in n draws at a rate above k/n. There each term is less than the one after it, so
// that the sum begins with the greatest and ends where the rest is nothing.
func atMost(k, n int, rate float64) float64 {
	lgamma := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	term := math.Exp(lgamma(n) - lgamma(k) - lgamma(n-k) + float64(k)*math.Log(rate) + float64(n-k)*math.Log1p(-rate))
	sum := 0.0
	for i := k; i >= 0 && term > sum*1e-15; i-- {
		sum += term
		term *= float64(i) / float64(n-i+1) * (1 - rate) / rate
	}
	return sum
}
