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

// A Verdict is the result of a case: of the conditions that are not met the first one, or the first warning.
type Verdict struct {
	Case    string `json:"case"`
	Title   string `json:"title"`
	Result  string `json:"result"`
	Text    string `json:"text,omitempty"` // why it did not pass
	Rule           // that was broken
	Records []int  `json:"records,omitempty"` // that show it
}

// A window has the records of a case, by the time at which they began.
type window struct {
	plan Plan
	recs []Record
	// The condition that is checked is about an order, and has parameters.
	order string
	args  []string
}

const tooBusy = "the order hook answered late, so the machine was busy: run it again when it is idle"

// judge returns the verdict of a case by the records of a run. It depends on its arguments only.
func judge(p Plan, c Case, log []Record) Verdict {
	var recs []Record
	for _, r := range log {
		if r.Case == c.ID {
			recs = append(recs, r)
		}
	}
	slices.SortStableFunc(recs, func(a, b Record) int { return a.began().Compare(b.began()) })
	stopped, _ := first(recs, func(r Record) bool { return r.Error != "" })
	_, busy := first(recs, func(r Record) bool { return r.Text == tooBusy })
	ended := len(recs)
	for ended > 0 && recs[ended-1].Text != end {
		ended--
	}
	v := Verdict{Case: c.ID, Title: c.Title, Result: Unknown, Text: cmp.Or(stopped.Error, "it was not run")}
	need, unknown := p.lacks(c.Needs), v
	switch {
	case need != "":
		v.Result, v.Text = Skipped, "the plan does not declare "+need
		return v
	case ended == 0:
		return v
	}
	v.Result, v.Text = Passed, ""
	w := &window{plan: p, recs: recs}
	for _, e := range all().Every { // also in what the partner does after the end of the case
		v.check(w, e)
	}
	w.recs = recs[:ended]
	v.check(w, c)
	if stopped.Error != "" && (v.Result != Failed || v.Text == errNoBill.Error()) {
		return unknown
	}
	c.Watch = []string{"says"}
	if v.check(w, c); busy && v.Result != Passed {
		unknown.Text = tooBusy
		return unknown
	}
	return v
}

// check checks the conditions of a case, or of all cases, unless one has failed before.
func (v *Verdict) check(w *window, c Case) {
	for _, text := range c.Watch {
		result := Failed
		if rest, warn := strings.CutPrefix(text, "warn "); warn {
			text, result = rest, Warning
		}
		name, order := words(text)
		w.order, w.args = order, name[1:]
		if v.Result == Failed || v.Result == result {
			continue
		}
		if f := conditions[name[0]](w); f != nil {
			v.Result, v.Text, v.Records, v.Rule = result, f.Text, f.Records, c.Rule
		}
	}
}

// ExitCodes are the exit codes of commands by the outcome of a run; 0 for PASSED.
var ExitCodes = map[string]int{Failed: 1, Interrupted: 2}

// Outcome is the result of a run: FAILED, INTERRUPTED or PASSED, whichever comes first.
func (res Result) Outcome() string {
	switch n := res.Counts(); {
	case n[Failed] > 0:
		return Failed
	case n[Unknown] > 0:
		return Interrupted
	}
	return Passed
}

// calls returns the calls for the order that are of one of some kinds, such as bill.read or bill.create/lost|write.
func (w *window) calls(kinds string) (list []Record) {
	for _, r := range w.recs {
		isOf := func(kind string) bool {
			words := strings.Split(kind, "/")
			return !slices.ContainsFunc(words, func(word string) bool { return !w.is(r, word) })
		}
		if r.Call != nil && r.Order == w.order && slices.ContainsFunc(strings.Split(kinds, "|"), isOf) {
			list = append(list, r)
		}
	}
	return list
}

// is reports whether a call has a property, or is of an operation.
func (w *window) is(r Record, word string) bool {
	c := r.Call
	switch word {
	case "lost":
		return r.lost()
	case "done": // or a callback that the partner accepted
		return c.Done
	case "hashed":
		return c.Code != "VALIDATION_002"
	case "unanswered":
		return !c.Done && !c.Fault.Drop
	case "5xx":
		return c.Status >= 500
	case "key-in-url":
		return strings.Contains(c.Path, w.plan.Key)
	}
	return word == "" || c.Operation == word
}

// first returns the first record that matches.
func first(recs []Record, matches func(Record) bool) (Record, bool) {
	i := slices.IndexFunc(recs, matches)
	if i < 0 {
		return Record{}, false
	}
	return recs[i], true
}
