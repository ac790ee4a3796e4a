package translate

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// own is the name of an upstream's own form in its overlay.
const own = "own"

// A Dialect is how one upstream writes its form, where that differs from the table. Its overlay is a table between two
// forms: that of the interface, and the upstream's own. It says how messages are written, and not what they mean: each
// value and each code has one counterpart. What the overlay does not name passes byte for byte. A nil Dialect changes
// nothing. It is immutable and safe for concurrent use.
type Dialect struct {
	version  string
	table    *Table
	messages map[string]*dialectOf // by operation, and by callback
}

// A dialectOf has the plans of an operation. One is nil if the overlay does not change the message.
type dialectOf struct {
	path           string
	request, reply *plan
}

// A Rewritten is a message that a dialect has translated.
type Rewritten struct {
	Body   []byte
	Report Report
	Memory int64 // of the items of lists, while it was translated
}

// dialectRowKeys are the keys that a row can have in the overlay of an upstream, beside those of the forms.
var dialectRowKeys = strings.Fields("values pattern each list about")

// Dialect reads the overlay of an upstream of a form. The error is of type [Problems] if the table has the form.
func (t *Table) Dialect(f Form, overlay File) (*Dialect, error) {
	if err := t.checkForm(f); err != nil {
		return nil, err
	}
	form := t.formIndex(f)
	root, err := ParseYAML(overlay)
	if err != nil {
		return nil, err
	}
	if problems := t.checkDialectKeys(form, overlay.Name, root); len(problems) > 0 {
		return nil, problems
	}
	between := &Table{depth: t.depth, files: []File{t.withoutRows(form), overlay}, dialect: true}
	s, problems := load(between)
	if len(problems) > 0 {
		return nil, problems
	}
	if s.checkDialect(t, form); len(s.problems) > 0 {
		return nil, s.problems.Sorted()
	}
	v := version{sha256.New()}
	v.mapping(root)
	d := &Dialect{v.String(), between, map[string]*dialectOf{}}
	result, code := t.forms[form].Result, t.forms[form].Code
	codes := &row{Path: [2]string{code, code}, Values: between.codes, Role: noRole, Malformed: t.invalid}
	for _, o := range between.operations {
		of := &dialectOf{path: o.paths[1]}
		received := o.rows[Reply]
		if t.callback != nil && t.callback.Name() == o.Name {
			received = o.rows[Request]
		} else {
			of.request = between.dialectPlan(Request, o.rows[Request], 0)
			for _, r := range received {
				for i, path := range r.Path {
					r.Path[i] = joinPath(result, path)
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
	shape := fmt.Sprintf("code: %q, text: %q, digits: string", names[0], names[1])
	if f.Codes == "number" {
		shape += fmt.Sprintf(", codes: number, other_code: %q", f.OtherCode)
	}
	if f.Result != "" {
		shape += fmt.Sprintf(", result: %q", f.Result)
	}
	fmt.Fprintf(b, "forms: {%q: {%s}, own: {%[2]s}}\n", f.name, shape)
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

// checkDialectKeys checks the keys of the overlay of an upstream, except those of rows.
func (t *Table) checkDialectKeys(form int, file string, root *yaml.Node) (problems Problems) {
	check := func(n *yaml.Node, what string, allowed []string) {
		for key := range Members(n) {
			if !slices.Contains(allowed, key.Value) {
				text := fmt.Sprintf("the overlay of an upstream has no %s %s%s: it can have %s",
					what, key.Value, DidYouMean(key.Value, allowed), strings.Join(allowed, ", "))
				problems = append(problems, Problem{file, key.Line, key.Column, text})
			}
		}
	}
	if t.formIndex(own) >= 0 {
		return Problems{{file, 1, 1, "a table with a form named own has no overlays of upstreams"}}
	}
	check(root, "key", []string{"operations", "callbacks", "codes"})
	var operations, callbacks []string
	for _, o := range t.operations {
		if o.paths[form] != "" {
			operations = append(operations, o.Name)
		}
	}
	if t.callback != nil {
		callbacks = []string{t.callback.Name()}
	}
	check(child(root, "operations"), "operation", operations)
	check(child(root, "callbacks"), "callback", callbacks)
	for name, o := range Members(child(root, "operations")) {
		keys := []string{own, "request", "reply"}
		if known := t.Operation(name.Value); known != nil && known.list {
			keys = keys[:2] // its result is never translated
		}
		check(o, "key", keys)
	}
	for _, o := range Members(child(root, "callbacks")) {
		check(o, "key", []string{"request"})
	}
	return problems
}

// checkDialect checks that the overlay of an upstream says only how messages of the table are written.
func (s *source) checkDialect(t *Table, form int) {
	for _, o := range s.table.operations {
		known := t.Operation(o.Name)
		if known == nil {
			s.checkDialectRows(t, form, o.Name, o.rows[Request], t.callback.operation.rows[callbackMessage])
			continue
		}
		s.checkDialectRows(t, form, o.Name+" request", o.rows[Request], known.rows[Request])
		s.checkDialectRows(t, form, o.Name+" reply", o.rows[Reply], known.rows[Reply])
	}
	for i, p := range s.table.codes.list {
		if code := p.Values[0].text; !t.knowsCode(form, code) {
			s.errorf(child(s.root, "codes").Content[i], "codes: the table has no code %q", code)
		}
	}
}

func (s *source) checkDialectRows(t *Table, form int, message string, rows, known []*row) {
	var paths []string
	for _, k := range known {
		paths = append(paths, k.Path[form])
	}
	for _, r := range rows {
		for key := range Members(r.node) {
			if !slices.Contains(append(dialectRowKeys, s.forms...), key.Value) {
				s.errorf(key, "a row in the overlay of an upstream cannot have %s, only %s", key.Value,
					strings.Join(dialectRowKeys, ", "))
			}
		}
		i := slices.Index(paths, r.Path[0])
		switch {
		case r.onlyForm() >= 0:
			s.errorf(r.node, "a row in the overlay of an upstream needs a path in %s and in own", s.forms[0])
		case i < 0:
			s.errorf(r.node, "%s has no path %s in %s%s", message, r.Path[0], s.forms[0], DidYouMean(r.Path[0], paths))
		case (r.items != nil) != (known[i].items != nil):
			s.errorf(r.node, "%s: write each or list as in the table", r.Path[0])
		case r.items != nil:
			s.checkDialectRows(t, form, message, r.items, known[i].items)
		default:
			r.relied = known[i].MustEqualRequest != "" || known[i].Role != noRole && !known[i].Role.Many
			s.checkDialectValues(r, known[i], form)
			if r.Pattern[0] != "" { // see move and keepValues
				r.digits, r.Empty = known[i].digits && t.forms[form].digits == number, known[i].Empty
				if r.digits { // a number fits, too
					s.checkPairs(r)
				}
			}
		}
	}
}

// checkDialectValues checks that the values of a row are those of the table's row.
func (s *source) checkDialectValues(r, known *row, form int) {
	converts := r.Pattern[0] != "" || r.hasPairs()
	if converts && (known.Role.Secret || known.Role.Unconverted) {
		s.errorf(r.node, "%s: values and pattern are not allowed with role: %s", r.Path[0], known.Role.name)
	}
	words := known.Means != nil || known.OneOf != nil || known.hasPairs()
	for _, p := range r.Values.list {
		v := value{raw: p.Values[0].json, kind: p.Values[0].kind}
		_, paired := known.Values.find(form, p.Values[0].text)
		switch {
		case p.hasNull():
			s.errorf(r.node, "%s: values in the overlay of an upstream cannot have null", r.Path[0])
		case words && !paired && known.meaning(v, form) == "" && !slices.Contains(known.OneOf, p.Values[0].text):
			s.errorf(r.node, "%s: the table has no value %s", r.Path[0], p.Values[0].json)
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

// addObjectsOf adds the objects of another node that n does not have.
func (n *node) addObjectsOf(other *node, m Message) {
	for _, e := range other.names {
		if e.node == nil || n.plain {
			continue
		}
		if _, ok := n.index[e.name()]; !ok {
			n.add(entry{key: e.key, node: newNode(joinPath(n.path, e.name()), m)})
		}
		if same := n.names[n.index[e.name()]].node; same != nil {
			same.addObjectsOf(e.node, m)
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

// Version returns a hash of what the overlay says, as [Operation.Version], or "" if there is none.
func (d *Dialect) Version() string {
	if d == nil {
		return ""
	}
	return d.version
}

// HasCode reports whether the overlay has a code, of the form or of the upstream.
func (d *Dialect) HasCode(code string) bool {
	_, of := d.table.codes.find(0, code)
	_, its := d.table.codes.find(1, code)
	return of || its
}

func (d *Dialect) of(name string) *dialectOf {
	if d == nil {
		return nil
	}
	return d.messages[name]
}

// Request returns a request of an operation as the upstream writes it.
func (d *Dialect) Request(operation string, src []byte) (Rewritten, *Refusal) {
	if of := d.of(operation); of != nil && of.request != nil {
		return of.request.rewrite(src)
	}
	return Rewritten{Body: src}, nil
}

// Received returns a reply to an operation, or a callback by its name, as the table describes it. It is refused if it
// has a value or a code of the table for which this upstream writes another one, or the table's name of a field that
// says which bill this is, or has a role, without this upstream's name: nobody knows what it says.
func (d *Dialect) Received(name string, src []byte) (Rewritten, *Refusal) {
	if of := d.of(name); of != nil && of.reply != nil {
		return of.reply.rewrite(src)
	}
	return Rewritten{Body: src}, nil
}

// rewrite translates a message by the plan of a dialect. What cannot be read is returned as it is: whoever reads a
// reply or a callback finds the fault, and a request has been read before.
func (p *plan) rewrite(src []byte) (Rewritten, *Refusal) {
	c := startCallback(p)
	isObject, fault := c.scan(p, src, c.reply)
	refusal := cmp.Or(c.rejected, c.refusal)
	switch {
	case fault != nil || !isObject:
		return Rewritten{Body: src}, nil
	case c.overflow:
		refusal = cmp.Or(refusal, p.table.refusal("", why(tooManyItems, maxItems)))
	case refusal == nil:
		refusal = c.keepValues(p, c.reply)
	}
	for _, f := range c.hidden {
		if v := c.reply[slices.Index(p.fields, f)]; v.kind == absent {
			reason := why("is missing, and the reply has a field with its name in %v", p.toForm.name)
			refusal = cmp.Or(refusal, &Refusal{f.Malformed, f.source, reason})
		}
	}
	if refusal != nil {
		return Rewritten{}, refusal
	}
	out, refusal := c.emitAll(p, nil, c.reply)
	return Rewritten{out, c.Report, c.ListMemory()}, refusal
}

// keepValues makes the values without a pair pass as they are. It refuses one that the other form uses for another
// value, and one that does not have the row's pattern.
func (c *Call) keepValues(p *plan, slots []value) *Refusal {
	for slot, f := range p.fields {
		v := &slots[slot]
		reason := why("has a value without a counterpart in %v", p.toForm.name)
		switch paired, taken := f.Values.of(p.from, *v); {
		case v.kind == absent, paired:
			continue
		case v.ref != 0:
			refusal := c.eachItem(f, f.each, *v, func(item []value) *Refusal { return c.keepValues(f.each, item) })
			if refusal != nil {
				return refusal
			}
			continue
		case taken:
		case f.Pattern[0] != "" && !v.countsAsAbsent() && v.kind != composite && !f.isEmpty(*v):
			if _, fits := f.move(nil, *v, p.from); fits {
				continue
			}
			reason = why(wantText, f.Pattern[p.from], f.got(*v))
		default:
			v.kind = asIs
			continue
		}
		return &Refusal{f.Malformed, c.at(f.source), reason}
	}
	return nil
}

// of reports whether a value of a form has a pair, and whether it is a value of the other form that has one.
func (p pairs) of(form int, v value) (paired, taken bool) {
	if v.kind == null || v.kind == composite {
		return false, false
	}
	i, ok := p.at[form][v.text()]
	_, taken = p.at[1-form][v.text()]
	return ok && (p.list[i].Values[form].json[0] == '"') == (v.kind == text), taken
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
