package translate

import (
	"iter"
	"regexp"
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

// structure checks an object or an array in the place of a field, and another value in the place of an object. It reads
// the items of a list.
func (s *scanner) structure(n *node, e *entry, v value) value {
	f := s.plan.field(e)
	if f != nil && f.each != nil && v.raw[0] == '[' && s.list(f, &v) {
		return v
	}
	s.call.trace.read(s.call, s.plan, n, e, "", v)
	if v.ref == 0 {
		s.call.checkKind(s.plan, n, e, v)
	}
	return v
}

// list reads the items of a list into a new list of the call, and reports whether there are any. The array is valid:
// value has checked it.
func (s *scanner) list(f *mapping, v *value) (some bool) {
	c, p := s.call, f.each
	c.within = append(c.within, step{list: f})
	defer func() { c.within = c.within[:len(c.within)-1] }()
	items := scanner{call: c, plan: p, doc: s.doc, raw: s.raw, at: s.at - len(v.raw) + 1, checked: true}
	var list []value
	for at := len(c.within) - 1; items.peek() != ']'; c.within[at].index++ {
		if c.items++; c.items > maxItems {
			if c.overflow = true; s.plan.message == Request { // a reply is unusable, see readReply
				keep(&c.rejected, f.malformed, c.at(""), *v, why(tooManyItems, maxItems))
			}
			return true
		}
		if items.doc[items.at] == ',' {
			items.at++
		}
		list = append(list, make([]value, p.size)...)
		items.slots = list[len(list)-p.size:]
		e := &entry{slot: p.root.slot, node: p.root}
		if p.root.plain {
			e = &p.root.names[0]
		}
		items.put(p.root, e)
	}
	c.lists = append(c.lists, list)
	v.ref = uint32(len(c.lists))
	return len(list) > 0
}

const tooManyItems = "the lists of the message have more than %v items"

// nesting are the lists of a [Call], and where in them it is.
type nesting struct {
	lists    [][]value // of the request, then of the reply: the slots of all items of a list, one after the other
	asked    int       // how many lists the request has
	within   []step    // the item that is being read or written
	items    int       // how many items of lists the message has
	overflow bool      // the message has more than maxItems
}

// ListMemory returns the bytes of memory that the items of the lists of the last messages take.
func (c *nesting) ListMemory() (bytes int64) {
	for _, list := range c.lists {
		bytes += int64(cap(list)) * int64(unsafe.Sizeof(value{}))
	}
	return bytes
}

// dropLists keeps the first n lists.
func (c *nesting) dropLists(n int) {
	clear(c.lists[n:])
	c.lists = c.lists[:n]
}

// emitList appends a list. An item that does not fit passes unchanged in a reply, as other values do.
func (c *Call) emitList(p *plan, f *mapping, v value, dst []byte) (out []byte, refused *Refusal) {
	if v.ref == 0 {
		if v.kind != asIs && (v.kind != null || p.message != Request) {
			refused = c.misfit(p, f, v, p.wrong(f, v))
		}
		return append(dst, v.raw...), refused
	}
	dst = append(dst, '[')
	for item := range c.each(f, v) {
		switch p, other := f.each, item[f.each.root.slot]; {
		case other.raw != "": // no object
			c.trace.wrote(c, p, p.out, nil, other, other.raw)
			dst = append(comma(dst), other.raw...)
		case p.out.plain:
			dst, refused = c.emit(p, p.out, dst, item)
		default:
			dst, refused = c.emitAll(p, comma(dst), item)
		}
		if refused != nil {
			break
		}
	}
	return append(dst, ']'), refused
}

// each returns the slots of each item of a list. A value that is no list has none.
func (c *Call) each(f *mapping, v value) iter.Seq[[]value] {
	return func(yield func([]value) bool) {
		if v.ref == 0 {
			return
		}
		at := len(c.within)
		c.within = append(c.within, step{list: f})
		for item := range slices.Chunk(c.lists[v.ref-1], f.each.size) {
			if !yield(item) {
				break
			}
			c.within[at].index++
		}
		c.within = c.within[:at]
	}
}

// A passing is a field without a row that passes into an object of the output.
type passing struct{ name, key, value string } // key and value are raw JSON

// pass adds a field to those that pass from an object, whose slot has the number of their list.
func (c *Call) pass(object *value, one passing) {
	if object.ref == 0 {
		c.passed = append(c.passed, nil)
		object.ref = uint32(len(c.passed))
	}
	c.passed[object.ref-1] = append(c.passed[object.ref-1], one)
}

// PathInTable returns a path of a report as the table has it: with [] for the number of an item.
func PathInTable(path string) string {
	if strings.IndexByte(path, '[') < 0 {
		return path // mostly
	}
	return itemNumber.ReplaceAllLiteralString(path, itself)
}

var itemNumber = regexp.MustCompile(`\[(?:0|[1-9][0-9]{0,4})\]`)

// at returns the path of a field of the input in errors and reports: with the lists around it, as in parcels[3].weight.
func (c *nesting) at(path string) string { return c.pathIn(path, false) }

// pathIn is at for a field of the input, or of the output.
func (c *nesting) pathIn(path string, output bool) string {
	if len(c.within) == 0 {
		return path
	}
	whole := ""
	for _, s := range c.within {
		list := s.list.source
		if output {
			list = s.list.target
		}
		whole = joinPath(whole, list) + "[" + strconv.Itoa(s.index) + "]"
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
