package translate

import (
	"cmp"
	"slices"
)

// A role says what a field is for. The gateway finds fields by their role, not by their name.
type role struct {
	name   string
	Secret bool // the value is never shown
	Public bool // the value is not personal data
	Many   bool // several rows of a message may have the role
	Exact  bool // one difference between the replies of two backends is too many
	// A success of another call has another value: its reply is unusable (must), or is counted (count). The gateway
	// replaces that of never. Rows have no conversion, and a number of a request with must is a whole number in digits,
	// so that two spellings are never two values.
	Same  string   `is:"must|count|never"`
	Done  []string // the meanings that say that what counts was done, such as a payment
	Moves []string // which meaning can follow directly after which, as "unpaid to paid"; nothing follows after others

	means []string            // the meanings that Moves names, in this order
	next  map[string][]string // by Moves
	rows  []*row              // of replies, with means
}

// noRole is the role of rows without one.
var noRole = &role{}

// meaning returns what a value means in a form, by the rows of the table, or "".
func (r *role) meaning(value string, form int) (means string) {
	for _, row := range r.rows {
		means = cmp.Or(means, row.meaningOf(value, form))
	}
	return means
}

// States are what the values of a role can mean, such as the states of a bill.
type States struct {
	Meanings []string // in the order of the table; the caller must not modify it

	role  *role
	table *Table
}

// Of returns what a value means in a form, or "".
func (s States) Of(value string, f Form) string {
	form := s.table.formIndex(f)
	if form < 0 {
		return ""
	}
	return s.role.meaning(value, form)
}

// Done reports whether a meaning says that what counts was done, such as a payment.
func (s States) Done(meaning string) bool { return slices.Contains(s.role.Done, meaning) }

// Final reports whether nothing follows after a state with a meaning.
func (s States) Final(meaning string) bool {
	return slices.Contains(s.Meanings, meaning) && s.role.next[meaning] == nil
}

// After returns the meanings that a state can have after one with a meaning, which is among them, in the order of the
// table. After an unknown one it can have all.
func (s States) After(meaning string) []string {
	reached := []string{meaning}
	if !slices.Contains(s.Meanings, meaning) {
		return s.Meanings
	}
	for i := 0; i < len(reached); i++ {
		for _, to := range s.role.next[reached[i]] {
			if !slices.Contains(reached, to) {
				reached = append(reached, to)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(s.Meanings), func(m string) bool { return !slices.Contains(reached, m) })
}
