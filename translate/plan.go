package translate

import (
	"cmp"
	"slices"
	"strings"
)

// A plan translates one message of an operation, or an item of a list, from one form to another, in two steps. A
// scanner reads the input once: it checks the JSON and puts the raw text of each field into its slot. Then emit appends
// the output from the slots. Between equal forms only the slots are filled.
type plan struct {
	table   *Table
	message Message
	ends

	fields  []*mapping // slot i holds the value of fields[i]
	written []*mapping // fields, and the parts of the envelope, which stay as they are
	size    int        // the number of slots
	root    *node      // the input
	out     *node      // the output
	bare    bool       // of a reply in a form whose success has no envelope
	checked []int      // the slots that look looks at; of a request, those that have one spelling
	roles   map[string]int
	unknown string          // what happens to a field without a row
	first   *plan           // the same message, to the first form
	paths   map[string]bool // of fields, of objects around them, and of items, with []

	names map[string]bool // spelled like one of either form wherever they stand; of the intake of callbacks alone
}

// ends are the forms of a plan.
type ends struct {
	from, to         int
	fromForm, toForm *form
}

// A mapping is a row in one direction. All that is known of it before a message comes is compiled once.
type mapping struct {
	*row
	direction
	writing
	class  Class  // "" if no value can get to the other form
	report string // the path in reports: that of the source, or else of the target

	of    int   // of a reply: the slot of the request that is echoed, equalled by a success, or repeated; -1 for none
	state int   // slot of the row whose meaning NoValueWhile names, or -1
	each  *plan // of a list: translates an item; nil for a field that is no list

	filled, omitted constant // the output gets the one instead of no field, and no field instead of the other one

	// The field is secret by its own role, or since the request has a field with the same path and a secret role.
	secret bool
}

// A direction is that of a mapping.
type direction struct {
	from, to       int
	source, target string // paths; "" if the form lacks the field
}

// A writing is how the form of the output writes values.
type writing struct {
	places        int  // by which the point of a number moves to the right
	digitsTo      kind // how the form of the output writes numbers
	conversion    conversion
	none, emptied string   // what "no value" is there, by no_value_while and by the number of a pair, as JSON
	plain         bool     // text stays as it is
	onlyPairs     bool     // a value without a pair does not fit
	nulls         bool     // a null that passes is counted: the row converts values, and does not say what null is
	taken         []string // the JSON that stands there for an absent field, or for null, or of which null is the pair
}

// mappings returns rows of a message in one direction.
func (t *Table) mappings(rows []*row, from, to int) (list []*mapping) {
	for _, r := range rows {
		f := &mapping{
			row: r, direction: direction{from, to, r.Path[from], r.Path[to]}, report: cmp.Or(r.Path[from], r.Path[to]),
			secret: r.Role.Secret, of: -1, state: -1,
			writing: writing{
				places: r.Shift[to] - r.Shift[from], digitsTo: r.digitsIn(&t.forms[to]), none: `""`, emptied: `""`,
			},
		}
		if f.digitsTo == number {
			f.none, f.emptied = "null", r.empty.json
		}
		f.conversion = r.conversionOf(f.places)
		in, out, values := r.absent[from], r.absent[to], r.Values
		saysNull, converts := slices.ContainsFunc(values.list, pair.hasNull), f.conversion != untouched || r.hasPairs()
		f.plain = !converts && r.Each == nil && in == out
		f.onlyPairs = values.replace && r.pattern[0] == "" && !r.isMoved()
		f.nulls = from != to && converts && r.empty.kind == absent && r.NoValueWhile == nil && r.otherwise == "" &&
			!saysNull
		if out.kind == absent {
			f.omitted = r.leavesOut[from]
		} else if f.taken = append(f.taken, out.json); in.kind == absent {
			f.filled = out
		}
		for _, pair := range values.list {
			if other := pair.Values[to]; other.kind == null || saysNull && !values.replace {
				f.taken = append(f.taken, other.json)
			}
		}
		if len(r.NoValueWhile) > 0 {
			f.state = slices.IndexFunc(rows, hasMeaning(r.NoValueWhile...))
		}
		switch {
		case from == to:
			f.class = Passed
		case f.source != "" && f.target != "":
			f.class = Exact
		case f.source != "":
			f.class = Lossy
		case r.always.kind != absent:
			f.class, f.filled = Defaulted, r.always
		case r.echoed != "":
			f.class = Echoed
		}
		list = append(list, f)
	}
	return list
}

// public reports whether the value is not personal data.
func (f *mapping) public() bool { return (f.digits || f.Role.Public) && !f.secret }

// noValue reports whether the row's `no_value_while` says that the value means "no value".
func (p *plan) noValue(f *mapping, v value, slots []value) bool {
	if f.state < 0 || v.raw != `""` && v.text() != "0" {
		return false
	}
	return slices.Contains(f.NoValueWhile, p.fields[f.state].meaning(slots[f.state], p.from))
}

// envelope returns the slots of the envelope of a reply. They follow those of the rows, then come those of the objects
// of the input.
func (p *plan) envelope(slots []value) []value { return slots[len(p.fields):][:envelopeSlots] }

// part returns which part of the envelope an entry is, or -1.
func (p *plan) part(e *entry) int {
	if e == nil || e.node != nil {
		return -1
	}
	return max(-1, e.slot-len(p.fields))
}

// envelopeParts write the parts of an envelope, which have been converted.
var envelopeParts = slices.Repeat([]*mapping{
	{row: &row{}, writing: writing{plain: true}, of: -1, state: -1},
}, envelopeSlots)

// field returns the field of an entry, or nil for nil, an object, and code and text of the envelope.
func (p *plan) field(e *entry) *mapping {
	if e == nil || e.node != nil || e.slot >= len(p.fields) {
		return nil
	}
	return p.fields[e.slot]
}

// place gives an object, and each one below it, a slot. It shows that the object was read, and has what passes from it.
func (p *plan) place(n *node) {
	n.slot = p.size
	p.size++
	for i := range n.names {
		if e := &n.names[i]; e.node != nil {
			p.place(e.node)
			e.slot = e.node.slot
		}
	}
}

// A node is an object of the input or of the output, with the names that the table has for its members.
type node struct {
	path  string // in refusals and reports
	top   string // the path of the result that path begins in
	names []entry
	index map[string]int // by name: the index in names; -1 for a name of the envelope
	fold  map[string]int // of a request: by the folded name; see fold
	slot  int            // of the object of the input whose fields without a row pass into it, or -1
	out   *node          // of the input: that object; nil for none
	plain bool           // an item of a list that is no object; it has one entry, without a name
}

// An entry is a member of a node: a field or an object.
type entry struct {
	key   string // `"name":`
	slot  int
	node  *node  // nil for a field
	empty string // of an object: what stands in its place if it has no members; "" for nothing
}

func keyOf(name string) string { return `"` + name + `":` }

// name returns the name of the member. The entry of a plain item has none.
func (e *entry) name() string { return e.key[1 : len(e.key)-2] }

// pathOf returns the path of an entry. That of an item has no name.
func (n *node) pathOf(e *entry) string {
	if e.key == "" {
		return n.path
	}
	return joinPath(n.path, e.name())
}

// newNode returns the object at a path below a result.
func newNode(top, path string, folds bool) *node {
	n := &node{top: top, path: path, index: map[string]int{}, slot: -1}
	if folds {
		n.fold = map[string]int{}
	}
	return n
}

// find returns the entry with a name, or nil, and sets next to the one behind it.
func (n *node) find(name string, next *int) *entry {
	i, ok := n.index[name]
	if !ok {
		return nil
	}
	*next = i + 1
	return &n.names[i]
}

func (n *node) add(e entry) {
	n.index[e.name()] = len(n.names)
	if n.fold != nil {
		n.fold[fold(e.name())] = len(n.names)
	}
	n.names = append(n.names, e)
}

// addField adds an entry at a path, and the objects around it, unless a field has the name of one, in the other form of
// a callback.
func (n *node) addField(path string, e entry) {
	name, rest, deeper := strings.Cut(path, ".")
	_, known := n.index[name]
	switch {
	case path == "":
	case path == itself:
		n.plain, n.names = true, append(n.names, e)
	case !deeper && !known:
		e.key = keyOf(name)
		n.add(e)
	case deeper && !known:
		n.add(entry{key: keyOf(name), node: newNode(n.top, joinPath(n.path, name), n.fold != nil)})
		fallthrough
	case deeper:
		if inner := n.names[n.index[name]].node; inner != nil {
			inner.addField(rest, e)
		}
	}
}

// compile makes the translations of the operation.
func (o *Operation) compile() {
	for client := range o.paths {
		list := make([]*Translation, len(o.paths))
		for upstream := range list {
			if o.paths[client] != "" && o.paths[upstream] != "" {
				list[upstream] = newTranslation(o, client, upstream)
			}
		}
		o.translations = append(o.translations, list)
	}
}

// plan makes the plan for a message from one form to another.
func (o *Operation) plan(m Message, from, to int) *plan {
	rows := o.rows[m]
	if o.list && m != Request {
		rows = nil
	}
	return o.message(m, rows, from, to, o.table.unknown[m])
}

// message makes the plan for a message, also to the first form.
func (o *Operation) message(m Message, rows []*row, from, to int, unknown string) *plan {
	p := o.planOf(m, rows, from, to, unknown, false)
	p.first = o.planOf(m, rows, from, 0, "drop", false)
	return p
}

// planOf makes a plan with the fields of rows.
func (o *Operation) planOf(m Message, rows []*row, from, to int, unknown string, item bool) *plan {
	t := o.table
	p := &plan{
		table: t, message: m, ends: ends{from, to, &t.forms[from], &t.forms[to]},
		fields: t.mappings(rows, from, to), size: len(rows), roles: map[string]int{}, paths: map[string]bool{},
		unknown: unknown, bare: m == Reply && o.bare[from],
	}
	var tops [2]string
	if m == Reply {
		tops = [2]string{p.fromForm.Result, p.toForm.Result}
	}
	result, written := newNode(tops[0], "", m == Request), newNode(tops[1], "", false)
	p.root, p.out, p.written = result, written, slices.Clip(p.fields)
	for slot, f := range p.fields {
		result.addField(f.source, entry{slot: slot})
		written.addField(f.target, entry{slot: slot})
		if f.Role != noRole && f.source != "" {
			p.roles[f.Role.name] = slot
		}
		if f.must || f.repeats || m == Reply && f.Required || cmp.Or(f.shown, f.row).Means != nil ||
			m == Request && f.Role.Same == "must" {
			p.checked = append(p.checked, slot)
		}
		for path := f.source; path != ""; path = path[:max(0, strings.LastIndexByte(path, '.'))] {
			p.paths[path] = true
		}
		if f.items != nil {
			f.each = o.planOf(m, f.items, from, to, unknown, true)
			p.paths[f.source+itself] = true
			for path := range f.each.paths {
				p.paths[itemPath(f.source+itself, path)] = true
			}
		}
	}
	if m == Reply && !item {
		p.size += envelopeSlots
		p.written = append(p.written, envelopeParts...)
		if p.root = p.fromForm.around(result, len(rows), true, false); tops[0] == "" {
			result = p.root
		}
		if !o.bare[to] {
			p.out = p.toForm.around(written, len(rows), false, false)
		}
		if tops[1] == "" {
			written = p.out
			for _, name := range p.toForm.names() { // nothing passes in the place of one
				if _, known := written.index[name]; !known {
					written.index[name] = -1
				}
			}
		}
	}
	if p.place(p.root); unknown == "pass" {
		result.connect(written)
	}
	return p
}

// connect sets the output of each object of the input to the object with the same path, and back.
func (n *node) connect(out *node) {
	if out.plain || n.plain { // it has no room for a field without a row
		return
	}
	n.out, out.slot = out, n.slot
	for _, e := range n.names {
		if i, ok := out.index[e.name()]; ok && i >= 0 && e.node != nil && out.names[i].node != nil {
			e.node.connect(out.names[i].node)
		}
	}
}
