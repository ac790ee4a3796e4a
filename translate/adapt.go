package translate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// An Adapter translates messages between a form as the table describes it, and the same form as one upstream writes
// it, by an overlay for this upstream alone. It is immutable and safe for concurrent use.
//
// Fields that the overlay does not change, and fields without a row, pass byte for byte.
type Adapter struct {
	base, changed *Table
	cross         *Table // its two forms are the form of the table and that of the upstream
	form          int
	operations    map[string]*adapted
	callback      *plan // nil if the upstream writes it as the table says
	problems      Problems
}

// adapted has the plans of an operation. One is nil if the upstream writes the message as the table says.
type adapted struct {
	path, version  string
	request, reply *plan
}

// adaptable are the keys that an overlay for one upstream can have.
var adaptable = []string{"operations", "callbacks", "common", "catalogue", "codes", "options"}

// Adapt returns the adapter of an upstream of the form. The error is of type [Problems] if the table has the form.
func (t *Table) Adapt(f Form, overlay File) (*Adapter, error) {
	if err := t.checkForm(f); err != nil {
		return nil, err
	}
	// Without hashes: they are those of the table, whatever the upstream names their parts.
	changed, err := compile(&Table{depth: t.depth, files: append(slices.Clip(t.files), overlay), unhashed: true})
	if err != nil {
		return nil, err
	}
	a := &Adapter{base: t, changed: changed, form: t.formIndex(f), operations: map[string]*adapted{}}
	a.cross = &Table{
		forms: [2]form{t.forms[a.form], t.forms[a.form]}, depth: t.depth, invalid: t.invalid,
		unknown: map[Message][2]string{callbackMessage: {"pass", "pass"}},
	}
	a.checkKeys(overlay)
	result, codes := t.forms[a.form].Result, a.codes()
	for _, o := range changed.operations {
		was := t.Operation(o.Name)
		if was == nil || was.paths[a.form] == "" || o.paths[a.form] == "" {
			continue // checkKeys has reported a new one
		}
		to := &adapted{path: o.paths[a.form]}
		if version := o.Version(); version != was.Version() {
			to.version = version
		}
		to.request = a.plan(a.join(was.rows[Request], o.rows[Request], ""), 0)
		reply := a.join(was.rows[Reply], o.rows[Reply], result)
		if len(codes.list) > 0 {
			path := t.forms[a.form].Code
			reply = append(reply, &row{Path: [2]string{path, path}, Values: codes, Role: noRole, Optional: true})
		}
		to.reply = a.plan(reply, 1)
		a.operations[o.Name] = to
	}
	if t.callback != nil {
		rows := changed.callback.operation.rows[callbackMessage]
		a.callback = a.plan(a.join(t.callback.operation.rows[callbackMessage], rows, ""), 1)
	}
	if len(a.problems) > 0 {
		return nil, a.problems
	}
	return a, nil
}

// checkKeys checks that the overlay changes only how the upstream writes the messages that the table has.
func (a *Adapter) checkKeys(overlay File) {
	root, _ := ParseYAML(overlay) // it has been parsed before
	for key, value := range members(root) {
		problem := func(line, column int, text string, args ...any) {
			a.problems = append(a.problems, Problem{overlay.Name, line, column, fmt.Sprintf(text, args...)})
		}
		if !slices.Contains(adaptable, key.Value) {
			const text = "the overlay of an upstream cannot have %s, only %s: write it into table.overlay"
			problem(key.Line, key.Column, text, key.Value, strings.Join(adaptable, ", "))
		}
		for name := range members(value) {
			if key.Value == "operations" && a.base.Operation(name.Value) == nil ||
				key.Value == "callbacks" && (a.base.callback == nil || a.base.callback.Name() != name.Value) {
				problem(name.Line, name.Column, "the overlay of an upstream cannot add %s: write it into table.overlay",
					name.Value)
			}
		}
	}
}

// plan returns the plan for rows from one of the cross table's forms to the other, or nil if nothing changes.
func (a *Adapter) plan(rows []*row, from int) *plan {
	if !changes(rows) {
		return nil
	}
	p, root := a.cross.newPlan(callbackMessage, rows, from, 1-from)
	p.root = root
	p.placeObjects(root)
	root.connect(p.out)
	return p
}

// changes reports whether any row has another path or other values at the upstream.
func changes(rows []*row) bool {
	return slices.ContainsFunc(rows, func(r *row) bool {
		return r.Path[0] != r.Path[1] || len(r.Values.list) > 0 || r.items != nil
	})
}

// join returns rows from the paths of the form in the base rows to those in the changed ones. A row and its change
// have the same path in the other form, or else in this one.
func (a *Adapter) join(base, changed []*row, result string) (rows []*row) {
	f := a.form
	base = slices.DeleteFunc(slices.Clone(base), func(r *row) bool { return r.Path[f] == "" })
	was := map[*row]*row{}
	for _, form := range []int{1 - f, f} {
		for _, c := range changed {
			same := func(b *row) bool { return c.Path[form] != "" && b.Path[form] == c.Path[form] }
			if i := slices.IndexFunc(base, same); i >= 0 && was[c] == nil && c.Path[f] != "" {
				was[c] = base[i]
				base = slices.Delete(base, i, i+1)
			}
		}
	}
	at := func(path string) string {
		if path == "" || path == itself {
			return path
		}
		return joinPath(result, path)
	}
	for _, c := range changed {
		if c.Path[f] == "" {
			continue
		}
		r := &row{
			Path: [2]string{at(c.Path[f]), at(c.Path[f])}, Role: c.Role, Malformed: c.Malformed, Optional: true,
			source: c.source,
		}
		if b := was[c]; b != nil {
			r.Path[0] = at(b.Path[f])
			a.joinValues(r, b, c)
		}
		rows = append(rows, r)
	}
	for _, b := range base { // the upstream has no such field
		rows = append(rows, &row{Path: [2]string{at(b.Path[f]), ""}, Role: b.Role, Optional: true, Loss: "drop"})
	}
	return rows
}

// joinValues sets what becomes of the values of a row.
func (a *Adapter) joinValues(r, b, c *row) {
	f, special := a.form, b.special || c.special
	switch {
	case b.items != nil && c.items != nil:
		if items := a.join(b.items, c.items, ""); changes(items) {
			r.items, r.special = items, true
		}
		return
	case (b.items == nil) != (c.items == nil), b.Pattern[f] != c.Pattern[f], b.places != c.places,
		b.Absent != c.Absent, special && !slices.Equal(b.Values.list, c.Values.list):
		line := 1
		if a.changed.files[len(a.changed.files)-1].Name == c.source.File {
			line = c.source.Line
		}
		text := c.Path[f] + ": the overlay of an upstream cannot change each, list, pattern, shift, absent and null in values"
		a.problems = append(a.problems, Problem{c.source.File, line, 1, text})
	case !slices.Equal(b.Values.list, c.Values.list):
		write := func(v constant) constant { // a value of the other form that has no pair
			if to := a.base.forms[f].digits; c.digits && v.kind != to && isDigits(v.text) && to == text {
				return constant{text, v.text, string(appendQuoted(nil, v.text))}
			}
			return v
		}
		r.Values = a.compose(b.Values, c.Values, func(other constant) constant {
			if own, ok := b.Values.find(1-f, other.text); ok {
				return own
			}
			return write(other)
		}, write)
	}
}

// compose returns the pairs from what the table writes for a value of the other form to what the upstream writes.
func (a *Adapter) compose(base, changed pairs, was, is func(other constant) constant) pairs {
	f, p := a.form, pairs{at: [2]map[string]int{{}, {}}}
	add := func(values ...constant) {
		for i, v := range values {
			if _, known := p.at[i][v.text]; !known {
				p.at[i][v.text] = len(p.list)
			}
		}
		p.list = append(p.list, pair{Values: [2]constant(values)})
	}
	for _, preferred := range []bool{true, false} {
		for _, one := range changed.list {
			if one.Prefer == preferred {
				add(was(one.Values[1-f]), one.Values[f])
			}
		}
	}
	for _, one := range base.list {
		if _, known := p.at[0][one.Values[f].text]; !known {
			add(one.Values[f], is(one.Values[1-f]))
		}
	}
	return p
}

// codes returns the pairs of codes that the upstream writes in another way. Clients do not know a code that only the
// upstream has: if it has a meaning, they get the first code of the catalogue with this meaning.
func (a *Adapter) codes() pairs {
	f, t := a.form, a.base
	codeOf := func(code string) constant { return constant{text, code, t.forms[f].codeJSON(code)} }
	changed := pairs{list: slices.Clone(a.changed.codes.list)}
	for _, m := range a.changed.meanings {
		_, paired := a.changed.codes.find(f, m.Code)
		known := t.CodeThatMeans(m.Means)
		if ofForm := m.Form == t.forms[f].name || m.Form == "" && f == 0; !ofForm || paired || t.hasCode(f, m.Code) ||
			m.Means == "" || known == "" {
			continue
		}
		other := known
		if f == 0 {
			other = t.Code(known, t.forms[0].name, t.forms[1].name)
		}
		one := pair{}
		one.Values[f], one.Values[1-f] = codeOf(m.Code), constant{kind: text, text: other}
		changed.list = append(changed.list, one)
	}
	p := a.compose(pairs{}, changed, func(other constant) constant { return codeOf(t.codeIn(f, other.text)) }, nil)
	same := func(one pair) bool { return one.Values[0].text == one.Values[1].text }
	if !slices.ContainsFunc(p.list, func(one pair) bool { return !same(one) }) {
		return pairs{}
	}
	return p
}

// of returns the plans of an operation; none if the upstream does not have it.
func (a *Adapter) of(operation string) *adapted {
	if o := a.operations[operation]; o != nil {
		return o
	}
	return &adapted{}
}

// Path returns the path of an operation at the upstream.
func (a *Adapter) Path(operation string) string { return a.of(operation).path }

// Version returns a hash of what the upstream's overlay makes of an operation, or "" if it does not change its rows.
func (a *Adapter) Version(operation string) string { return a.of(operation).version }

// Request returns a request of an operation as the upstream writes it. The error is a [*Refusal].
func (a *Adapter) Request(operation string, src []byte) ([]byte, error) {
	out, refusal := a.of(operation).request.rewrite(src)
	if refusal != nil {
		return nil, refusal
	}
	return out, nil
}

// Reply returns a reply of the upstream as the table describes it.
func (a *Adapter) Reply(operation string, src []byte) []byte {
	out, _ := a.of(operation).reply.rewrite(src)
	return out
}

// Callback returns a callback of the upstream as the table describes it.
func (a *Adapter) Callback(src []byte) []byte {
	out, _ := a.callback.rewrite(src)
	return out
}

// rewrite translates a message by the plan of an adapter. What cannot be read is returned as it is: it is found again
// when the message is read.
func (p *plan) rewrite(src []byte) ([]byte, *Refusal) {
	if p == nil {
		return src, nil
	}
	call := startCallback(p)
	if isObject, fault := call.scan(p, src, call.reply); fault != nil || !isObject || call.overflow {
		return src, nil
	}
	if refusal := call.keepRaw(p, call.reply); refusal != nil {
		return src, refusal
	}
	out, _ := call.emit(p, p.out, []byte{'{'}, call.reply)
	out = append(out, '}')
	for i := range p.root.names { // another value in the place of an object, such as null for the result of a failure
		e := &p.root.names[i]
		v := call.reply[e.slot]
		_, known := p.out.index[e.name()]
		if e.node == nil || v.kind == absent || lookup(gjson.ParseBytes(out), e.name()).kind != absent ||
			v.raw == "" && !known {
			continue
		}
		v.raw = cmp.Or(v.raw, "{}")
		out = append(append(append(comma(out[:len(out)-1]), e.key...), v.raw...), '}')
	}
	return out, nil
}

// keepRaw makes values without pairs pass as they are. A value of the table that the upstream writes for another one
// is refused.
func (c *Call) keepRaw(p *plan, slots []value) *Refusal {
	for slot, f := range p.fields {
		v := &slots[slot]
		if v.ref != 0 {
			for list, size := c.lists[v.ref-1], f.each.slots(); len(list) > 0; list = list[size:] {
				if refusal := c.keepRaw(f.each, list[:size]); refusal != nil {
					return refusal
				}
			}
			continue
		}
		_, paired := f.Values.find(p.from, v.text())
		_, taken := f.Values.find(1-p.from, v.text())
		switch {
		case v.kind == absent || paired && v.kind != composite && v.kind != null:
		case taken && p.from == 0 && v.kind != composite:
			reason := why("has a value without a counterpart in %v", p.table.forms[p.to].name)
			return &Refusal{f.Malformed, f.source, reason, false}
		default:
			v.kind = asIs
		}
	}
	return nil
}
