package translate

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// A Callback is what the upstream sends of itself to an address that the partner gave (translate/README.md, Events):
// in the upstream's form, while the partner's server reads its own. It is immutable and safe for concurrent use.
type Callback struct {
	operation *Operation
	method    string
	answers   [2]answer
	plans     [2][2]*plan
	respelled [2]*plan // of what comes in the other form to a partner of the upstream's own, by that form
	names     [2]names
	fields    [2][]string // the paths that one form alone has: they show which one a callback is in
}

// answer is how a form says that a callback arrived.
type answer struct{ json, code string }

// names are the paths under which a form names whom and what a callback is about.
type names struct{ partner, bill string }

// compile makes the plans of each direction.
func (c *Callback) compile() {
	for from := range c.plans {
		for to := range c.plans {
			c.plans[from][to] = c.operation.plan(notice, from, to)
		}
		for _, r := range c.operation.rows[notice] {
			switch r.role {
			case partnerRole:
				c.names[from].partner = r.path[from]
			case billRole:
				c.names[from].bill = r.path[from]
			}
			if r.path[from] != "" && !slices.ContainsFunc(c.operation.rows[notice], func(o *row) bool { return o.path[1-from] == r.path[from] }) {
				c.fields[from] = append(c.fields[from], r.path[from])
			}
		}
		// What the table does not know of it, or has in one form alone, would have reached the partner as it is, and must not be
		// lost now.
		both := *c.operation
		both.rows = map[message][]*row{notice: slices.DeleteFunc(slices.Clone(c.operation.rows[notice]), func(r *row) bool { return r.lone() >= 0 })}
		p := both.plan(notice, 1-from, from)
		p.unknown = "pass"
		p.connect(p.result)
		c.respelled[from] = p
	}
}

// Name is the callback's name among those of the operations.
func (c *Callback) Name() string { return c.operation.Name }

// Method is the HTTP method that it comes by, and goes on by.
func (c *Callback) Method() string { return c.method }

// A Recognition is what a callback was taken for.
type Recognition string

// What a callback can be taken for. What is not translated passes byte for byte.
const (
	Translated   Recognition = "translated"
	InForm       Recognition = "in form"      // the partner's form already
	Unrecognised Recognition = "unrecognised" // it names neither a partner nor a bill where it should, or is not JSON
	AForm        Recognition = "a form"       // of [Callback.ReadForm]
)

// A Notice is what a callback says, as far as the gateway needs to know.
type Notice struct {
	Recognised Recognition

	// Partners and Bills are the keys and bills that it names, as text: under the upstream's names, and then under
	// those of the other form. Two of one kind contradict each other, and then it is not known what it is about.
	Partners, Bills []string

	// OtherForm: it is in the form that its upstream does not speak.
	OtherForm bool

	Report Report
}

// Translate appends the upstream's callback to dst as the partner's form has it. from and to must be forms of the table.
//
// It is lenient as a reply is: a value is converted where it can be, else it passes as it is and is counted; nothing
// is padded, stripped or re-printed. What the document does not show may well look different from what we expect
// (Events: "payload … not shown"), and a notice of a payment must not be lost for that. So src itself comes back
//
//   - between equal forms, unless it has no field of that form and some of the other: then it is read in the other form,
//     and fields that no row names stay in it;
//   - when it names a partner or a bill by the partner's form and neither by the upstream's: it is in that form already;
//   - when it names neither by either form, or is no object, or not JSON by its grammar. Then it names nothing that
//     one could rely on, and the caller decides whether it goes on.
//
// The error is a [*Refusal]: JSON that another reader could take for more than this one does must not go on. That is
// a name twice in an object, however it is spelled, text that is not UTF-8, and nesting beyond the limit, which is
// never looked into, JSON or not. Only a value of text or a number that is not empty names something.
func (c *Callback) Translate(dst, src []byte, from, to Form) ([]byte, Notice, error) {
	t := c.operation.table
	f, u := t.index(from), t.index(to)
	if fault := check(src, t.depth); fault != nil {
		if tooDeep(src, t.depth) < 0 && !hasGrammar(src) {
			return src, Notice{Recognised: Unrecognised}, nil
		}
		return nil, Notice{}, &Refusal{t.invalid, fault.field, fault.reason}
	}
	doc := gjson.Parse(view(src))
	// Both forms, also where both backends speak one: a partner's server may read either.
	sent, other := c.names[f].in(doc), c.names[1-f].in(doc)
	n := Notice{Recognised: Unrecognised, Partners: told(sent.partner, other.partner), Bills: told(sent.bill, other.bill)}
	p := c.plans[f][u]
	switch {
	case f != u && sent != names{}:
		n.Recognised = Translated
	case f != u && other != names{}:
		n.Recognised, n.OtherForm = InForm, true
	case f == u && sent != names{}:
		n.Recognised = InForm
	case f == u && c.has(doc, 1-f) && !c.has(doc, f):
		p = c.respelled[f]
		n.Recognised, n.OtherForm = Translated, true
	}
	if n.Recognised != Translated {
		return src, n, nil
	}
	call := &Call{translation: &Translation{reply: p, echoes: slices.Repeat([]int{-1}, len(p.rows))}, reply: make([]value, p.slots())}
	call.walk(p, p.root, doc, call.reply)
	dst, _ = call.emit(p, append(dst, '{'), call.reply)
	call.drops(p)
	n.Report = call.Report
	return append(dst, '}'), n, nil
}

// ReadForm is what a callback says that came as a form (application/x-www-form-urlencoded), by the names of both forms of
// the table. It is not translated: it goes on byte for byte. The error is a [*Refusal], as of [Callback.Translate].
func (c *Callback) ReadForm(src []byte) (Notice, error) {
	t := c.operation.table
	values, err := url.ParseQuery(view(src))
	if err != nil {
		return Notice{}, &Refusal{t.invalid, "", "not a form that every reader takes for the same"}
	}
	n := Notice{Recognised: AForm}
	for _, names := range c.names {
		for _, of := range []struct {
			path string
			to   *[]string
		}{{names.partner, &n.Partners}, {names.bill, &n.Bills}} {
			for i, v := range values[of.path] {
				if i > 0 {
					return Notice{}, &Refusal{t.invalid, of.path, "this name stands twice"}
				}
				if !utf8.ValidString(v) {
					return Notice{}, &Refusal{t.invalid, of.path, "is not UTF-8"}
				}
				*of.to = told(append(*of.to, strings.Clone(v))...)
			}
		}
	}
	return n, nil
}

// IsJSON tells whether src is JSON by its grammar, in any text. src must not nest deeper than the limit of the table: what
// [Callback.Translate] returned without an error does not.
func IsJSON(src []byte) bool { return hasGrammar(src) }

// in is what doc has under the names, "" where that names nothing.
func (n names) in(doc gjson.Result) names {
	read := func(path string) string {
		if v := lookup(doc, path); !v.nothing() && (v.kind == text || v.kind == number) {
			return strings.Clone(v.text()) // it outlives the message
		}
		return ""
	}
	return names{read(n.partner), read(n.bill)}
}

// has tells whether doc has a field that one form alone has.
func (c *Callback) has(doc gjson.Result, form int) bool {
	return slices.ContainsFunc(c.fields[form], func(path string) bool { return lookup(doc, path).kind != absent })
}

// told are the different ones that are not empty.
func told(all ...string) []string {
	var list []string
	for _, v := range all {
		if v != "" && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// lookup is the value that doc has under a path of the table. Names are compared after unescaping.
func lookup(doc gjson.Result, path string) (found value) {
	name, rest, deeper := strings.Cut(path, ".")
	doc.ForEach(func(key, v gjson.Result) bool {
		switch {
		case key.Str != name:
			return true
		case deeper && v.IsObject():
			found = lookup(v, rest)
		case !deeper:
			found = valueOf(v)
		}
		return false
	})
	return found
}

// Answer is what the receiver of a callback answers in a form, with HTTP 200, when it has it.
func (c *Callback) Answer(f Form) []byte {
	return []byte(c.answers[c.operation.table.index(f)].json)
}

// Succeeded tells whether an answer in a form says that the receiver has the callback: HTTP 200, and the code of
// [Callback.Answer]. What else is in it does not matter.
func (c *Callback) Succeeded(f Form, status int, body []byte) bool {
	code := c.code(f, body)
	return status == statusOK && code.kind == text && code.text() == c.answers[c.operation.table.index(f)].code
}

// AnsweredCode is the code of an answer in a form, a number as its digits, "" where none can be read.
func (c *Callback) AnsweredCode(f Form, body []byte) string {
	if code := c.code(f, body); code.kind == text || code.kind == number {
		return strings.Clone(code.text())
	}
	return ""
}

func (c *Callback) code(f Form, body []byte) value {
	t := c.operation.table
	if check(body, t.depth) != nil {
		return value{}
	}
	return lookup(gjson.Parse(view(body)), t.forms[t.index(f)].code)
}

// Fields classifies every row in both directions, in the order of the table.
func (c *Callback) Fields() []Field {
	var fields []Field
	for from := range c.plans {
		for _, r := range c.operation.rows[notice] {
			if f, ok := r.field(c.operation.table, request, from, 1-from); ok {
				fields = append(fields, f)
			}
		}
	}
	return fields
}
