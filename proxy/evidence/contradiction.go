package evidence

import "billbridge/proxy/ledger"

// Contradicts is what a backend showed of a bill against what it had shown or acknowledged before, or against the
// create. What a second look has not shown again is no difference: a copy of its data was behind.
func Contradicts(bill string, c ledger.Contradiction) Comparison {
	result := Comparison{
		Class: Moved, Bill: bill, Succeeded: [2]bool{true, true}, ReadBack: true, Request: c.Request, At: c.At,
	}
	if c.Vanished {
		return result
	}
	d := Difference{Path: c.Path, Kind: Kind(c.Kind), Old: c.Before, New: c.Now}
	switch c.Kind {
	case ledger.NotDone:
		d.Kind = InState
	case ledger.Money:
		d.Old, d.New = legibleAmount(d.Old), legibleAmount(d.New)
	}
	if d.Path == "" {
		d.Path = "(" + string(d.Kind) + ")"
	}
	result.Class, result.Differences = Differs, []Difference{d}
	return result
}
