package translate

import (
	"cmp"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A row is one field of one message, as the table declares it. Its lists are by form. An exported field is a key of the
// table, unless its tag says that it is none.
type row struct {
	Path byForm[string] `by:"form" is:"a path"` // "" if the form lacks the field
	Role *role          // noRole for none
	// While the value of another row of the reply has one of these meanings, 0 and "" are no value.
	NoValueWhile []string          `key:"no_value_while"`
	Means        map[string]string // by value: its meaning, in the words of the role; nil for none
	Fill         constant          // what the form that has the field gets from the other one
	Lost         string            // what becomes of the field in the other form
	Required     bool              // a request must have it
	Code         string            `is:"a code"` // of the refusal of a value out of bounds
	Each         *yaml.Node        // of a list: the rows of its items, or what each value is
	content

	place
	oneForm
	answered
	fieldText
	listed
}

// A listed is from Each.
type listed struct {
	list  bool   // a list of single values, or of anything
	items []*row // the rows of an item; nil for a row that is no list
}

// A place is where the table has a row.
type place struct {
	id     string // its name
	node   *yaml.Node
	source Row
}

// A oneForm is what becomes of a field, or of a value, that one form lacks.
type oneForm struct {
	always    constant // Fill, but for a path: for the form that has the field, in a message from the other form
	echoed    string   // from Fill, a path: the name of the row of the request
	asked     *row     // that row
	loss      string   // from Lost: "drop" or "refuse"
	lossCode  string
	malformed string // the code of a value that the other form cannot represent
}

// An answered is what a reply or a callback must have.
type answered struct {
	must     bool // it must have the value that the request has in its row of the same role
	repeats  bool // likewise, but another value passes and is counted
	exact    bool // one difference between two backends is too many
	optional bool // required: false: a success without the field is complete
	shown    *row // of a callback: the row with means, or exact, that a reply has for the same field; nil for none
}

// A content is what values a row can have: those of each item, if it is a list of values.
type content struct {
	As     byForm[string] // digits, decimal, or what each form writes
	Shift  byForm[int]    `is:"1..18"` // in the form that has one, the number is greater by this power of ten
	Values pairs          // values that differ
	Check  *yaml.Node     // the bounds of a value of a request

	// From Values.
	empty     constant         // the number that the form with text writes as ""
	absent    byForm[constant] // in the form that has one, the other form leaves out the field instead of this value
	leavesOut byForm[constant] // that value, unless a pair before says what it is
	otherwise string           // a word without a pair, for the form with numbers: "drop" or "pass"; "" is pass

	spelling
	bounds
}

// A spelling is how the forms write values, from As.
type spelling struct {
	as      string // "digits" or "decimal"; "" for neither
	digits  bool
	numbers byForm[kind]   // of a row that says it: how each form writes the digits
	width   byForm[int]    // of a form with leading zeros: how many digits its text has; 0 for no leading zeros
	pattern byForm[string] // by form: the places of the digits of a text
}

// The bounds are from Check: of the number of characters, or of the number in an `as: digits` row; 0 for none.
type bounds struct {
	min, max    int
	exactDigits int
	oneOf       []string
}

// newContent returns the content of a row that says nothing about it.
func (t *Table) newContent() content {
	n := len(t.forms)
	return content{
		Shift: make(byForm[int], n), absent: make(byForm[constant], n), leavesOut: make(byForm[constant], n),
		spelling: spelling{numbers: make(byForm[kind], n), width: make(byForm[int], n), pattern: t.everywhere("")},
	}
}

// digitsIn returns how a form writes the digits of the row: as a number, or as text.
func (r *row) digitsIn(f *form) kind {
	if is := r.numbers[f.index]; is != absent {
		return is
	}
	return f.digits
}

// hasPairs reports whether the table has pairs for values of the row.
func (r *row) hasPairs() bool { return len(r.Values.list) > 0 }

// mayBeWord reports whether a form with text may write a word instead of the digits: a code, but no time or number.
func (r *row) mayBeWord() bool { return r.digits && r.Role.Many && !r.Role.Exact && !r.hasPairs() }

// meaning returns what a value in a form means, or "". Only text has a meaning, and the table lists the values of the
// first form. In a row with pairs, a value of the second form has the meaning of its pair: its spelling says nothing.
func (r *row) meaning(v value, from int) string {
	if v.kind != text {
		return ""
	}
	return r.meaningOf(v.text(), from)
}

func (r *row) meaningOf(word string, from int) string {
	if from == 0 || !r.Values.replace {
		return r.Means[word]
	}
	paired, _ := r.Values.find(from, 0, word) // without a pair the text is "", which is no value with a meaning
	return r.Means[paired.text]
}

// misleads reports whether the other form would get a value with a meaning that this value does not have in its own
// form: a word without a pair that is spelled like one of the other form.
func (f *mapping) misleads(v value) bool {
	says := cmp.Or(f.shown, f.row)
	if says.Means == nil || v.countsAsAbsent() || v.kind == composite {
		return false
	}
	word := v.text()
	written := word
	if paired, ok := f.Values.find(f.from, f.to, word); ok {
		written = paired.text
	}
	means := says.meaningOf(written, f.to)
	return means != "" && means != says.meaningOf(word, f.from)
}

// A fieldText is what `fields` says of all rows with one name of a field.
type fieldText struct {
	about, example string
	exampleKind    kind // of the example: the type of a row without a conversion; absent for none
	used           bool // a row has this name
}

// A Row is the place where the table declares a field, and the row itself with its keys from all overlays.
type Row struct {
	File string
	Line int
	Text string
}

// name returns the last name of the path in the first form that has the field. It is the same in a request and its
// reply.
func (r *row) name() string {
	path := cmp.Or(r.Path[0], r.Path[1])
	if path == itself {
		return "item"
	}
	return path[strings.LastIndexByte(path, '.')+1:]
}

// onlyForm returns the only one of the first two forms that has the field, or -1 if both have it.
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
