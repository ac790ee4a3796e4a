package translate

// A plan translates one message of an operation from one form to another, in two steps. A scanner reads the input once: it checks
// the JSON and puts the raw text of each field into the slot of its row. Then the steps append the output from the slots. Between
// equal forms only the slots are filled.
type plan struct {
	table    *Table
	message  Message
	from, to int
	rows     []*row // slot i holds the value of rows[i]
	root     *node
	result   *node // where the paths of the rows begin: the root, or the result in the envelope
	inner    int   // the number of objects in root
	steps    []step
	objects  []object       // of the output; objects[0] is the result
	roles    map[string]int // by role: the slot of its row
	unknown  string         // what happens to a field without a row
}

// The slots of the envelope follow those of the rows, then those of the objects of the input.
func (p *plan) codeSlot() int { return len(p.rows) }
func (p *plan) textSlot() int { return len(p.rows) + 1 }
func (p *plan) slots() int    { return len(p.rows) + 2 + p.inner }

// placeObjects gives each object below n a slot, which shows that it was read.
func (p *plan) placeObjects(n *node) {
	for i := range n.names {
		if e := &n.names[i]; e.node != nil {
			e.slot = p.slots()
			p.inner++
			p.placeObjects(e.node)
		}
	}
}

// A node is an object of the input, with the names that the table has for its members.
type node struct {
	path   string // in refusals and reports
	names  []entry
	index  map[string]int
	fold   map[string]int // of a request: by the folded name; see fold
	output int            // the index of the output object that fields without a row pass into; -1 for none
}

// An entry is a member of a node: a field or an object.
type entry struct {
	name string
	key  string // `"name":`
	slot int
	node *node // nil for a field
}

// find returns the entry with a name, or nil. It tries *next first, since fields mostly come in the order of the table.
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
	e.key = `"` + e.name + `":`
	n.index[e.name] = len(n.names)
	if n.fold != nil {
		n.fold[fold(e.name)] = len(n.names)
	}
	n.names = append(n.names, e)
}

// addField adds a field at a path, and the objects around it.
func (n *node) addField(path string, slot int) {
	names := segments(path)
	for _, name := range names[:len(names)-1] {
		i, ok := n.index[name]
		if !ok {
			i = len(n.names)
			below := &node{path: joinPath(n.path, name), output: -1}
			if n.fold != nil {
				below.fold = map[string]int{}
			}
			n.add(entry{name: name, node: below})
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
	putValue   action = iota // append the value of a slot
	openObject               // begin an object; endObject removes it if it is empty
	endObject
)

// object is an object of the output, with the names that the table has in it.
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
	for _, ofClient := range o.translations {
		for _, t := range ofClient {
			if t != nil {
				t.link()
			}
		}
	}
}

// plan makes the plan for a message from one form to another.
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
		p.root.add(entry{name: envelope.Code, slot: p.codeSlot()})
		p.root.add(entry{name: envelope.Text, slot: p.textSlot()})
		if envelope.Result != "" {
			// Without a path: paths of the table start at the result.
			p.result = &node{output: -1}
			p.root.add(entry{name: envelope.Result, node: p.result})
		}
	}
	out := &node{}
	for slot, r := range p.rows {
		if r.path[from] != "" {
			p.result.addField(r.path[from], slot)
		}
		if r.path[to] != "" {
			out.addField(r.path[to], slot)
		}
		if r.role != noRole && r.path[from] != "" {
			p.roles[r.role.name] = slot
		}
	}
	p.placeObjects(p.root)
	p.flatten(out)
	if m == Reply && t.forms[to].Result == "" {
		p.objects[0].names[t.forms[to].Code], p.objects[0].names[t.forms[to].Text] = true, true
	}
	if p.unknown == "pass" {
		p.connectObjects()
	}
	return p
}

// flatten turns the tree of the output into steps and returns the index of its object. The steps do not write the brackets of the
// root.
func (p *plan) flatten(n *node) int {
	id := len(p.objects)
	p.objects = append(p.objects, object{path: n.path, names: map[string]bool{}})
	for _, e := range n.names {
		p.objects[id].names[e.name] = true
		if e.node == nil {
			p.steps = append(p.steps, step{do: putValue, key: e.key, slot: e.slot})
			continue
		}
		at := len(p.steps)
		p.steps = append(p.steps, step{do: openObject, key: e.key})
		p.steps[at].object = p.flatten(e.node)
		p.steps = append(p.steps, step{do: endObject, key: e.key, object: p.steps[at].object})
	}
	return id
}

// connectObjects sets the output of each object of the input to the object with the same path. A field without a row passes into
// it.
func (p *plan) connectObjects() {
	outputs := map[string]int{}
	for i, o := range p.objects {
		outputs[o.path] = i
	}
	p.result.connect(outputs)
}

func (n *node) connect(outputs map[string]int) {
	if i, ok := outputs[n.path]; ok {
		n.output = i
	}
	for _, e := range n.names {
		if e.node != nil {
			e.node.connect(outputs)
		}
	}
}
