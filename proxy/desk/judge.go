package desk

import (
	"cmp"
	"slices"
	"strings"
)

// The results of a case, as those of the OpenID suite.
const (
	Passed  = "PASSED"
	Warning = "WARNING"
	Failed  = "FAILED"
	Skipped = "SKIPPED"
	Unknown = "UNKNOWN" // not run, or not to its end
	// Interrupted is the outcome of a run with a result that is unknown.
	Interrupted = "INTERRUPTED"
)

// A Verdict is the result of a case.
type Verdict struct {
	Case     string    `json:"case"`
	Result   string    `json:"result"`
	Text     string    `json:"text,omitempty"` // why it is skipped or unknown
	Findings []Finding `json:"findings,omitempty"`
}

// A Finding is a condition that is not met.
type Finding struct {
	Condition string `json:"condition"`
	Level     string `json:"level"` // FAIL or WARN
	Text      string `json:"text"`
	Records   []int  `json:"records,omitempty"` // that show it
}

// A window has the records of a case.
type window struct {
	plan Plan
	recs []Record
	// The condition that is checked is about an order, and has parameters.
	order string
	args  []string
}

// judge returns the verdict of a case by the records of a run. It depends on its arguments only.
func judge(p Plan, c Case, recs []Record) Verdict {
	recs = slices.DeleteFunc(slices.Clone(recs), func(r Record) bool { return r.Case != c.ID })
	v := Verdict{Case: c.ID, Result: Passed}
	w := &window{plan: p, recs: recs}
	need := p.lacks(c.Needs)
	switch {
	case need != "":
		v.Result, v.Text = Skipped, "the plan does not declare "+need
		return v
	case len(recs) == 0:
		v.Result = Unknown
		return v
	}
	failed, onlyHook := false, true // the hook alone fails the case
	for _, text := range append([]string{"says", "one-bill", "amount", "agrees"}, c.Watch...) {
		level := "FAIL"
		if rest, warn := strings.CutPrefix(text, "warn "); warn {
			text, level = rest, "WARN"
		}
		name, order := words(text)
		if name[0] == "one-bill" && slices.Contains(c.Watch, "one-made") {
			continue
		}
		w.order, w.args = order, name[1:]
		if f := conditions[name[0]](w); f != nil {
			v.Findings, v.Result = append(v.Findings, Finding{text, level, f.Text, f.Records}), Warning
			if level == "FAIL" {
				failed, onlyHook = true, onlyHook && (text == "agrees" || text == "says")
			}
		}
	}
	w.order = "a"
	_, ended := first(recs, func(r Record) bool { return r.Book != nil })
	stopped, _ := first(recs, func(r Record) bool { return r.Error != "" })
	_, called := first(recs, func(r Record) bool { return r.Call != nil })
	noCreate := len(w.calls("bill.create"))+len(w.book()) == 0
	switch {
	case noCreate && onlyHook, stopped.Error != "" && (onlyHook || !called), !ended:
		v.Result, v.Text, v.Findings = Unknown, cmp.Or(stopped.Error, errNoBill.Error()), nil
	case failed:
		v.Result = Failed
	}
	return v
}

// ExitCodes are the exit codes of commands by the outcome of a run; 0 for PASSED.
var ExitCodes = map[string]int{Failed: 1, Interrupted: 2}

// Outcome is the result of a run: FAILED, INTERRUPTED or PASSED, whichever comes first.
func (res Result) Outcome() string {
	outcome := Passed
	for _, v := range res.Verdicts {
		switch v.Result {
		case Failed:
			return Failed
		case Unknown:
			outcome = Interrupted
		}
	}
	return outcome
}

// writes are the operations that "write" stands for.
var writes = []string{"bill.create", "bill.destroy", "bill.cancel"}

// calls returns the calls of an operation for the order, or of any if it is empty, as records.
func (w *window) calls(operation string) []Record {
	return slices.DeleteFunc(slices.Clone(w.recs), func(r Record) bool {
		return r.Call == nil || r.Order != w.order || operation != "" && r.Call.Operation != operation &&
			(operation != "write" || !slices.Contains(writes, r.Call.Operation))
	})
}

// book returns the states of the bills of the order at the end of the case.
func (w *window) book() map[string]string {
	r, _ := first(w.recs, func(r Record) bool { return r.Book != nil && r.Order == w.order })
	return r.Book
}

// last returns the last answer of the hook about the order, if there is one.
func (w *window) last() (last Record) {
	for _, r := range w.recs {
		if r.Hook != nil && r.Order == w.order {
			last = r
		}
	}
	return last
}

// first returns the first record that matches.
func first(recs []Record, matches func(Record) bool) (Record, bool) {
	i := slices.IndexFunc(recs, matches)
	if i < 0 {
		return Record{}, false
	}
	return recs[i], true
}
