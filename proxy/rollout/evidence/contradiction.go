package evidence

import (
	"billbridge/proxy/ledger"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// contradictions are the kinds of differences that contradictions are, with the path of those that have none.
var contradictions = map[ledger.Kind]struct {
	kind Kind
	path string
}{
	ledger.State: {InState, "(state)"}, ledger.NotDone: {InState, "(state)"}, ledger.Amount: {InMoney, "(amount)"},
	ledger.Exact: {InExact, ""}, ledger.Other: {InOther, ""},
}

// Contradicts is what a backend showed of a bill against what it had shown or acknowledged before, or against the create.
// What a second look has not shown again is no difference: a copy of its data was behind.
func Contradicts(bill string, c ledger.Contradiction) Comparison {
	result := Comparison{
		Class: Moved, Bill: bill, Succeeded: [2]bool{true, true}, ReadBack: true, Request: c.Request, At: c.At,
	}
	if c.Vanished {
		return result
	}
	is := contradictions[c.Kind]
	show := func(text string) string { return text } // a meaning, or in which of the two it is
	if c.Kind == ledger.Amount {
		show = func(text string) string {
			return legible(translate.Fact{Text: text, Role: billing.Amount, Public: true})
		}
	}
	path := c.Path
	if path == "" {
		path = is.path
	}
	result.Class = Differs
	result.Differences = []Difference{{Path: path, Kind: is.kind, First: show(c.Before), Second: show(c.Now)}}
	return result
}
