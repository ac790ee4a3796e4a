package translate

import (
	"bytes"
	"cmp"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// A Callback is a message that the upstream sends, without a request, to an address of the partner
// It is in the upstream's form, and the partner's server reads the partner's form. A
// Callback is immutable and safe for concurrent use.
type Callback struct {
	operation    *Operation
	method       string
	answers      byForm[answer]
	plans        [][]*plan // by the forms of upstream and partner
	otherForm    []*plan   // by the form of upstream and partner: for a callback that is in the other form
	intake       *plan     // the names of both forms
	identifiedBy []string  // the roles that say what a callback is about
	under        byForm[string]
	constants    []*row // with default
}

// answer is what the receiver of a callback answers, and its code, or its flag if the form has one.
type answer struct {
	json string
	code constant
}

// compile makes the plans for all directions.
func (c *Callback) compile() {
	c.findShown()
	c.plans = make([][]*plan, len(c.operation.table.forms))
	for from := range c.plans {
		for to := range c.plans {
			c.plans[from] = append(c.plans[from], c.operation.plan(callbackMessage, from, to))
		}
	}
	for form := range c.plans {
		c.otherForm = append(c.otherForm, c.otherFormPlan(form))
	}
	for _, r := range c.operation.rows[callbackMessage] {
		if r.always.kind != absent {
			c.constants = append(c.constants, r)
		}
	}
	anything := &row{Role: noRole, malformed: c.operation.table.invalid} // values are treated like those of a reply
	c.intake = c.intakePlan(c.operation.rows[callbackMessage], anything)
}

// findShown finds the rows that a reply has, also in another object: what their values mean says the reply.
func (c *Callback) findShown() {
	same := func(r, shown *row) bool {
		for f, path := range shown.Path[:2] {
			if path == "" || r.Path[f] != path && !strings.HasSuffix(r.Path[f], "."+path) {
				return false
			}
		}
		return shown.Means != nil || shown.exact
	}
	for _, r := range c.operation.rows[callbackMessage] {
		for _, o := range c.operation.table.operations {
			i := slices.IndexFunc(o.rows[Reply], func(shown *row) bool { return same(r, shown) })
			if i >= 0 {
				r.shown = o.rows[Reply][i]
			}
		}
	}
}

// intakePlan returns the plan that knows the names of rows in both forms.
func (c *Callback) intakePlan(rows []*row, anything *row) *plan {
	p := &plan{table: c.operation.table, message: Request, root: newNode("", "", Request), names: map[string]bool{}}
	for _, r := range rows {
		for _, path := range r.Path {
			p.names[path[strings.LastIndexByte(path, '.')+1:]] = true
			p.addField(p.root, path, entry{slot: len(p.fields)})
			f := &mapping{row: anything, source: path}
			if r.items != nil {
				f.each = c.intakePlan(r.items, anything)
			}
			p.fields = append(p.fields, f)
		}
	}
	p.size = len(p.fields)
	p.place(p.root)
	return p
}

// plan returns the plan from one form of the table to another.
func (c *Callback) plan(from, to Form) *plan {
	t := c.operation.table
	return c.plans[t.formIndex(from)][t.formIndex(to)]
}

// otherFormPlan returns the plan for a callback in the form that neither upstream nor partner speaks. Without a
// translation the partner would get all of its fields, so it also keeps the fields that have no row, or a row of one
// form.
func (c *Callback) otherFormPlan(form int) *plan {
	rows := slices.Clone(c.operation.rows[callbackMessage])
	rows = slices.DeleteFunc(rows, func(r *row) bool { return r.onlyForm() >= 0 })
	return c.operation.table.message(callbackMessage, rows, otherOf(form), form, "pass")
}

// Name returns the callback's name in the table.
func (c *Callback) Name() string { return c.operation.Name }

// Method returns the HTTP method of the callback.
func (c *Callback) Method() string { return c.method }

// A Recognition says how the table recognised a callback. The values are labels of a metric.
type Recognition string

// Only a Translated callback is changed. All others pass byte for byte.
const (
	Translated   Recognition = "translated"
	InForm       Recognition = "in form"      // already in the partner's form
	Unrecognised Recognition = "unrecognised" // not JSON, or without a field that says what it is about
	FormEncoded  Recognition = "a form"       // application/x-www-form-urlencoded, see [Callback.ReadForm]
)

// A Notice is what the gateway reads from a callback.
type Notice struct {
	Recognised Recognition

	// Values are by role: first the value under the upstream's name, then the value under the other form's name if it
	// differs. Two values contradict each other.
	Values map[string][]string

	// OtherForm reports that the callback is in the form that its upstream does not speak.
	OtherForm bool

	Report Report

	plan *plan // by which it was translated, or by which it is explained
}

// Translate appends the upstream's callback to dst in the partner's form.
//
// Like a reply, a callback is translated leniently: a value that does not fit passes unchanged and is counted. The
// document of an interface may not show it, and an event must not get lost because its callback looks different.
// So Translate returns src itself
//
//   - between equal forms, unless the callback has only fields of the other form: then it is translated from that form,
//     and fields without a row stay in it;
//   - if it says what it is about in the partner's form only, since it is in that form already;
//   - if it says that in neither form, or is not a JSON object. The caller decides what to do with it;
//   - if its state is a word without a pair that has another meaning in the partner's form: it is unrecognised, too.
//
// The error is a [*Refusal] if two readers could read the JSON differently, as with a request: a duplicate name, a name
// that differs from one of either form in case only, a byte order mark, invalid UTF-8, or nesting beyond the limit,
// where even the syntax is not checked.
func (c *Callback) Translate(dst, src []byte, from, to Form) ([]byte, Notice, error) {
	return c.translate(dst, src, from, to, nil)
}

func (c *Callback) translate(dst, src []byte, from, to Form, x *trace) ([]byte, Notice, error) {
	t := c.operation.table
	if err := cmp.Or(t.checkForm(from), t.checkForm(to)); err != nil {
		return nil, Notice{}, err
	}
	p, call := c.plan(from, to), startCallback(c.intake)
	if _, refusal := call.take(c.intake, src, call.reply); refusal != nil {
		n := Notice{plan: c.plans[p.from][p.from]}
		if tooDeepAt(src, p.table.depth) < 0 && !IsJSON(bytes.TrimPrefix(src, byteOrderMark)) {
			n.Recognised = Unrecognised
			return src, n, nil
		}
		return nil, n, refusal
	}
	n := c.recognise(gjson.Parse(unsafeString(src)), p.from, p.to)
	if n.Recognised != Translated {
		return src, n, nil
	}
	p, call = n.plan, startCallback(n.plan)
	call.trace = x
	call.scan(p, src, call.reply) // without a fault, since the JSON is the same
	if call.look(p, call.reply).misleads != nil {
		n.Recognised, n.plan = Unrecognised, c.plans[p.from][p.from]
		return src, n, nil
	}
	_ = call.checkFields(p, call.reply, true)
	dst, _ = call.emitAll(p, dst, call.reply)
	n.Report = call.Report
	return dst, n, nil
}

// Facts returns the fields of a callback that the notice is about, as those of a reply; nil if it was not recognised.
func (n Notice) Facts(src []byte) []Fact {
	if n.Recognised != Translated && n.Recognised != InForm {
		return nil
	}
	call := startCallback(n.plan)
	call.scan(n.plan, src, call.reply)
	call.success = true
	return call.Facts(false)
}

var byteOrderMark = []byte("\ufeff")

// startCallback returns a call that translates one callback by a plan, without a request.
func startCallback(p *plan) *Call {
	return &Call{translation: &Translation{reply: p}, reply: make([]value, p.size)}
}

// recognise returns what a callback is about, and its plan. Values are read in both forms, even if upstream and
// partner speak the same: a partner's server may read either.
func (c *Callback) recognise(doc gjson.Result, from, to int) Notice {
	n := Notice{Recognised: Unrecognised, Values: map[string][]string{}, plan: c.plans[from][from]}
	other := to
	if from == to {
		other = otherOf(from)
	}
	inForm, inOther := c.addValues(doc, from, n.Values), c.addValues(doc, other, n.Values)
	for form := range 2 {
		if form != from && form != other {
			c.addValues(doc, form, n.Values)
		}
	}
	switch {
	case from != to && inForm:
		n.Recognised, n.plan = Translated, c.plans[from][to]
	case from != to && inOther:
		n.Recognised, n.OtherForm, n.plan = InForm, true, c.plans[to][to]
	case from == to && inForm:
		n.Recognised = InForm
	case from == to && c.hasOwnField(doc, other) && !c.hasOwnField(doc, from):
		n.Recognised, n.OtherForm, n.plan = Translated, true, c.otherForm[from]
	}
	return n
}

// otherOf returns the other one of the first two forms.
func otherOf(form int) int {
	if form == 0 {
		return 1
	}
	return 0
}

// pathOf returns the path of the field with a role in a form.
func (c *Callback) pathOf(role string, form int) string {
	return c.operation.PathOf(callbackMessage, role, c.operation.table.forms[form].name)
}

// ReadForm reads a form-encoded callback (application/x-www-form-urlencoded) by the names of both forms of the table.
// Such a callback is not translated. The error is a [*Refusal], as in [Callback.Translate].
func (c *Callback) ReadForm(src []byte) (Notice, error) {
	t := c.operation.table
	values, err := url.ParseQuery(unsafeString(src))
	if err != nil {
		return Notice{}, t.refusal("", why("cannot be read as application/x-www-form-urlencoded"))
	}
	call := startCallback(c.intake)
	for name := range values {
		if _, known := c.intake.root.index[name]; !known && call.rejectLike(c.intake, c.intake.root, name, value{}) {
			return Notice{}, call.rejected
		}
	}
	n := Notice{Recognised: FormEncoded, Values: map[string][]string{}}
	for form := range t.forms {
		for _, role := range c.identifiedBy {
			path := c.pathOf(role, form)
			for i, v := range values[path] {
				if i > 0 {
					return Notice{}, t.refusal(path, why(duplicateName))
				}
				if !utf8.ValidString(v) {
					return Notice{}, t.refusal(path, why("is not UTF-8"))
				}
				addValue(n.Values, role, v)
			}
		}
	}
	return n, nil
}

// addValues adds the values of the identifying roles that doc has in a form, and reports whether it has any. A value
// is non-empty text or a number.
func (c *Callback) addValues(doc gjson.Result, form int, values map[string][]string) (found bool) {
	for _, r := range c.constants {
		if v := lookup(doc, r.Path[form]); r.Path[form] != "" && v.kind != absent && !v.is(r.always) {
			return false // a message of another kind
		}
	}
	for _, role := range c.identifiedBy {
		if v := lookup(doc, c.pathOf(role, form)); !v.countsAsAbsent() && (v.kind == text || v.kind == number) {
			addValue(values, role, v.text())
			found = true
		}
	}
	return found
}

// addValue adds a copy of a value to those of a role, unless it is empty or already there.
func addValue(values map[string][]string, role, v string) {
	if v != "" && !slices.Contains(values[role], v) {
		values[role] = append(values[role], strings.Clone(v))
	}
}

// hasOwnField reports whether doc has a field with a path that no field has in the other form.
func (c *Callback) hasOwnField(doc gjson.Result, form int) bool {
	rows := c.operation.rows[callbackMessage]
	return slices.ContainsFunc(rows, func(r *row) bool {
		path := r.Path[form]
		inOther := func(other *row) bool { return other.Path[otherOf(form)] == path }
		return path != "" && lookup(doc, path).kind != absent && !slices.ContainsFunc(rows, inOther)
	})
}

// lookup returns the value of doc at a path of the table. Names are compared after unescaping.
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

// FromReply appends the callback that reports what the last reply of a call, a success, has shown, in the upstream's
// form: the fields that the two have in common. Each has the bytes of the reply, and one that the reply lacks is
// absent.
func (c *Callback) FromReply(dst []byte, reply *Call) []byte {
	read := reply.translation.reply
	p := c.plans[read.from][read.from]
	call := startCallback(p)
	for slot, f := range p.fields {
		for i, shown := range read.fields {
			same := shown.source != "" && f.source == joinPath(c.under[read.from], shown.source)
			if v := reply.reply[i]; same && v.kind != absent {
				call.reply[slot] = value{raw: v.raw, kind: asIs}
			}
		}
	}
	dst, _ = call.emitAll(p, dst, call.reply)
	return dst
}

// IdentifiedBy returns the roles of the fields that say what a callback is about. The caller must not modify them.
func (c *Callback) IdentifiedBy() []string { return c.identifiedBy }

// Answer returns the body with which a receiver acknowledges a callback, with HTTP 200.
func (c *Callback) Answer(f Form) []byte {
	return []byte(ofForm(c.operation.table, f, c.answers).json)
}

// Succeeded reports whether the receiver has acknowledged a callback: with HTTP 2xx and the code of [Callback.Answer].
// The document says 200; some frameworks answer 201. The rest of the body does not matter.
func (c *Callback) Succeeded(f Form, status int, body []byte) bool {
	i := c.operation.table.formIndex(f)
	return i >= 0 && status/100 == 2 && c.answerCode(f, body).is(c.answers[i].code)
}

// Acknowledgement returns what an answer must have besides HTTP 2xx: the name and the value of its code or flag.
func (c *Callback) Acknowledgement(f Form) string {
	i := c.operation.table.formIndex(f)
	form := &c.operation.table.forms[i]
	return cmp.Or(form.flag, form.Code) + " " + c.answers[i].code.text
}

// AnsweredCode returns the code of a receiver's answer, or its flag if the form has one, or "" if it has no readable
// code. A code may be a number.
func (c *Callback) AnsweredCode(f Form, body []byte) string {
	if code := c.answerCode(f, body); code.kind == text || code.kind == number || code.kind == boolean {
		return strings.Clone(code.text())
	}
	return ""
}

func (c *Callback) answerCode(f Form, body []byte) value {
	t := c.operation.table
	if t.formIndex(f) < 0 || checkJSON(body, t.depth) != nil {
		return value{}
	}
	form := t.forms[t.formIndex(f)]
	return lookup(gjson.Parse(unsafeString(body)), cmp.Or(form.flag, form.Code))
}
