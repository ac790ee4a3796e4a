package translate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// own is the name of an upstream's own form in its overlay.
const own = "own"

// A Dialect is how one upstream writes its form, where that differs from the table. Its overlay is a table between two
// forms: that of the interface, and the upstream's own. What the overlay does not name passes byte for byte. A nil
// Dialect changes nothing. It is immutable and safe for concurrent use.
type Dialect struct {
	form     Form
	messages map[string]*dialectOf // by operation, and by callback
}

// A dialectOf has the plans of an operation. One is nil if the overlay does not change the message.
type dialectOf struct {
	path, version  string
	request, reply *plan
}

// The keys that the overlay of an upstream and its operations can have, and those that its rows cannot have: they are
// about what a message says, and not about how it is written.
var (
	dialectKeys          = []string{"operations", "callbacks", "codes"}
	dialectOperationKeys = []string{own, "request", "reply"}
	notInDialect         = slices.Concat(boundKeys, []string{
		"role", "means", "no_value_while", "otherwise", "empty", "echo", "must_equal_request", "repeats_request",
		"exact", "refuse", "malformed", "loss_code", "when", "unless",
	})
)

// Dialect reads the overlay of an upstream of a form. The error is of type [Problems] if the table has the form.
func (t *Table) Dialect(f Form, overlay File) (*Dialect, error) {
	if err := t.checkForm(f); err != nil {
		return nil, err
	}
	if t.formIndex(own) >= 0 {
		return nil, Problems{{overlay.Name, 1, 1, "a table with a form named own has no overlays of upstreams"}}
	}
	form := t.formIndex(f)
	between := &Table{depth: t.depth, files: []File{t.withoutRows(form), overlay}, dialect: true}
	s, problems := load(between)
	if len(problems) > 0 {
		return nil, problems
	}
	s.checkDialect(t, form)
	if len(s.problems) > 0 {
		return nil, s.problems.Sorted()
	}
	d := &Dialect{form: f, messages: map[string]*dialectOf{}}
	result, code := t.forms[form].Result, t.forms[form].Code
	codes := &row{Path: [2]string{code, code}, Values: between.codes, Role: noRole}
	for _, o := range between.operations {
		of := &dialectOf{path: o.paths[1]}
		if o.paths[0] != o.paths[1] || len(o.rows[Request])+len(o.rows[Reply])+len(between.codes.list) > 0 {
			of.version = o.Version()
		}
		received := o.rows[Reply]
		if t.callback != nil && t.callback.Name() == o.Name {
			received = o.rows[Request]
		} else {
			of.request = between.dialectPlan(Request, o.rows[Request], 0)
			for _, r := range received {
				for i, path := range r.Path {
					if path != "" {
						r.Path[i] = joinPath(result, path)
					}
				}
			}
			if len(between.codes.list) > 0 {
				received = append(received, codes)
			}
		}
		of.reply = between.dialectPlan(callbackMessage, received, 1)
		d.messages[o.Name] = of
	}
	return d, nil
}

// withoutRows returns the table that the overlay of an upstream changes: the paths of a form for both of its forms, and
// no rows.
func (t *Table) withoutRows(form int) File {
	f, b := &t.forms[form], &strings.Builder{}
	names := append(f.names(), "text") // an error around code and text is one name
	slices.Sort(names)
	names = slices.Compact(names)
	digits := "string"
	if f.digits == number {
		digits = "number"
	}
	shape := fmt.Sprintf("{code: %q, text: %q, digits: %s}", names[0], names[1], digits)
	if f.Result != "" {
		shape = fmt.Sprintf("%s, result: %q}", strings.TrimSuffix(shape, "}"), f.Result)
	}
	fmt.Fprintf(b, "forms: {%q: %s, own: %s}\n", f.name, shape, shape)
	fmt.Fprintf(b, "success: {code: %q}\ninvalid: %q\n", t.success.code[form], t.invalid)
	fmt.Fprintf(b, "unknown: {request: pass, reply: pass}\ncodes: []\noperations:\n")
	line := func(name, path string) {
		fmt.Fprintf(b, "  %q: {%q: %q, own: %q, effect: read, request: [], reply: []}\n", name, f.name, path, path)
	}
	for _, o := range t.operations {
		if o.paths[form] != "" {
			line(o.Name, o.paths[form])
		}
	}
	if t.callback != nil {
		line(t.callback.Name(), "/")
	}
	return File{Name: "the table", Data: []byte(b.String())}
}

// checkDialect checks that the overlay of an upstream says only how messages of the table are written.
func (s *source) checkDialect(t *Table, form int) {
	for _, o := range s.table.operations {
		known := t.Operation(o.Name)
		if known == nil {
			s.checkDialectRows(o.Name, o.rows[Request], t.callback.operation.rows[callbackMessage], form)
			continue
		}
		s.checkDialectRows(o.Name+" request", o.rows[Request], known.rows[Request], form)
		s.checkDialectRows(o.Name+" reply", o.rows[Reply], known.rows[Reply], form)
	}
}

func (s *source) checkDialectRows(message string, rows, known []*row, form int) {
	var paths []string
	for _, k := range known {
		paths = append(paths, k.Path[form])
	}
	for _, r := range rows {
		for _, key := range notInDialect {
			if n := child(r.node, key); n != nil {
				s.errorf(n, "the overlay of an upstream cannot have %s: write it into table.overlay", key)
			}
		}
		i := slices.Index(paths, r.Path[0])
		switch {
		case r.Path[0] == "":
		case i < 0:
			hint := DidYouMean(r.Path[0], paths)
			s.errorf(r.node, "%s has no path %s in %s%s", message, r.Path[0], s.forms[0], hint)
		case r.items != nil && known[i].items != nil:
			s.checkDialectRows(message, r.items, known[i].items, form)
		}
	}
}

// checkDialectKeys checks the keys of the overlay of an upstream.
func (s *source) checkDialectKeys(overlay *yaml.Node) {
	check := func(n *yaml.Node, allowed []string) {
		for key := range members(n) {
			if !slices.Contains(allowed, key.Value) {
				s.errorf(key, "the overlay of an upstream cannot have %s here, only %s",
					key.Value, strings.Join(allowed, ", "))
			}
		}
	}
	check(overlay, dialectKeys)
	for _, section := range dialectKeys[:2] {
		for _, o := range members(child(overlay, section)) {
			check(o, dialectOperationKeys)
		}
	}
}

// dialectPlan returns the plan for rows from one form to the other, or nil if there are no rows.
func (t *Table) dialectPlan(m Message, rows []*row, from int) *plan {
	if len(rows) == 0 {
		return nil
	}
	p, root := t.newPlan(m, rows, from, 1-from)
	p.root = root
	p.placeObjects(root)
	root.connect(p.out)
	return p
}

// keepObjects gives input and output the same objects, so that fields without a row pass.
func (p *plan) keepObjects(root *node) {
	root.addObjectsOf(p.out)
	p.out.addObjectsOf(root)
	for _, f := range p.fields {
		f.Optional = true
	}
}

func (n *node) addObjectsOf(other *node) {
	for _, e := range other.names {
		if e.node == nil || n.plain {
			continue
		}
		if _, ok := n.index[e.name()]; !ok {
			n.add(entry{key: e.key, node: newNode(joinPath(n.path, e.name()), Reply)})
		}
		if same := n.names[n.index[e.name()]].node; same != nil {
			same.addObjectsOf(e.node)
		}
	}
}

// Path returns the path of an operation at the upstream, or "" if the form of the table lacks the operation.
func (d *Dialect) Path(operation string) string {
	if of := d.of(operation); of != nil {
		return of.path
	}
	return ""
}

// Version returns a hash of what the overlay changes of an operation, or "" if it changes nothing.
func (d *Dialect) Version(operation string) string {
	if of := d.of(operation); of != nil {
		return of.version
	}
	return ""
}

func (d *Dialect) of(name string) *dialectOf {
	if d == nil {
		return nil
	}
	return d.messages[name]
}

// Request returns a request of an operation as the upstream writes it, and what was changed. The error is a [*Refusal].
func (d *Dialect) Request(operation string, src []byte) ([]byte, Report, error) {
	of := d.of(operation)
	if of == nil {
		return src, Report{}, nil
	}
	out, report, refusal := of.request.rewrite(src)
	if refusal != nil {
		return nil, report, refusal
	}
	return out, report, nil
}

// Reply returns a reply of the upstream as the table describes it, and what was changed. The error is an
// [*UnusableReply] if the reply has a value or a code of the table for which this upstream writes another one: nobody
// knows what it says.
func (d *Dialect) Reply(operation string, src []byte) ([]byte, Report, error) {
	of := d.of(operation)
	if of == nil {
		return src, Report{}, nil
	}
	out, report, refusal := of.reply.rewrite(src)
	if refusal != nil {
		return nil, report, &UnusableReply{Reason: refusal.Field + " " + refusal.Reason.String()}
	}
	return out, report, nil
}

// Callback returns a callback of the upstream as the table describes it, and what was changed. The error is a
// [*Refusal], for the same reason as that of Reply.
func (d *Dialect) Callback(name string, src []byte) ([]byte, Report, error) {
	of := d.of(name)
	if of == nil {
		return src, Report{}, nil
	}
	out, report, refusal := of.reply.rewrite(src)
	if refusal != nil {
		return nil, report, refusal
	}
	return out, report, nil
}

// rewrite translates a message by the plan of a dialect. A reply or a callback that cannot be read is returned as it
// is, and so is what is no object: whoever reads it refuses it.
func (p *plan) rewrite(src []byte) ([]byte, Report, *Refusal) {
	if p == nil {
		return src, Report{}, nil
	}
	c := startCallback(p)
	isObject, fault := c.scan(p, src, c.reply)
	refusal := cmp.Or(c.rejected, c.refusal)
	switch {
	case p.message == Request && fault != nil:
		refusal = &Refusal{p.table.invalid, fault.field, fault.reason, false}
	case fault != nil || !isObject:
		return src, Report{}, nil
	case c.overflow:
		refusal = cmp.Or(refusal, &Refusal{p.table.invalid, "", why(tooManyItems, maxItems), false})
	case refusal == nil:
		refusal = c.checkFields(p, c.reply, false)
	}
	if refusal == nil {
		refusal = c.keepValues(p, c.reply)
	}
	if refusal != nil {
		return nil, Report{}, refusal
	}
	out, refusal := c.emit(p, p.out, []byte{'{'}, c.reply)
	return append(out, '}'), c.Report, refusal
}

// keepValues makes the values without a conversion pass as they are, and those without a pair. It refuses a value for
// which the form that it comes from has another one.
func (c *Call) keepValues(p *plan, slots []value) *Refusal {
	for slot, f := range p.fields {
		v := &slots[slot]
		_, paired := f.Values.find(p.from, v.text())
		_, taken := f.Values.find(1-p.from, v.text())
		switch {
		case v.kind == absent, paired, f.special && v.ref == 0, f.digits && len(f.Values.list) == 0:
		case v.ref != 0:
			c.within = append(c.within, step{list: f})
			for list, size := c.lists[v.ref-1], f.each.slots(); len(list) > 0; list = list[size:] {
				if refusal := c.keepValues(f.each, list[:size]); refusal != nil {
					return refusal
				}
				c.within[len(c.within)-1].index++
			}
			c.within = c.within[:len(c.within)-1]
		case taken && v.kind != composite && v.kind != null:
			reason := why("has a value without a counterpart in %v", p.table.forms[p.to].name)
			return &Refusal{f.Malformed, c.at(f.source), reason, false}
		default:
			v.kind = asIs
		}
	}
	return nil
}

// appendEmpty appends what the input has in the place of an object of the output that has got no field: an object
// without a field, or another value, such as null.
func (e *entry) appendEmpty(dst []byte, slots []value) []byte {
	in := e.node.in
	if in == nil || slots[e.slot].kind == absent {
		return dst
	}
	raw := slots[e.slot].raw
	if raw == "" {
		if slices.ContainsFunc(in.names, func(below entry) bool { return slots[below.slot].kind != absent }) {
			return dst
		}
		raw = "{}"
	}
	return append(append(comma(dst), e.key...), raw...)
}
