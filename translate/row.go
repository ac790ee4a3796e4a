package translate

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A row is one field of one message, as the table declares it. Indexes 0 and 1 are the forms of the table. An
// exported field is a key of the table.
type row struct {
	Path    [2]string `by:"form" is:"a path"` // "" if the form lacks the field
	digits  bool      // from As
	special bool      // it has pattern, shift, absent, as: decimal or null in a pair, or is a list
	Empty   constant  // the number that the form with text writes as ""
	// While the value of another row of the reply has one of these meanings, 0 and "" are no value.
	NoValueWhile []string
	Otherwise    string `is:"null|pass"` // a word without a pair, for the form with numbers; "" is pass
	Values       pairs
	Role         *role             // noRole for none
	Means        map[string]string // by value: its meaning, in the words of the role; nil for none

	As       string `is:"digits|decimal"`
	About    string
	Default  constant // for the form that has the field, if the message comes from the other form
	Echo     string   // the path in the request, in the form that has the field
	Loss     string   `is:"drop|refuse"`
	LossCode string   `is:"a code"`
	Optional bool     // a success without the field is complete
	Exact    bool     // of the row or of its role: one difference between two backends is too many

	Required    bool
	Min         int // of the number of characters, or of the number in an `as: digits` row; 0 for no bound
	Max         int // likewise
	ExactDigits int
	OneOf       []string
	Refuse      string `is:"a code"` // for a bound
	Malformed   string `is:"a code"` // for a value that the other form cannot represent

	MustEqualRequest string // the path in the request, in the first form
	RepeatsRequest   string // likewise

	example string
	node    *yaml.Node
	source  Row

	Each *yaml.Node // of a list: the rows of its items, or the name around each text in one form
	List bool       // a list of texts, numbers or truth values in both forms

	Pattern [2]string   // the places of the digits of a text
	Shift   [2]constant // in the form that has one, the number is greater by this power of ten
	Absent  [2]constant // in the form that has one, the other form leaves out the field instead of this value

	exampleKind kind // of the example of its name: the type of a row without a conversion; absent for none

	shown  *row     // of a callback: the row with means, or exact, that a reply has for the same field; nil for none
	items  []*row   // from Each and List: the rows of an item; nil for a row that is no list
	plain  *row     // the row without what makes it special
	moves  [2][]int // by the form of the output: where the digit of each place is in the input; -1 for no place
	places [2]int   // by the form of the input: how many places its decimal point is moved to the right
}

// hasPairs reports whether the table has pairs for values of the row.
func (r *row) hasPairs() bool { return len(r.Values.list) > 0 }

// converts reports whether a value can have another text in the other form.
func (r *row) converts() bool {
	return r.hasPairs() && !r.onlyNullPairs() || r.Pattern[0] != "" || r.places != [2]int{}
}

// meaning returns what a value in a form means, or "". Only text has a meaning, and the table lists the values of the
// first form. In a row with pairs, a value of the second form has the meaning of its pair: its spelling says nothing.
func (r *row) meaning(v value, from int) string {
	if v.kind != text {
		return ""
	}
	return r.meaningOf(v.text(), from)
}

func (r *row) meaningOf(word string, from int) string {
	if from == 0 || !r.hasPairs() || r.onlyNullPairs() {
		return r.Means[word]
	}
	paired, _ := r.Values.find(from, word) // without a pair the text is "", which is no value with a meaning
	return r.Means[paired.text]
}

// misleads reports whether the other form would get a value with a meaning that this value does not have in its own
// form: a word without a pair that is spelled like one of the other form.
func (r *row) misleads(v value, from int) bool {
	says := cmp.Or(r.shown, r)
	if says.Means == nil || v.countsAsAbsent() || v.kind == composite {
		return false
	}
	word := v.text()
	written := word
	if paired, ok := r.Values.find(from, word); ok {
		written = paired.text
	}
	means := says.meaningOf(written, 1-from)
	return means != "" && means != says.meaningOf(word, from)
}

// decides reports whether the meaning of another row is one that NoValueWhile can name.
func (r *row) decides(other *row) bool {
	for _, meaning := range other.Means {
		if slices.Contains(r.NoValueWhile, meaning) {
			return true
		}
	}
	return false
}

// A role says what a field is for. The gateway finds fields by their role, not by their name.
type role struct {
	name         string
	About        string
	Secret       bool     // the value is never shown
	Public       bool     // the value is not personal data
	Many         bool     // several rows of a reply may have the role
	Unconverted  bool     // the rows have no conversion, since the gateway replaces the value
	ZeroIsAValue bool     // 0 is a value, not "no value"
	OneSpelling  bool     // a number in a request is a whole number in digits, so that two spellings are never two values
	Exact        bool     // its rows are exact
	Means        []string // the meanings that a row with the role can give
	Done         []string // those of Means that say that what counts was done, such as a payment
	// which of Means can follow directly after which, as "unpaid to paid"; nothing follows after the others. None: all can
	Moves []string

	next map[string][]string // by Moves
}

// noRole is the role of rows without one.
var noRole = &role{}

// A fieldText is what `fields` says of all rows with one name of a field.
type fieldText struct {
	About   string
	Example *yaml.Node // a scalar

	example string
	kind    kind // of the example
}

// A Row is the place where the table declares a field, and the row itself with its keys from all overlays.
type Row struct {
	File string
	Line int
	Text string
}

// hasRole reports whether the row has the role.
func (r *row) hasRole(role string) bool { return r.Role.name == role }

// name returns the last name of the path in the first form that has the field. It is the same in a request and its
// reply.
func (r *row) name() string {
	path := cmp.Or(r.Path[0], r.Path[1])
	if path == itself {
		return "item"
	}
	return path[strings.LastIndexByte(path, '.')+1:]
}

// onlyForm returns the only form that has the field, or -1 if both have it.
func (r *row) onlyForm() int {
	switch {
	case r.Path[1] == "":
		return 0
	case r.Path[0] == "":
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
	asIs      // its bytes are copied
)

func (k kind) String() string {
	return [...]string{"missing", "null", "true or false", "a number", "text", "an object or array", "as it is"}[k]
}

// A constant is a scalar in the table; its kind is absent if there is none.
type constant struct {
	kind kind
	text string // without quotes and escapes
	json string
}

// segments splits a path into names. Paths come from the table only, never from a message.
func segments(path string) []string { return strings.Split(path, ".") }
