package translate

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// A leaf is a value of a document that the table does not look into, with the place where it was found.
type leaf struct {
	value
	pointer string // JSON pointer: unlike a path it is unique, since names can have dots
	path    string // as refusals and reports write it
	offset  int
	name    string
	node    *node  // the object around it
	entry   *entry // nil for a field without a row
}

// leavesOf returns the leaves of a document that has been checked, in its order. A document that is not an object is one leaf.
func leavesOf(root *node, doc []byte) []leaf {
	parsed := gjson.ParseBytes(doc)
	if !parsed.IsObject() {
		parsed.Raw = strings.TrimRight(parsed.Raw, " \t\r\n") // of an array gjson keeps what follows
		return []leaf{{value: valueOf(parsed), offset: parsed.Index, node: root}}
	}
	return appendLeaves(nil, root, leaf{}, parsed)
}

// appendLeaves appends the leaves of an object. It calls itself only for objects of the table, so the nesting is bounded.
func appendLeaves(list []leaf, n *node, parent leaf, object gjson.Result) []leaf {
	next := 0
	object.ForEach(func(key, v gjson.Result) bool {
		l := leaf{valueOf(v), parent.pointer + "/" + escapePointer(key.Str), joinPath(parent.path, key.Str), v.Index, key.Str, n, n.find(key.Str, &next)}
		switch {
		case l.entry == nil:
			l.path = quoteName(l.path)
		case l.entry.node != nil && v.IsObject():
			list = appendLeaves(list, l.entry.node, l, v)
			return true
		}
		list = append(list, l)
		return true
	})
	return list
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func escapePointer(name string) string { return pointerEscapes.Replace(name) }

// pointerOf returns the JSON pointer of a path of the table.
func pointerOf(path string) string { return "/" + strings.ReplaceAll(path, ".", "/") }

// resultPointer returns the JSON pointer of the object where the paths of the rows begin in the target form.
func (p *plan) resultPointer() string {
	if result := p.table.forms[p.to].Result; p.message == Reply && result != "" {
		return "/" + result
	}
	return ""
}

// targetPointer returns the JSON pointer by which the value of a leaf is found in the output, or "" if the plan puts it nowhere.
func (p *plan) targetPointer(l leaf) string {
	switch {
	case p.from == p.to:
		return l.pointer
	case l.entry == nil && l.node.out != nil && p.unknown == "pass":
		out, pointer := l.node.out, p.resultPointer()
		if _, taken := out.index[l.name]; taken { // the other form has another field of this name
			return ""
		}
		if out.path != "" {
			pointer += pointerOf(out.path)
		}
		return pointer + "/" + escapePointer(l.name)
	case l.entry == nil || l.entry.node != nil:
		return ""
	case l.entry.slot == p.codeSlot():
		return pointerOf(p.table.forms[p.to].Code)
	case l.entry.slot == p.textSlot():
		return pointerOf(p.table.forms[p.to].Text)
	case l.entry.field.target == "":
		return ""
	}
	return p.resultPointer() + pointerOf(l.entry.field.target)
}

// field returns the field of a leaf, or nil if it has no row.
func (l leaf) field() *mapping {
	if l.entry == nil {
		return nil
	}
	return l.entry.field
}

// Position returns the line and the column of a byte of a document. Both count from 1; columns count characters.
func Position(doc []byte, offset int) (line, column int) {
	before := doc[:min(max(offset, 0), len(doc))]
	begin := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte{'\n'}), 1 + utf8.RuneCount(before[begin:])
}
