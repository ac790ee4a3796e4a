package evidence

import (
	"cmp"
	"slices"
	"time"

	"billbridge/proxy/partner"
)

// A Count is what was counted for one partner and operation.
type Count struct {
	Partner   partner.ID `json:"partner"` // full
	Operation string     `json:"operation"`
	Version   string     `json:"-"` // of the operation, by the table
	Since     time.Time  `json:"since"`
	Last      time.Time  `json:"-"` // when the store got the last of it: seconds after a call of the partner
	Unread    error      `json:"-"` // why what the store has of it cannot be read; nil if it can

	// Comparisons: of the answers of both backends to reads, or, for an operation that creates bills, of each bill of
	// canary as a read showed it with its create.
	Creates bool `json:"creates,omitempty"` // the latter
	// both backends answered, at least one with a success: a verdict depends on these
	Compared int `json:"compared"`
	Tally
	OldOnly int `json:"old_only"` // of NotThere, if the old backend shows the bill

	Bills  Bills            `json:"bills"`  // distinct bills of Compared
	Fields map[string]Field `json:"fields"` // confirmed differences by path

	States bool  `json:"states,omitempty"` // the comparisons show the states of bills
	Paid   Bills `json:"paid,omitzero"`    // distinct bills of Compared that are paid

	CallStats `json:"call_stats"`
}

// A Tally has the numbers of comparisons, by what they showed.
type Tally struct {
	Differed int `json:"differed"` // with a confirmed difference
	Refused  int `json:"refused"`  // both backends answered with the same failure, which shows no fields
	NotThere int `json:"not_there"`
	Moved    int `json:"moved"`
	Unclear  int `json:"unclear"`
}

// A Field is the count of one field that differs, with its first example.
type Field struct {
	Difference
	Count   int       `json:"count"`
	Bill    string    `json:"bill"`
	Request string    `json:"request"`
	At      time.Time `json:"at"`
}

// None stands for the code of a call without an answer.
const None = "none"

// CallStats are the counts of calls at the old backend and at the new one.
type CallStats struct {
	Calls [2]int            `json:"calls"`
	Codes map[string][2]int `json:"codes"` // of the catalogue, "other" and None
	// values of replies with another than their documented type, by field
	Mismatched map[string][2]int `json:"mismatched"`
	// calls that a backend's form cannot carry and the other's can, by reason
	Unsupported [2]map[string]Unsupported `json:"lacks"`
}

// An Unsupported is a kind of call that a backend's form cannot carry.
type Unsupported struct {
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
}

// Marked reports whether the count must be found without reading all counts: it has calls that a backend's form
// cannot carry, or a difference that holds back other partners.
func (n Count) Marked() bool {
	return len(n.Unsupported[Old])+len(n.Unsupported[New])+len(n.ExactFields()) > 0
}

// ExactFields are the paths of the exact fields that differ, sorted.
func (n Count) ExactFields() (paths []string) {
	for path, f := range n.Fields {
		if f.Kind == InMoney || f.Kind == InState || f.Kind == InExact {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// add adds to a count. The keys come from the table, so their number is bounded.
func add(to *map[string][2]int, of string, times [2]int) {
	if *to == nil {
		*to = map[string][2]int{}
	}
	had := (*to)[of]
	(*to)[of] = [2]int{had[Old] + times[Old], had[New] + times[New]}
}

func (c *CallStats) addUnsupported(backend int, why string, more Unsupported) {
	to := &c.Unsupported[backend]
	if *to == nil {
		*to = map[string]Unsupported{}
	}
	had := (*to)[why]
	if had.Last.After(more.Last) {
		more.Last = had.Last
	}
	(*to)[why] = Unsupported{had.Count + more.Count, more.Last}
}

func (c *CallStats) merge(more CallStats) {
	for code, times := range more.Codes {
		add(&c.Codes, code, times)
	}
	for field, times := range more.Mismatched {
		add(&c.Mismatched, field, times)
	}
	for backend, calls := range more.Calls {
		c.Calls[backend] += calls
		for why, n := range more.Unsupported[backend] {
			c.addUnsupported(backend, why, n)
		}
	}
}

// field counts a field. Its example is of the gravest kind, and then the earliest.
func (n *Count) field(f Field) {
	if known, ok := n.Fields[f.Path]; ok {
		f.Count += known.Count
		if cmp.Or(cmp.Compare(rank(known.Kind), rank(f.Kind)), known.At.Compare(f.At)) <= 0 {
			known.Count = f.Count
			f = known
		}
	}
	n.Fields[f.Path] = f
}

// merge adds another count of the same partner and operation. It keeps no reference to it.
func (n *Count) merge(more Count) {
	if n.Fields == nil {
		n.Fields = map[string]Field{}
	}
	if more.Since.Before(n.Since) {
		n.Since = more.Since
	}
	if more.Last.After(n.Last) {
		n.Last = more.Last
	}
	n.Unread, n.Creates = cmp.Or(n.Unread, more.Unread), n.Creates || more.Creates
	n.Compared += more.Compared
	n.Differed += more.Differed
	n.Refused += more.Refused
	n.NotThere += more.NotThere
	n.OldOnly += more.OldOnly
	n.Moved += more.Moved
	n.Unclear += more.Unclear
	n.Bills.merge(more.Bills...)
	n.States = n.States || more.States
	n.Paid.merge(more.Paid...)
	for _, f := range more.Fields {
		n.field(f)
	}
	n.CallStats.merge(more.CallStats)
}
