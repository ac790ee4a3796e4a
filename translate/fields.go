package translate

import "billbridge/translate/wording"

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
	Detail   wording.Text // how the value is translated, or why it is lossy
	About    string       // what the field holds
	Exact    bool         // in a comparison of two backends one difference is too many
	Refused  string       // the code of the refusal of a request that the form To cannot carry; "" if it carries every value
	Carried  string       // the only value that To can carry, as JSON; "" for none
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
					fields = append(fields, Field{string(m), o.table.forms[from].name, o.table.forms[from].name, r.path[from], r.path[from], Passed, nil, r.About, r.Exact, "", ""})
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
	f = Field{Message: string(m), From: t.forms[from].name, To: t.forms[to].name, Source: r.path[from], Target: r.path[to], Class: Exact, About: r.About, Exact: r.Exact}
	var detail []wording.Text
	switch only := r.onlyForm(); {
	case only < 0:
		switch as := t.forms[to].digits; {
		case r.empty != "" && as == number:
			detail = append(detail, wording.Of(`as a number, "" as %v`, r.empty))
		case r.empty != "":
			detail = append(detail, wording.Of(`as text, %v as ""`, r.empty))
		case r.digits && as == number:
			detail = append(detail, wording.Of("as a number"))
		case r.digits:
			detail = append(detail, wording.Of("as text"))
		}
		if len(r.pairs.list) > 0 {
			detail = append(detail, wording.Of("by value pairs"))
		}
	case only == to && r.defaultValue != nil:
		f.Class = Defaulted
		detail = append(detail, wording.Of("%v", r.defaultValue.json))
	case only == to && r.Echo != "":
		f.Class = Echoed
		detail = append(detail, wording.Of("from the request's %v", r.Echo))
	case only == to:
		return f, false // no value can get there
	case r.Loss == "drop", r.Echo != "":
		f.Class = Lossy
		detail = append(detail, wording.Of("dropped and counted"))
	case r.defaultValue != nil:
		f.Class = Lossy
		f.Refused, f.Carried = r.LossCode, r.defaultValue.json
		detail = append(detail, wording.Of("only %v can be carried, else refused with %v", r.defaultValue.json, r.LossCode))
	default:
		f.Class, f.Refused = Lossy, r.LossCode
		detail = append(detail, wording.Of("refused with %v", r.LossCode))
	}
	f.Detail = wording.Join(detail, "; ")
	return f, true
}
