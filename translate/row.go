package translate

import "strings"

// A row is one field of one message, as the table declares it. Index 0 and 1 are the table's two forms.
type row struct {
	path   [2]string // "" where a form lacks the field
	digits bool      // `as: digits`
	empty  string    // `empty`: the number that is "" in the form whose digits are text; "" for none
	pairs  pairs     // `values`

	defaultValue *constant // `default`: what the form that has the field gets from the one that lacks it
	echo         string    // path in the request, of the form that has the field
	loss         string    // "drop", "refuse", or ""
	lossCode     string
	optional     bool // a success without it is complete
	role         *role
	means        map[string]string // what each value says, in the words of the role; nil for none
	about        string

	required    bool
	min, max    int // characters; of a digits row, the number. 0 is no bound
	exactDigits int
	oneOf       []string
	refuse      string // code of a breached bound
	malformed   string // code of a value that cannot be carried

	mustEqual string // `must_equal_request`: the path in the request, in the first form
}

// meaning is what a value of a form means, "" if it has no meaning. The values that have one are text of the first form.
func (r *row) meaning(v value, from int) string {
	if v.kind != text {
		return ""
	}
	if paired, ok := r.pairs.find(from, v.text()); ok && from != 0 {
		return r.means[paired.text]
	}
	return r.means[v.text()]
}

// A role is what a field is to the gateway, which knows no field by its name. The table declares it.
type role struct {
	name        string
	secret      bool // the value is never shown
	public      bool // the value names nobody
	many        bool // several rows of a reply may have it
	unconverted bool // its rows have no conversion, since the gateway replaces the value
	zeroIsValue bool
	means       []string // the words that the means of a row can use
}

// hasRole tells whether the row has a role.
func (r *row) hasRole(role string) bool { return r.role != nil && r.role.name == role }

// onlyForm is the only form that has the field, or -1 for both.
func (r *row) onlyForm() int {
	switch {
	case r.path[1] == "":
		return 0
	case r.path[0] == "":
		return 1
	}
	return -1
}

// kind is what a JSON scalar is.
type kind uint8

const (
	absent kind = iota
	null
	boolean
	number
	text
	composite // object or array
)

func (k kind) String() string {
	return [...]string{"missing", "null", "true or false", "a number", "text", "an object or array"}[k]
}

// A constant is a scalar that the table spells out: its text, and whether it is a number or a string in JSON.
type constant struct {
	kind kind
	text string
	json string
}

// A pair is one line of `values` or `codes`.
type pair struct {
	values [2]constant
	prefer bool
}

type pairs []pair

// find is what the value with this text, in form from, is in the other form. Where several lines share the
// value, the preferred one answers (the compiler saw to it that there is exactly one).
func (p pairs) find(from int, value string) (constant, bool) {
	var found *pair
	for i := range p {
		if p[i].values[from].text == value && (found == nil || p[i].prefer) {
			found = &p[i]
		}
	}
	if found == nil {
		return constant{}, false
	}
	return found.values[1-from], true
}

// segments splits a path of the table. Paths come from the table only, never from a message.
func segments(path string) []string { return strings.Split(path, ".") }
