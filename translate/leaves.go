package translate

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// A leaf is a value of a document that the table does not look into, with the place where it was found.
type leaf struct {
	value
	path   string // as refusals and reports write it, from the top of the document
	offset int
	name   string
	nameAt int    // the offset of the name
	plan   *plan  // of the message, or of the item around it
	node   *node  // the object around it; nil for an item of a list, and if the document is not an object
	entry  *entry // nil for a field without a row
	output bool   // of the output of the plan
	in, at string // the item around it: its path in reports, and the slots of its lists
}

// visitLeaves visits the leaves of a document that has been checked, in its order. root is the object of the plan that
// the document is: its input, or its output. A document that is not an object is one leaf.
func (p *plan) visitLeaves(root *node, doc []byte, visit func(leaf)) {
	parsed := gjson.ParseBytes(doc)
	if !parsed.IsObject() {
		parsed.Raw = strings.TrimRight(parsed.Raw, " \t\r\n") // of an array gjson keeps what follows
		visit(leaf{value: valueOf(parsed), offset: parsed.Index})
		return
	}
	leaf{plan: p, output: root != p.root}.visitMembers(root, parsed, visit)
}

// visitMembers visits the leaves of an object at the place of l. It calls itself only for objects of the table, so
// the nesting is bounded.
func (l leaf) visitMembers(n *node, object gjson.Result, visit func(leaf)) {
	next, parent := 0, l.path
	object.ForEach(func(key, v gjson.Result) bool {
		l.value, l.path, l.offset = valueOf(v), joinPath(parent, key.Str), v.Index
		l.name, l.nameAt = key.Str, key.Index
		l.node, l.entry = n, n.find(key.Str, &next)
		f := l.plan.field(l.entry)
		switch {
		case l.entry == nil:
			l.path = quoteName(l.path)
		case l.entry.node != nil && v.IsObject():
			l.visitMembers(l.entry.node, v, visit)
			return true
		case f != nil && f.each != nil && v.IsArray() && v.Get("0").Exists():
			l.visitItems(f, v, visit)
			return true
		}
		visit(l)
		return true
	})
}

// visitItems visits the leaves of the items of a list.
func (l leaf) visitItems(f *mapping, array gjson.Result, visit func(leaf)) {
	around, root, i := l, f.each.root, 0
	if l.output {
		root = f.each.out
	}
	array.ForEach(func(_, v gjson.Result) bool {
		number := "[" + strconv.Itoa(i) + "]"
		l.value, l.path, l.offset, l.name, l.plan, l.node = valueOf(v), around.path+number, v.Index, "", f.each, nil
		l.in = itemPath(around.in, f.source) + number
		l.at = around.at + strconv.Itoa(around.entry.slot) + number
		switch i++; {
		case v.IsObject() && !root.plain:
			l.visitMembers(root, v, visit)
			return true
		case root.plain || f.each.root.plain || f.each.out.plain: // the item has one field
			l.entry = &entry{}
		default:
			l.entry = &entry{node: root, slot: f.each.beginSlot()}
		}
		visit(l)
		return true
	})
}

// maxExplained is how many fields without a row and fields in lists an explanation has. A sender can write 500,000 of
// them into a message, each of which takes much more memory than its bytes.
const maxExplained = 1000

// firstLeaves returns the leaves of a document without those that are too many, and their number: fields without a row
// and fields in lists, unless they are secret or needed.
func (p *plan) firstLeaves(root *node, doc []byte, needed func(leaf) bool) (list []leaf, more int) {
	few := 0
	p.visitLeaves(root, doc, func(l leaf) {
		switch {
		case !l.isOneOfMany() || needed(l):
		case few == maxExplained:
			more++
			return
		default:
			few++
		}
		list = append(list, l)
	})
	return list, more
}

// isOneOfMany reports whether a message can have any number of such leaves, and none needs to be shown.
func (l leaf) isOneOfMany() bool {
	f := l.plan.field(l.entry)
	return l.plan != nil && (l.entry == nil || l.in != "") && (f == nil || !f.secret)
}

// reported returns the path of the leaf's field in a report.
func (l leaf) reported(r *mapping) string {
	if l.in == "" {
		return r.source
	}
	return itemPath(l.in, r.source)
}

// A place is where a leaf is in the output: the slot of its field, or the path of an object and the name of a field
// without a row. at is the item around it.
type place struct {
	at       string
	slot     int
	in, name string
}

// place returns the place of a leaf in the output. in is the object of the output around a field without a row.
func (l leaf) place(in *node) place {
	if l.entry == nil && in != nil {
		return place{l.at, -1, in.path, l.name}
	}
	if l.entry == nil || l.entry.node != nil && l.node != nil {
		return nowhere
	}
	return place{at: l.at, slot: l.entry.slot}
}

var nowhere = place{slot: -1}

// target returns the place of a leaf of the input in the output.
func (l leaf) target() place {
	if l.node == nil {
		return l.place(nil)
	}
	return l.place(l.node.out)
}

// Position returns the line and the column of a byte of a document. Both count from 1; columns count characters.
func Position(doc []byte, offset int) (line, column int) {
	before := doc[:min(max(offset, 0), len(doc))]
	begin := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte{'\n'}), 1 + utf8.RuneCount(before[begin:])
}
