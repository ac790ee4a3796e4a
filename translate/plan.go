package translate

// A plan carries one message of one operation from one form to the other. Compiling it resolves every path:
// running it is one walk over the input, which keeps the raw text of each mapped value in a slot, and one over
// the steps, which append the output from the slots. A plan between equal forms only fills the slots.
type plan struct {
	table    *Table
	message  Message
	from, to int
	rows     []*row // slot i holds the value of rows[i]
	root     *node
	result   *node // where the rows' paths begin in the input: the root, or the envelope's result
	steps    []step
	objects  []object       // the objects of the output, for fields that pass without a row; 0 is the result
	roles    map[string]int // by role: the slot of its row
	unknown  string         // what happens to a field that no row names
}

// The slots of a reply's envelope stand behind those of its rows.
func (p *plan) codeSlot() int { return len(p.rows) }
func (p *plan) textSlot() int { return len(p.rows) + 1 }
func (p *plan) slots() int    { return len(p.rows) + 2 }

// A node is an object of the input whose names the table knows.
type node struct {
	path   string // as a refusal names it
	names  []entry
	index  map[string]int
	fold   map[string]int // of a request: by the folded name; see fold
	output int            // the object of the output that unknown fields pass into, -1 for none
}

type entry struct {
	name string
	slot int   // -1 for an object
	node *node // nil for a leaf
}

// find looks a name up. Fields mostly come in the order of the table, so the one after the last is tried first.
func (n *node) find(name string, next *int) *entry {
	if *next < len(n.names) && n.names[*next].name == name {
		*next++
		return &n.names[*next-1]
	}
	i, ok := n.index[name]
	if !ok {
		return nil
	}
	*next = i + 1
	return &n.names[i]
}

func (n *node) add(e entry) {
	if n.index == nil {
		n.index = map[string]int{}
	}
	n.index[e.name] = len(n.names)
	if n.fold != nil {
		n.fold[fold(e.name)] = len(n.names)
	}
	n.names = append(n.names, e)
}

// addLeaf puts a slot under a path, making the objects on the way.
func (n *node) addLeaf(path string, slot int) {
	names := segments(path)
	for _, name := range names[:len(names)-1] {
		i, ok := n.index[name]
		if !ok {
			i = len(n.names)
			below := &node{path: joinPath(n.path, name), output: -1}
			if n.fold != nil {
				below.fold = map[string]int{}
			}
			n.add(entry{name: name, slot: -1, node: below})
		}
		n = n.names[i].node
	}
	n.add(entry{name: names[len(names)-1], slot: slot})
}

// A step appends one thing to the output.
type step struct {
	do     action
	key    string // `"name":`, rendered
	slot   int
	object int
}

type action uint8

const (
	putValue   action = iota // the value of a slot
	openObject               // taken back at its end when nothing got into it
	endObject
)

// object is an object of the output: its path and the names that the table puts there.
type object struct {
	path  string
	names map[string]bool
}

// compile makes the translations of the operation.
func (o *Operation) compile() {
	for client := range o.paths {
		for upstream := range o.paths {
			if o.paths[client] == "" || o.paths[upstream] == "" {
				continue
			}
			o.translations[client][upstream] = &Translation{
				operation: o,
				request:   o.plan(Request, client, upstream),
				reply:     o.plan(Reply, upstream, client),
			}
		}
	}
	for _, both := range o.translations {
		for _, c := range both {
			if c != nil {
				c.link()
			}
		}
	}
}

func (o *Operation) plan(m Message, from, to int) *plan {
	t := o.table
	p := &plan{table: t, message: m, from: from, to: to, root: &node{output: -1}, roles: map[string]int{}, unknown: t.unknown[m][from]}
	if !o.list || m == Request {
		p.rows = o.rows[m]
	}
	p.result = p.root
	if m == Request {
		p.root.fold = map[string]int{}
	}
	if m == Reply {
		envelope := t.forms[from]
		p.root.add(entry{name: envelope.code, slot: p.codeSlot()})
		p.root.add(entry{name: envelope.text, slot: p.textSlot()})
		if envelope.result != "" {
			// The result's fields are shown by the paths that the table gives them.
			p.result = &node{output: -1}
			p.root.add(entry{name: envelope.result, slot: -1, node: p.result})
		}
	}
	out := &node{}
	for slot, r := range p.rows {
		if r.path[from] != "" {
			p.result.addLeaf(r.path[from], slot)
		}
		if r.path[to] != "" {
			out.addLeaf(r.path[to], slot)
		}
		if r.role != nil && r.path[from] != "" {
			p.roles[r.role.name] = slot
		}
	}
	p.flatten(out)
	if m == Reply && t.forms[to].result == "" {
		p.objects[0].names[t.forms[to].code], p.objects[0].names[t.forms[to].text] = true, true
	}
	if p.unknown == "pass" {
		p.connectObjects(p.result)
	}
	return p
}

// flatten turns the tree of the output into steps. Object 0 is the result itself; whoever runs the steps
// writes its brackets.
func (p *plan) flatten(n *node) int {
	id := len(p.objects)
	p.objects = append(p.objects, object{path: n.path, names: map[string]bool{}})
	for _, e := range n.names {
		p.objects[id].names[e.name] = true
		key := `"` + e.name + `":`
		if e.node == nil {
			p.steps = append(p.steps, step{do: putValue, key: key, slot: e.slot})
			continue
		}
		at := len(p.steps)
		p.steps = append(p.steps, step{do: openObject, key: key})
		p.steps[at].object = p.flatten(e.node)
		p.steps = append(p.steps, step{do: endObject, key: key, object: p.steps[at].object})
	}
	return id
}

// connectObjects finds for each object of the input the object of the output with the same path: a field that passes
// without a row keeps its place.
func (p *plan) connectObjects(n *node) {
	for i, o := range p.objects {
		if o.path == n.path {
			n.output = i
		}
	}
	for _, e := range n.names {
		if e.node != nil {
			p.connectObjects(e.node)
		}
	}
}
