package translate

import "strings"

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
	Detail   string // how the value is translated, or why it is lossy
	About    string // what the field holds
}

// Fields returns every row of the operation in every direction, in the order of the table. From and To are the forms of the
// message: a reply goes from the upstream's form to the client's.
func (o *Operation) Fields() []Field {
	var fields []Field
	for _, m := range []Message{Request, Reply} {
		for from := range o.paths {
			to := 1 - from
			switch {
			case o.paths[from] == "":
			case o.paths[to] == "":
				for _, r := range o.rows[m] {
					fields = append(fields, Field{string(m), o.table.forms[from].name, o.table.forms[from].name, r.path[from], r.path[from], Passed, "", r.about})
				}
			default:
				for _, r := range o.rows[m] {
					if f, ok := r.field(o.table, m, from, to); ok {
						fields = append(fields, f)
					}
				}
			}
		}
	}
	return fields
}

// field returns the row in one direction. ok is false if the row has no effect in this direction.
func (r *row) field(t *Table, m Message, from, to int) (f Field, ok bool) {
	f = Field{Message: string(m), From: t.forms[from].name, To: t.forms[to].name, Source: r.path[from], Target: r.path[to], Class: Exact, About: r.about}
	var detail []string
	say := func(words ...string) { detail = append(detail, strings.Join(words, " ")) }
	switch only := r.onlyForm(); {
	case only < 0:
		switch as := t.forms[to].digits; {
		case r.empty != "" && as == number:
			say("as a number,", `"" as`, r.empty)
		case r.empty != "":
			say("as text,", r.empty, `as ""`)
		case r.digits:
			say("as", as.String())
		}
		if len(r.pairs.list) > 0 {
			say("by value pairs")
		}
	case only == to && r.defaultValue != nil:
		f.Class = Defaulted
		say(r.defaultValue.json)
	case only == to && r.echo != "":
		f.Class = Echoed
		say("from the request's", r.echo)
	case only == to:
		return f, false // no value can get there
	case r.loss == "drop", r.echo != "":
		f.Class = Lossy
		say("dropped and counted")
	case r.defaultValue != nil:
		f.Class = Lossy
		say("only", r.defaultValue.json, "can be carried, else refused with", r.lossCode)
	default:
		f.Class = Lossy
		say("refused with", r.lossCode)
	}
	f.Detail = strings.Join(detail, "; ")
	return f, true
}
