package translate

import (
	"fmt"
	"strings"
)

// A Class says what a translation does with a field.
type Class string

// The classes of a row in one direction.
const (
	Exact     Class = "exact"     // translated without loss; values that Detail calls equal become one of them
	Defaulted Class = "defaulted" // the source form lacks the field, and the target form gets the default of the table
	Echoed    Class = "echoed"    // taken from the request
	Lossy     Class = "lossy"     // the target form has no place for the field
	Passed    Class = "passed"    // only one form has the operation, so bytes pass unchanged
)

// A Field is one row in one direction of one message.
type Field struct {
	Message  string // "request" or "reply"
	From, To Form
	Source   string // path in From, "" for none
	Target   string // path in To, "" for none
	Class    Class
	Detail   Details // how the value is translated, or why it is lossy
	About    string  // what the field holds
	Exact    bool    // in a comparison of two backends one difference is too many
	Refused  string  // the code of the refusal of a value that To cannot carry; "" if it carries every value
	Carried  string  // the only value that To can carry, as JSON; "" for none
	Drops    bool    // some of its values are dropped and counted
}

// A Detail is one thing that a translation does with a value, or why it is refused, as a format of package fmt and its
// values. The console and the gateway have the formats in other languages.
type Detail struct {
	Format string
	Values []any
}

// String returns the detail in English.
func (d Detail) String() string { return d.In(d.Format) }

// In returns the detail with the format of a language.
func (d Detail) In(format string) string {
	if len(d.Values) == 0 {
		return format
	}
	return fmt.Sprintf(format, d.Values...)
}

// why returns the reason of a refusal. The format must be a literal or a constant: a test of the gateway finds it in
// the source.
func why(format string, values ...any) Detail { return Detail{format, values} }

// Details are all that a translation does with a value.
type Details []Detail

// String returns the details in English.
func (d Details) String() string {
	texts := make([]string, len(d))
	for i, one := range d {
		texts[i] = one.String()
	}
	return strings.Join(texts, "; ")
}

// Fields returns every row of the operation in every direction, in the order of the table, without those that have no
// effect. From and To are the forms of the message: a reply goes from the upstream's form to the client's.
//
// The paths of fields of a list have [] for its items, as in parcels[].weight.
func (o *Operation) Fields() (fields []Field) {
	for _, m := range []Message{Request, Reply, callbackMessage} {
		for from := range o.paths[:2] {
			to := otherOf(from)
			if o.paths[to] == "" {
				to = from
			}
			if o.paths[from] != "" {
				fields = append(fields, o.table.fieldsOf(m, o.rows[m], from, to)...)
			}
		}
	}
	return fields
}

// fieldsOf returns the rows of a message in a direction, each followed by those of its items.
func (t *Table) fieldsOf(m Message, rows []*row, from, to int) (fields []Field) {
	for _, r := range t.mappings(rows, from, to) {
		if r.class == "" {
			continue
		}
		f := Field{
			Message: string(m), From: t.forms[from].name, To: t.forms[to].name, Source: r.source, Target: r.target,
			Class: r.class, Detail: r.detail(m), About: r.about, Exact: r.exact,
			Drops: r.class == Lossy || r.otherwise == "drop" && r.digitsTo == number,
		}
		if m == callbackMessage {
			f.Message = string(Request)
		} else if r.class == Lossy && r.loss != "drop" && r.echoed == "" {
			f.Refused, f.Carried = r.lossCode, r.always.json
		}
		fields = append(fields, f)
		for _, item := range t.fieldsOf(m, r.items, from, to) {
			for path, list := range map[*string]string{&item.Source: r.source, &item.Target: r.target} {
				if *path != "" {
					*path = itemPath(list+itself, *path)
				}
			}
			fields = append(fields, item)
		}
	}
	return fields
}

// Fields returns every row in both directions, in the order of the table.
func (c *Callback) Fields() []Field { return c.operation.Fields() }

// detail says how the value is translated, or why it is lossy.
func (r *mapping) detail(m Message) (list Details) {
	say := func(format string, values ...any) { list = append(list, Detail{format, values}) }
	switch asNumber := r.digitsTo == number; {
	case r.class == Defaulted:
		say("%v", r.always.json)
	case r.class == Echoed:
		say("from the request's %v", r.asked.Path[r.to])
	case r.class == Lossy && (r.loss == "drop" || r.echoed != ""):
		say("dropped and counted")
	case r.class == Lossy && m == callbackMessage:
		say("left out if it is %v, else the callback passes unchanged", r.always.json)
	case r.class == Lossy && r.always.kind != absent:
		say("only %v can be carried, else refused with %v", r.always.json, r.lossCode)
	case r.class == Lossy:
		say("refused with %v", r.lossCode)
	case r.class != Exact:
	case r.conversion == rearranged:
		say("written as %v", r.pattern[r.to])
	case r.conversion == decimal && asNumber:
		say("as a decimal number")
	case r.conversion == decimal:
		say("as a decimal number in text")
	case r.conversion == itemByItem:
		say("item by item")
	case r.empty.text != "" && asNumber:
		say(`as a number, "" as %v`, r.empty.text)
	case r.empty.text != "":
		say(`as text, %v as ""`, r.empty.text)
	case r.conversion == digits && asNumber:
		say("as a number")
	case r.conversion == digits:
		say("as text")
	}
	if r.class != Exact {
		return list
	}
	if r.state >= 0 {
		say(`0 and "" as %v while %v`, r.none, strings.Join(r.NoValueWhile, " or "))
	}
	if r.hasPairs() {
		say("by value pairs")
	}
	if r.places != 0 {
		say("times 10^%v", r.places)
	}
	if r.filled.kind != absent {
		say("%v if it is missing", r.filled.json)
	}
	if r.omitted.kind != absent {
		say("left out if it is %v", r.omitted.json)
	}
	if r.otherwise == "drop" && r.digitsTo == number {
		say("another word as null")
	}
	return list
}
