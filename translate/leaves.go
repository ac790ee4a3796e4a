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
	path   string // as refusals and reports write it
	offset int
	name   string
	node   *node  // the object around it; nil if the document is not an object
	entry  *entry // nil for a field without a row
}

// leavesOf returns the leaves of a document that has been checked, in its order. A document that is not an object is
// one leaf.
func leavesOf(root *node, doc []byte) []leaf {
	parsed := gjson.ParseBytes(doc)
	if !parsed.IsObject() {
		parsed.Raw = strings.TrimRight(parsed.Raw, " \t\r\n") // of an array gjson keeps what follows
		return []leaf{{value: valueOf(parsed), offset: parsed.Index}}
	}
	return appendLeaves(nil, root, "", parsed)
}

// appendLeaves appends the leaves of an object. It calls itself only for objects of the table, so the nesting is
// bounded.
func appendLeaves(list []leaf, n *node, parent string, object gjson.Result) []leaf {
	next := 0
	object.ForEach(func(key, v gjson.Result) bool {
		l := leaf{valueOf(v), joinPath(parent, key.Str), v.Index, key.Str, n, n.find(key.Str, &next)}
		switch {
		case l.entry == nil:
			l.path = quoteName(l.path)
		case l.entry.node != nil && v.IsObject():
			list = appendLeaves(list, l.entry.node, l.path, v)
			return true
		}
		list = append(list, l)
		return true
	})
	return list
}

// A place is where a leaf is in the output: the slot of its field, or the path of an object and the name of a field
// without a row.
type place struct {
	slot     int
	in, name string
}

// place returns the place of a leaf in the output. in is the object of the output around a field without a row.
func (l leaf) place(in *node) place {
	if l.entry == nil && in != nil {
		return place{-1, in.path, l.name}
	}
	if l.entry == nil || l.entry.node != nil {
		return place{slot: -1} // nowhere
	}
	return place{slot: l.entry.slot}
}

// Position returns the line and the column of a byte of a document. Both count from 1; columns count characters.
func Position(doc []byte, offset int) (line, column int) {
	before := doc[:min(max(offset, 0), len(doc))]
	begin := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte{'\n'}), 1 + utf8.RuneCount(before[begin:])
}
