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
	operation      *Operation
	method         string
	answers        [2]answer
	plans          [2][2]*plan
	otherFormPlans [2]*plan             // of what comes in the other form to a partner of the upstream's own, by that form
	identifiedBy   []string             // the roles that say what it is about
	rolePaths      [2]map[string]string // by role: the path in each form
	ownFields      [2][]string          // the paths that one form alone has: they show which one a callback is in
}

// answer is how a form says that a callback arrived.
type answer struct{ json, code string }

// compile makes the plans of each direction.
func (c *Callback) compile() {
	for from := range c.plans {
		for to := range c.plans {
			c.plans[from][to] = c.operation.plan(callbackMessage, from, to)
		}
		c.rolePaths[from] = map[string]string{}
		for _, r := range c.operation.rows[callbackMessage] {
			if r.role != nil && slices.Contains(c.identifiedBy, r.role.name) {
				c.rolePaths[from][r.role.name] = r.path[from]
			}
			if r.path[from] != "" && !slices.ContainsFunc(c.operation.rows[callbackMessage], func(o *row) bool { return o.path[1-from] == r.path[from] }) {
				c.ownFields[from] = append(c.ownFields[from], r.path[from])
			}
		}
		// What the table does not know of it, or has in one form alone, would have reached the partner as it is, and must not be
		// lost now.
		both := *c.operation
		both.rows = map[Message][]*row{callbackMessage: slices.DeleteFunc(slices.Clone(c.operation.rows[callbackMessage]), func(r *row) bool { return r.onlyForm() >= 0 })}
		p := both.plan(callbackMessage, 1-from, from)
		p.unknown = "pass"
		p.connectObjects(p.result)
		c.otherFormPlans[from] = p
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
	Unrecognised Recognition = "unrecognised" // it says nowhere what it is about, or is not JSON
	FormEncoded  Recognition = "a form"       // of [Callback.ReadForm]
)

// A Notice is what a callback says, as far as the gateway needs to know.
type Notice struct {
	Recognised Recognition

	// Values are the texts that it has, by role: under the upstream's names, and then under those of the other form. Two
	// of one role contradict each other, and then it is not known what it is about.
	Values map[string][]string

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
//   - when it says what it is about under names of the partner's form and under none of the upstream's: it is in that form
//     already;
//   - when it says so in neither form, or is no object, or not JSON by its grammar. Then the caller decides whether it goes on.
//
// The error is a [*Refusal]: JSON that another reader could take for more than this one does must not go on. That is
// a name twice in an object, however it is spelled, text that is not UTF-8, and nesting beyond the limit, which is
// never looked into, JSON or not. Only a value of text or a number that is not empty names something.
func (c *Callback) Translate(dst, src []byte, from, to Form) ([]byte, Notice, error) {
	t := c.operation.table
	f, u := t.formIndex(from), t.formIndex(to)
	if fault := checkJSON(src, t.depth); fault != nil {
		if tooDeepAt(src, t.depth) < 0 && !isJSONGrammar(src) {
			return src, Notice{Recognised: Unrecognised}, nil
		}
		return nil, Notice{}, &Refusal{t.invalid, fault.field, fault.reason}
	}
	doc := gjson.Parse(unsafeString(src))
	// Both forms, also where both backends speak one: a partner's server may read either.
	n := Notice{Recognised: Unrecognised, Values: map[string][]string{}}
	sent, other := c.addValues(doc, f, n.Values), c.addValues(doc, 1-f, n.Values)
	p := c.plans[f][u]
	switch {
	case f != u && sent:
		n.Recognised = Translated
	case f != u && other:
		n.Recognised, n.OtherForm = InForm, true
	case f == u && sent:
		n.Recognised = InForm
	case f == u && c.hasOwnField(doc, 1-f) && !c.hasOwnField(doc, f):
		p = c.otherFormPlans[f]
		n.Recognised, n.OtherForm = Translated, true
	}
	if n.Recognised != Translated {
		return src, n, nil
	}
	call := &Call{translation: &Translation{reply: p, echoSlots: slices.Repeat([]int{-1}, len(p.rows))}, reply: make([]value, p.slots())}
	call.walk(p, p.root, doc, call.reply)
	dst, _ = call.emit(p, append(dst, '{'), call.reply)
	call.reportDropped(p)
	n.Report = call.Report
	return append(dst, '}'), n, nil
}

// ReadForm is what a callback says that came as a form (application/x-www-form-urlencoded), by the names of both forms of
// the table. It is not translated: it goes on byte for byte. The error is a [*Refusal], as of [Callback.Translate].
func (c *Callback) ReadForm(src []byte) (Notice, error) {
	t := c.operation.table
	values, err := url.ParseQuery(unsafeString(src))
	if err != nil {
		return Notice{}, &Refusal{t.invalid, "", "not a form that every reader takes for the same"}
	}
	n := Notice{Recognised: FormEncoded, Values: map[string][]string{}}
	for _, names := range c.rolePaths {
		for _, role := range c.identifiedBy {
			for i, v := range values[names[role]] {
				if i > 0 {
					return Notice{}, &Refusal{t.invalid, names[role], "this name stands twice"}
				}
				if !utf8.ValidString(v) {
					return Notice{}, &Refusal{t.invalid, names[role], "is not UTF-8"}
				}
				addValue(n.Values, role, v)
			}
		}
	}
	return n, nil
}

// IsJSON tells whether src is JSON by its grammar, in any text. src must not nest deeper than the limit of the table: what
// [Callback.Translate] returned without an error does not.
func IsJSON(src []byte) bool { return isJSONGrammar(src) }

// addValues adds what doc has under the names of a form to values, and tells whether it has anything there.
func (c *Callback) addValues(doc gjson.Result, form int, values map[string][]string) (found bool) {
	for _, role := range c.identifiedBy {
		if v := lookup(doc, c.rolePaths[form][role]); !v.countsAsAbsent() && (v.kind == text || v.kind == number) {
			addValue(values, role, v.text())
			found = true
		}
	}
	return found
}

// addValue adds a copy of a value, which outlives the message, to those of a role, unless it is empty or known.
func addValue(values map[string][]string, role, v string) {
	if v != "" && !slices.Contains(values[role], v) {
		values[role] = append(values[role], strings.Clone(v))
	}
}

// hasOwnField tells whether doc hasOwnField a field that one form alone hasOwnField.
func (c *Callback) hasOwnField(doc gjson.Result, form int) bool {
	return slices.ContainsFunc(c.ownFields[form], func(path string) bool { return lookup(doc, path).kind != absent })
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
	return []byte(c.answers[c.operation.table.formIndex(f)].json)
}

// Succeeded tells whether an answer in a form says that the receiver has the callback: HTTP 200, and the code of
// [Callback.Answer]. What else is in it does not matter.
func (c *Callback) Succeeded(f Form, status int, body []byte) bool {
	code := c.answerCode(f, body)
	return status == statusOK && code.kind == text && code.text() == c.answers[c.operation.table.formIndex(f)].code
}

// AnsweredCode is the code of an answer in a form, a number as its digits, "" where none can be read.
func (c *Callback) AnsweredCode(f Form, body []byte) string {
	if code := c.answerCode(f, body); code.kind == text || code.kind == number {
		return strings.Clone(code.text())
	}
	return ""
}

func (c *Callback) answerCode(f Form, body []byte) value {
	t := c.operation.table
	if checkJSON(body, t.depth) != nil {
		return value{}
	}
	return lookup(gjson.Parse(unsafeString(body)), t.forms[t.formIndex(f)].code)
}

// Fields classifies every row in both directions, in the order of the table.
func (c *Callback) Fields() []Field {
	var fields []Field
	for from := range c.plans {
		for _, r := range c.operation.rows[callbackMessage] {
			if f, ok := r.field(c.operation.table, Request, from, 1-from); ok {
				fields = append(fields, f)
			}
		}
	}
	return fields
}
