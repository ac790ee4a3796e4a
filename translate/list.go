package translate

import (
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// A list is an array of which the table knows the items. Its row has the rows of an item, and its mapping has a plan
// that translates one item as any other plan translates a message. An item is an object, or a plain value: then the
// path of its row is itself.
const itself = "[]"

// maxItems limits the items of all lists of a message, and so the memory and the work that a message can need.
const maxItems = 10_000

// maxReported limits the fields in lists that a report names.
const maxReported = 64

// A step is the item that is being read or written, and the list around it.
type step struct {
	list  *mapping
	index int
}

// itemPlan makes the plan for an item of a list.
func (t *Table) itemPlan(m Message, rows []*row, from, to int) *plan {
	p, root := t.newPlan(m, rows, from, to)
	p.root, p.item = root, true
	p.placeObjects(root)
	root.connect(p.out)
	return p
}

// An item has no envelope: the slots of code and text hold what passed from the item into the output, as indexes of
// c.passed, and the slot of the code an item that is no object, though it should be one.
func (p *plan) beginSlot() int { return p.codeSlot() }
func (p *plan) endSlot() int   { return p.textSlot() }

// structure checks an object or an array in the place of a field, and another value in the place of an object. It reads
// the items of a list.
func (s *scanner) structure(n *node, e *entry, v value) value {
	if f := s.plan.field(e); f != nil && f.each != nil && v.raw[0] == '[' {
		s.list(f, &v)
		return v
	}
	s.call.checkKind(s.plan, n, e, v)
	return v
}

// list reads the items of a list into a new list of the call. The array is valid: value has checked it.
func (s *scanner) list(f *mapping, v *value) {
	c, p := s.call, f.each
	c.within = append(c.within, step{list: f})
	defer func() { c.within = c.within[:len(c.within)-1] }()
	items := scanner{call: c, plan: p, doc: s.doc, raw: s.raw, at: s.at - len(v.raw) + 1, checked: true}
	var list []value
	for at := len(c.within) - 1; items.peek() != ']'; c.within[at].index++ {
		if c.items++; c.items > maxItems {
			c.tooMany(s.plan, f)
			return
		}
		if items.doc[items.at] == ',' {
			items.at++
		}
		list = append(list, make([]value, p.slots())...)
		items.slots = list[len(list)-p.slots():]
		items.item()
	}
	c.lists = append(c.lists, list)
	v.ref = uint32(len(c.lists))
}

// item reads an item of a list.
func (s *scanner) item() {
	c, p := s.call, s.plan
	begin := len(c.passed)
	switch isObject := s.peek() == '{'; {
	case isObject && !p.root.plain:
		s.object(p.root)
	case p.root.plain:
		v, _ := s.value()
		if s.slots[p.root.names[0].slot] = v; v.kind == composite {
			c.checkKind(p, p.root, &p.root.names[0], v)
		}
	default:
		v, _ := s.value()
		s.slots[p.beginSlot()] = v
		if p.message == Request && p.from != p.to {
			keep(&c.refusal, p.table.invalid, c.at(""), why(wantObject, v.typeName()))
		}
	}
	s.slots[p.beginSlot()].ref, s.slots[p.endSlot()].ref = uint32(begin), uint32(len(c.passed))
}

// ListMemory returns the bytes of memory that the items of the lists of the last messages take.
func (c *Call) ListMemory() (bytes int64) {
	for _, list := range c.lists {
		bytes += int64(cap(list)) * int64(unsafe.Sizeof(value{}))
	}
	return bytes
}

// dropLists keeps the first n lists.
func (c *Call) dropLists(n int) {
	clear(c.lists[n:])
	c.lists = c.lists[:n]
}

// tooMany refuses a message with more items than maxItems. A reply is unusable, see [Call.readReply].
func (c *Call) tooMany(p *plan, f *mapping) {
	c.overflow = true
	if p.message == Request {
		keep(&c.rejected, f.malformed, c.at(""), why(tooManyItems, maxItems))
	}
}

const tooManyItems = "the lists of the message have more than %v items"

// emitList appends a list. An item that does not fit passes unchanged in a reply, as other values do.
func (c *Call) emitList(p *plan, f *mapping, each *plan, v value, dst []byte) (out []byte, _ *Refusal) {
	if v.ref == 0 {
		if dst = append(dst, v.raw...); v.kind != asIs && (v.kind != null || p.message != Request) {
			return dst, c.misfit(p, f, v)
		}
		return dst, nil
	}
	dst = append(dst, '[')
	refusal := c.eachItem(f, each, v, func(item []value) (refusal *Refusal) {
		dst, refusal = c.emitItem(each, item, dst)
		return refusal
	})
	return append(dst, ']'), refusal
}

// eachItem calls do with the slots of each item of a list, until one is refused. A value that is no list has none.
func (c *Call) eachItem(f *mapping, each *plan, v value, do func(item []value) *Refusal) (refusal *Refusal) {
	if v.ref == 0 {
		return nil
	}
	at := len(c.within)
	c.within = append(c.within, step{list: f})
	for list, size := c.lists[v.ref-1], each.slots(); len(list) > 0 && refusal == nil; list = list[size:] {
		refusal = do(list[:size])
		c.within[at].index++
	}
	c.within = c.within[:at]
	return refusal
}

func (c *Call) emitItem(p *plan, item []value, dst []byte) (out []byte, refusal *Refusal) {
	switch other := item[p.beginSlot()]; {
	case other.kind != absent:
		c.mismatch("", Mismatch{"an object", other.typeName()})
		dst = append(comma(dst), other.raw...)
	case p.out.plain && item[p.out.names[0].slot].kind == absent: // the items that follow must keep their places
		f := p.fields[p.out.names[0].slot]
		if p.message == Request {
			return dst, &Refusal{f.malformed, c.at(f.source), why("is missing")}
		}
		c.mismatch(f.report, Mismatch{})
		dst = append(comma(dst), "null"...)
	case p.out.plain:
		dst, refusal = c.emit(p, p.out, dst, item)
	default:
		dst, refusal = c.emitAll(p, comma(dst), item)
	}
	if p.message != Request {
		c.reportDropped(p, item)
	}
	return dst, refusal
}

// emitPassed appends what passes from the message, or from an item of a list, into an object of the output.
func (c *Call) emitPassed(p *plan, n *node, dst []byte, slots []value) []byte {
	passed := c.passed
	if p.item {
		passed = passed[slots[p.beginSlot()].ref:slots[p.endSlot()].ref]
	}
	for i := range passed {
		if passed[i].into == n {
			dst = append(append(append(comma(dst), passed[i].key...), ':'), passed[i].value...)
		}
	}
	return dst
}

// hasField reports whether a path of the table is that of a field, of an object that holds fields, or of an item of a
// list.
func (p *plan) hasField(path string) bool {
	return slices.ContainsFunc(p.fields, func(f *mapping) bool {
		below, isItem := strings.CutPrefix(path, f.source+itself)
		return f.source == path || strings.HasPrefix(f.source, path+".") ||
			isItem && f.each != nil && (below == "" || below[0] == '.' && f.each.hasField(below[1:]))
	})
}

// at returns the path of a field of the input in errors and reports: with the lists around it, as in parcels[3].weight.
func (c *Call) at(path string) string {
	return c.joinLists(path, func(f *mapping) string { return f.source })
}

// atTarget is at for a field of the output.
func (c *Call) atTarget(path string) string {
	return c.joinLists(path, func(f *mapping) string { return f.target })
}

func (c *Call) joinLists(path string, list func(*mapping) string) string {
	if len(c.within) == 0 {
		return path
	}
	whole := ""
	for _, s := range c.within {
		whole = joinPath(whole, list(s.list)) + "[" + strconv.Itoa(s.index) + "]"
	}
	return itemPath(whole, path)
}

// itemPath returns the path of a field of an item.
func itemPath(item, path string) string {
	if path == "" || path == itself {
		return item
	}
	return joinPath(item, path)
}
