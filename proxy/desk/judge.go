package desk

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"billbridge/proxy/desk/certificate"
)

// The results of an attempt, as those of the OpenID suite.
const (
	Passed      = "PASSED"
	Warning     = "WARNING"
	Failed      = "FAILED"
	Review      = "REVIEW"
	Skipped     = "SKIPPED"
	Expected    = "EXPECTED"    // it failed, as the plan says
	Unknown     = "UNKNOWN"     // not run
	Interrupted = "INTERRUPTED" // the status of an attempt that did not end; its result is UNKNOWN
	finished    = "FINISHED"
)

// A Verdict is the result of one attempt at a case.
type Verdict struct {
	Case     string    `json:"case"`
	Attempt  int       `json:"attempt,omitempty"`
	Status   string    `json:"status"`
	Result   string    `json:"result"`
	Text     string    `json:"text,omitempty"` // why it is skipped or interrupted, or what a person checks
	Findings []Finding `json:"findings,omitempty"`
	// HookOnly is set if the verdict rests on what the partner says about itself.
	HookOnly bool `json:"hook_only,omitempty"`
	// Signed is the review of the result, or who accepted a warning. Only the verdicts of a Result have it.
	Signed *certificate.Signed `json:"-"`
}

// A Finding is a condition that is not met.
type Finding struct {
	Condition string `json:"condition"`
	Level     string `json:"level"` // FAIL or WARN
	Text      string `json:"text"`
	Records   []int  `json:"records,omitempty"` // that show it
}

// A window has the records of one attempt.
type window struct {
	plan Plan
	c    Case
	recs []Record
	// refused is whether the gateway did not accept a callback of the service: then none reaches the partner.
	refused bool
	// The condition that is checked is about an order, and has parameters.
	order string
	args  []string
}

// judge returns the verdict of an attempt. It depends on its arguments only, so that everybody can repeat it.
func judge(p Plan, c Case, attempt int, recs []Record) Verdict {
	v := Verdict{Case: c.ID, Attempt: attempt, Status: finished, Result: Passed}
	w := &window{plan: p, c: c, recs: partners(recs), refused: slices.ContainsFunc(recs, func(r Record) bool {
		return r.Kind == kindCall && r.Call.Behind && r.Call.Operation == opCallback && !accepted(r.Call)
	})}
	need := p.lacks(c.Needs)
	switch {
	case need != "":
		v.Result, v.Text = Skipped, "the plan does not declare "+need
		return v
	case c.Human != "":
		v.Result, v.Text = Review, c.Human
		return v
	case len(recs) == 0:
		v.Status, v.Result = "CREATED", Unknown
		return v
	}
	v.HookOnly = len(c.Watch) == 0
	v.Findings = w.says()
	for _, text := range append([]string{"one-bill", "amount", "agrees"}, c.Watch...) {
		level := "FAIL"
		if rest, warn := strings.CutPrefix(text, "warn "); warn {
			text, level = rest, "WARN"
		}
		name, order := words(text)
		if name[0] == "one-bill" && slices.Contains(c.Watch, "one-made") {
			continue
		}
		w.order, w.args = order, name[1:]
		if wrong, at := conditions[name[0]](w); wrong != "" {
			v.Findings = append(v.Findings, Finding{text, level, wrong, at})
		}
	}
	fails := func(f Finding) bool { return f.Level == "FAIL" }
	ended := slices.ContainsFunc(recs, func(r Record) bool { return r.Kind == kindBook })
	stopped := slices.IndexFunc(recs, func(r Record) bool { return r.Kind == kindError })
	w.order = "a"
	noCreate := len(w.calls("bill.create"))+len(w.book()) == 0
	silent := !slices.ContainsFunc(w.recs, func(r Record) bool { return r.Kind == kindCall })
	onlyHook := !slices.ContainsFunc(v.Findings, func(f Finding) bool {
		return fails(f) && f.Condition != "agrees" && !strings.HasPrefix(f.Condition, "says")
	})
	switch {
	case noCreate && onlyHook, stopped >= 0 && (onlyHook || silent), !ended:
		v.Status, v.Result, v.Text, v.Findings = Interrupted, Unknown, "the partner created no bill for the order", nil
		if stopped >= 0 {
			v.Text = recs[stopped].Text
		}
	case slices.ContainsFunc(v.Findings, fails) && p.expects(v, recs[0].At):
		v.Result = Expected
	case slices.ContainsFunc(v.Findings, fails):
		v.Result = Failed
	case c.Review != "" && !p.Practice:
		v.Result, v.Text = Review, c.Review
	case len(v.Findings) > 0:
		v.Result = Warning
	}
	return v
}

// partners returns the records without calls that the partner did not make: those behind a gateway, and operations that
// are carried out late. The fault of a call behind a gateway is that of the partner's call which caused it, unless the
// gateway found out that the operation was carried out.
func partners(recs []Record) (list []Record) {
	for _, r := range recs {
		if r.Kind != kindCall {
			list = append(list, r)
			continue
		}
		call := *r.Call
		if call.Behind || call.Desk || call.Late {
			continue
		}
		for _, b := range recs {
			if b.Kind == kindCall && b.Call.Behind && !b.Call.Late && b.Call.Operation == call.Operation &&
				b.Call.Bill == call.Bill && call.Operation != opCallback && call.Code != "0000" &&
				!b.Call.Began.Before(call.Began) && !b.Call.Began.After(call.Ended) {
				call.Fault, call.Hashed = b.Call.Fault, b.Call.Hashed
				break
			}
		}
		r.Call = &call
		list = append(list, r)
	}
	return list
}

// Through is the short list of cases for a run through a gateway, by the name of their group.
const Through = "G"

var through = strings.Fields("A1 A3 A4a A4b A4c A4d U1 U3 U7 N1 R1 R2 R3 R4 R5 R6 R7 R8 K1 K2 K7 K15")

// A Difference is a case with other results directly and through a gateway: a finding about the gateway, since the
// partner is the same.
type Difference struct{ Direct, Via Verdict }

// Compare compares a direct run with one through a gateway. It returns the number of cases that both have, too.
func Compare(direct, via Result) (differs []Difference, compared int, err error) {
	a, b := direct.Plan, via.Plan
	switch {
	case a.Via || !b.Via:
		return nil, 0, errors.New("expected a direct run and then one through a gateway")
	case a.Form != b.Form || a.Partner != b.Partner || !slices.Equal(a.Options, b.Options):
		return nil, 0, fmt.Errorf("expected runs of one plan but got: %s in %s with %v, and %s in %s with %v",
			a.Partner, a.Form, a.Options, b.Partner, b.Form, b.Options)
	}
	for _, x := range Last(direct.Verdicts) {
		for _, y := range Last(via.Verdicts) {
			if x.Case != y.Case {
				continue
			}
			if compared++; x.Result != y.Result {
				differs = append(differs, Difference{x, y})
			}
		}
	}
	return differs, compared, nil
}

// judgeAll returns the verdicts of all attempts, in their order, and UNKNOWN for cases without any.
func judgeAll(p Plan, recs []Record) (list []Verdict) {
	for _, c := range cases {
		for n := 1; p.applies(c); n++ {
			of := attemptOf(recs, c.ID, n)
			if n > 1 && len(of) == 0 {
				break
			}
			list = append(list, judge(p, c, n, of))
		}
	}
	return list
}

// attemptOf returns the records of an attempt without its verdict.
func attemptOf(recs []Record, id string, attempt int) (list []Record) {
	for _, r := range recs {
		if r.Case == id && r.Attempt == attempt && r.Kind != kindVerdict {
			list = append(list, r)
		}
	}
	return list
}

// Last returns the last verdict of each case: it counts.
func Last(all []Verdict) (last []Verdict) {
	for _, v := range all {
		if n := len(last); n > 0 && last[n-1].Case == v.Case {
			last[n-1] = v
		} else {
			last = append(last, v)
		}
	}
	return last
}

// ExitCodes are the exit codes of commands by the outcome of a run; 0 for PASSED.
var ExitCodes = map[string]int{Failed: 1, Interrupted: 2, Review: 3}

// Outcome is the result of a run: FAILED, INTERRUPTED, REVIEW or PASSED, whichever comes first. REVIEW means that a
// review, or a warning of a run that is no practice, is not signed.
func Outcome(p Plan, all []Verdict) string {
	seen := map[string]bool{}
	for _, v := range Last(all) {
		seen[v.Result] = true
		seen["open"] = seen["open"] || v.Open(p)
	}
	switch {
	case seen[Failed]:
		return Failed
	case seen[Unknown]:
		return Interrupted
	case seen["open"]:
		return Review
	}
	return Passed
}

// calls returns the calls of an operation for the order, as records.
func (w *window) calls(operation string) (list []Record) {
	for _, r := range w.recs {
		if r.Kind == kindCall && r.Order == w.order &&
			(r.Call.Operation == operation || operation == "write" && r.Call.write()) {
			list = append(list, r)
		}
	}
	return list
}

// book returns the states of the bills of the order at the end of the attempt.
func (w *window) book() map[string]string {
	for _, r := range w.recs {
		if r.Kind == kindBook && r.Order == w.order {
			return r.Book
		}
	}
	return nil
}

// last returns the last answer of the hook about the order.
func (w *window) last() (last Record, ok bool) {
	for _, r := range w.recs {
		if r.Kind == kindHook && r.Order == w.order {
			last, ok = r, true
		}
	}
	return last, ok
}

// says checks the steps that say what the hook has to answer: says STATE|STATE [FULFILLED] [b].
func (w *window) says() (list []Finding) {
	for i, step := range w.c.Steps {
		args, _ := words(step)
		for _, r := range w.recs {
			if args[0] != "says" || r.Kind != kindHook || r.Step != i+1 {
				continue
			}
			wrong := ""
			if !slices.Contains(strings.Split(args[1], "|"), r.Hook.State) {
				wrong = fmt.Sprintf("the order is %q at the partner, expected %s", r.Hook.State, args[1])
			}
			if len(args) > 2 && strconv.Itoa(r.Hook.Fulfilled) != args[2] {
				wrong = fmt.Sprintf("the order was fulfilled %d times, expected %s", r.Hook.Fulfilled, args[2])
			}
			if wrong != "" {
				list = append(list, Finding{step, "FAIL", wrong, []int{r.N}})
			}
		}
	}
	return list
}

// numbers returns the numbers of records.
func numbers(recs []Record) (list []int) {
	for _, r := range recs {
		list = append(list, r.N)
	}
	return list
}

// first returns the first record that matches.
func first(recs []Record, matches func(Record) bool) (Record, bool) {
	i := slices.IndexFunc(recs, matches)
	if i < 0 {
		return Record{}, false
	}
	return recs[i], true
}
