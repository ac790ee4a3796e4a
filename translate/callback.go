package translate

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// A Callback is a message that the upstream sends, without a request, to an address of the partner. It is in the
// upstream's form, and the partner's server reads the partner's form. A Callback is immutable and safe for concurrent
// use.
type Callback struct {
	Name, Method string // in the table, and of HTTP

	operation  *Operation
	answers    byForm[string]
	plans      [][]*plan // by the forms of upstream and partner
	otherForm  []*plan   // by the form of upstream and partner: for a callback that is in the other form
	intake     *plan     // the names of both forms
	identified []*row    // what a callback is about
	under      byForm[string]
}

// compile makes the plans for all directions, and finds the rows that a reply has, also in another object: what their
// values mean says the reply.
func (c *Callback) compile() {
	o := c.operation
	rows := o.rows[callbackMessage]
	for _, r := range rows {
		for _, read := range o.table.Operations {
			for _, shown := range read.rows[Reply] {
				same := func(f int) bool {
					return shown.Path[f] != "" && strings.HasSuffix("."+r.Path[f], "."+shown.Path[f])
				}
				if (shown.Means != nil || shown.exact) && same(0) && same(1) {
					r.shown = shown
				}
			}
		}
	}
	// In the other form a partner would get all fields without a translation, so also those without a row, or with one
	// of one form, stay.
	shared := slices.DeleteFunc(slices.Clone(rows), func(r *row) bool { return r.onlyForm() >= 0 })
	for from := range o.table.forms {
		plans, other := []*plan(nil), o.message(callbackMessage, shared, otherOf(from), from, "pass")
		for to := range o.table.forms {
			plans = append(plans, o.plan(callbackMessage, from, to))
		}
		c.plans, c.otherForm = append(c.plans, plans), append(c.otherForm, other)
	}
	c.intake = o.table.intakePlan(rows)
}

// intakePlan returns the plan that knows the names of rows in all forms. Values are treated like those of a reply.
func (t *Table) intakePlan(rows []*row) *plan {
	p := &plan{table: t, message: Request, root: newNode("", "", true), names: map[string]bool{}}
	for _, r := range rows {
		for _, path := range r.Path {
			p.names[path[strings.LastIndexByte(path, '.')+1:]] = true
			p.root.addField(path, entry{slot: len(p.fields)})
			f := &mapping{row: &row{Role: noRole}, direction: direction{source: path}}
			f.malformed = t.invalid
			if r.items != nil {
				f.each = t.intakePlan(r.items)
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
	return c.plans[max(0, t.formIndex(from))][max(0, t.formIndex(to))]
}

// A Recognition says how the table recognised a callback. The values are labels of a metric.
type Recognition string

// Only a Translated callback is changed. All others pass byte for byte.
const (
	Translated   Recognition = "translated"
	InForm       Recognition = "in form"      // already in the partner's form
	Unrecognised Recognition = "unrecognised" // not JSON, or without a field that says what it is about
)

// A Notice is what the gateway reads from a callback.
type Notice struct {
	Recognised Recognition

	// Values are by role: first the value under the upstream's name, then the value under the other form's name if it
	// differs. Two values contradict each other.
	Values map[string][]string

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
	inForm := c.plan(from, from)
	n, call := Notice{Recognised: Unrecognised, plan: inForm}, startCallback(c.intake)
	if _, refusal := call.take(c.intake, src, call.reply); refusal != nil {
		if tooDeepAt(src, t.depth) < 0 && !IsJSON(bytes.TrimPrefix(src, byteOrderMark)) {
			return src, n, nil
		}
		return nil, Notice{plan: inForm}, refusal
	}
	if c.recognise(&n, gjson.Parse(unsafeString(src)), inForm.from, t.formIndex(to)); n.Recognised != Translated {
		return src, n, nil
	}
	call = startCallback(n.plan)
	call.trace = x
	call.scan(n.plan, src, call.reply) // without a fault, since the JSON is the same
	if call.look(n.plan, call.reply).misleads != nil {
		n.Recognised, n.plan = Unrecognised, inForm
		return src, n, nil
	}
	dst, _ = call.write(n.plan, dst, call.reply)
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

// recognise finds what a callback is about, and its plan. Values are read in both forms, even if upstream and partner
// speak the same: a partner's server may read either.
func (c *Callback) recognise(n *Notice, doc gjson.Result, from, to int) {
	other := to
	if from == to {
		other = otherOf(from)
	}
	n.Values = map[string][]string{}
	inForm, inOther := c.addValues(doc, from, n.Values), c.addValues(doc, other, n.Values)
	if from > 1 { // it is like one of these
		c.addValues(doc, otherOf(other), n.Values)
	}
	switch {
	case from != to && inForm:
		n.Recognised, n.plan = Translated, c.plans[from][to]
	case from != to && inOther:
		n.Recognised, n.plan = InForm, c.plans[to][to]
	case inForm:
		n.Recognised = InForm
	case from == to && c.hasOwnField(doc, other) && !c.hasOwnField(doc, from):
		n.Recognised, n.plan = Translated, c.otherForm[from]
	}
}

// otherOf returns the other one of the first two forms.
func otherOf(form int) int {
	if form == 0 {
		return 1
	}
	return 0
}

// addValues adds copies of the values that say in a form what doc is about, and reports whether it has any. A value is
// non-empty text or a number.
func (c *Callback) addValues(doc gjson.Result, form int, values map[string][]string) (found bool) {
	for _, r := range c.operation.rows[callbackMessage] {
		if r.always.kind == absent || r.Path[form] == "" {
			continue
		}
		if v := lookup(doc, r.Path[form]); v.kind != absent && !v.is(r.always) {
			return false // a message of another kind
		}
	}
	for _, r := range c.identified {
		v, role := lookup(doc, r.Path[form]), r.Role.name
		if v.countsAsAbsent() || v.kind != text && v.kind != number {
			continue
		}
		if found = true; !slices.Contains(values[role], v.text()) {
			values[role] = append(values[role], strings.Clone(v.text()))
		}
	}
	return found
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
	if v := doc.Get(path); v.Exists() {
		found = valueOf(v)
	}
	return found
}

// FromReply appends the callback that reports what the last reply of a call, a success, has shown, in the upstream's
// form: the fields that the two have in common. Each has the bytes of the reply, and one that the reply lacks is
// absent.
func (c *Callback) FromReply(dst []byte, reply *Call) []byte {
	read := reply.translation.reply
	p := c.plans[read.from][read.from]
	call := startCallback(p)
	for i, shown := range read.fields {
		path, v := joinPath(c.under[read.from], shown.source), reply.reply[i]
		slot := slices.IndexFunc(p.fields, func(f *mapping) bool { return f.source == path })
		if slot >= 0 && v.kind != absent {
			call.reply[slot] = value{raw: v.raw, kind: asIs}
		}
	}
	dst, _ = call.emitAll(p, dst, call.reply)
	return dst
}

// IdentifiedBy returns the roles of the fields that say what a callback is about.
func (c *Callback) IdentifiedBy() (roles []string) {
	for _, r := range c.identified {
		roles = append(roles, r.Role.name)
	}
	return roles
}

// Answer returns the body with which a receiver acknowledges a callback, with HTTP 200.
func (c *Callback) Answer(f Form) []byte {
	return []byte(ofForm(c.operation.table, f, c.answers))
}

// Answered returns the code of a receiver's answer, or its flag if the form has one, or "" if it has none that can be
// read. With the one of [Callback.Answer] and HTTP 2xx the receiver has acknowledged a callback: the document says 200,
// some frameworks answer 201, and the rest of the body does not matter.
func (c *Callback) Answered(f Form, body []byte) (code string, acknowledged bool) {
	t := c.operation.table
	form := ofForm(t, f, t.forms)
	v, acknowledged := form.acknowledged(body, t.depth)
	if v.kind == text || v.kind == number || v.kind == boolean {
		code = v.text()
	}
	return code, acknowledged
}

// acknowledged returns the value of an answer that has the code or the flag, and whether it is that of a success.
func (f *form) acknowledged(body []byte, depth int) (v value, is bool) {
	if checkJSON(body, depth) == nil {
		v = lookup(gjson.ParseBytes(body), f.shows())
	}
	return v, v.kind != absent && v.is(f.success)
}
