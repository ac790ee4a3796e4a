package translate

import "strings"

// A row is one field of one message, as the table declares it. Indexes 0 and 1 are the forms of the table.
type row struct {
	path   [2]string // "" if the form lacks the field
	digits bool      // `as: digits`
	empty  string    // `empty`: the number that the form with text writes as ""; "" for none
	pairs  pairs     // `values`

	defaultValue *constant // `default`: for the form that has the field, if the message comes from the other form
	echo         string    // `echo`: the path in the request, in the form that has the field
	loss         string    // `loss`: "drop", "refuse", or ""
	lossCode     string    // `loss_code`
	optional     bool      // a success without the field is complete
	exact        bool      // `exact`, of the row or of its role: one difference between two backends is too many
	role         *role
	means        map[string]string // by value: its meaning, in the words of the role; nil for none
	about        string

	required    bool
	min, max    int // of the number of characters, or of the number in an `as: digits` row; 0 for no bound
	exactDigits int
	oneOf       []string
	refuse      string // the code of a refusal for a bound
	malformed   string // the code of a refusal for a value that the other form cannot represent

	mustEqual string // `must_equal_request`: the path in the request, in the first form
	repeats   string // `repeats_request`: likewise

	source Row
}

// meaning returns what a value in a form means, or "". Only text has a meaning, and the table lists the values of the first form.
func (r *row) meaning(v value, from int) string {
	if v.kind != text {
		return ""
	}
	if paired, ok := r.pairs.find(from, v.text()); ok && from != 0 {
		return r.means[paired.text]
	}
	return r.means[v.text()]
}

// A role says what a field is for. The gateway finds fields by their role, not by their name.
type role struct {
	name        string
	secret      bool     // the value is never shown
	public      bool     // the value is not personal data
	many        bool     // several rows of a reply may have the role
	unconverted bool     // the rows have no conversion, since the gateway replaces the value
	zeroIsValue bool     // 0 is a value, not "no value"
	exact       bool     // its rows are exact
	means       []string // the meanings that a row with the role can give
}

// A Row is the place where the table declares a field, and the row itself with its keys from all overlays.
type Row struct {
	File string
	Line int
	Text string
}

// hasRole reports whether the row has the role.
func (r *row) hasRole(role string) bool { return r.role != nil && r.role.name == role }

// isSecret reports whether the value is never shown.
func (r *row) isSecret() bool { return r.role != nil && r.role.secret }

// onlyForm returns the only form that has the field, or -1 if both have it.
func (r *row) onlyForm() int {
	switch {
	case r.path[1] == "":
		return 0
	case r.path[0] == "":
		return 1
	}
	return -1
}

// kind is the JSON type of a value.
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

// A constant is a scalar in the table.
type constant struct {
	kind kind
	text string // without quotes and escapes
	json string
}

// segments splits a path into names. Paths come from the table only, never from a message.
func segments(path string) []string { return strings.Split(path, ".") }
