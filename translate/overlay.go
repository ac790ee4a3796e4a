package translate

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// applyOverlay applies an overlay to the table. Texts are replaced, mappings are merged, codes and pairs of codes are added. A row
// changes the row with one of its paths. Additions need new: true, so that a misspelled name is not added.
func (s *source) applyOverlay(overlay *yaml.Node) {
	if s.root.Kind != yaml.MappingNode {
		return // reported when the table is read
	}
	if common := child(overlay, "common"); common != nil { // first: rows of the operations may replace them
		s.applyCommon(common)
	}
	var callbacks *yaml.Node
	for key, value := range s.members(overlay, "an overlay") {
		switch key.Value {
		case "operations", "callbacks":
			if child(s.root, key.Value) == nil {
				set(s.root, key, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: value.Line, Column: value.Column})
			}
			if key.Value == "callbacks" {
				callbacks = value // last: they reuse rows of the operations
			} else {
				s.applyOperations(key.Value, value)
			}
		case "catalogue":
			s.applyCatalogue(sequence(s.root, key), value)
		case "common":
		case "codes":
			s.changeRows(sequence(s.root, key), value, codesMessage)
		default:
			set(s.root, key, value)
		}
	}
	if callbacks != nil {
		s.applyOperations("callbacks", callbacks)
	}
}

// applyCatalogue adds codes. A code of one form replaces the same code of that form. The meaning of a code of the catalogue cannot
// be changed, since the interface defines it.
func (s *source) applyCatalogue(catalogue, overlay *yaml.Node) {
	index := map[codeKey]int{}
	add := func(item *yaml.Node, at int) {
		if _, ok := index[keyOfCode(item)]; !ok && codeOf(item).Kind == yaml.ScalarNode {
			index[keyOfCode(item)] = at
		}
	}
	for at, item := range catalogue.Content {
		add(item, at)
	}
	for _, item := range s.items(overlay, "catalogue") {
		at, known := index[keyOfCode(item)]
		switch {
		case !known:
			add(item, len(catalogue.Content))
			catalogue.Content = append(catalogue.Content, item)
		case child(item, "form") != nil:
			catalogue.Content[at] = item
		case child(item, "means") != nil && !sameText(child(item, "means"), child(catalogue.Content[at], "means")):
			s.errorf(item, "an overlay cannot change the meaning of %s; to add a meaning in one form, write form: FORM", codeOf(item).Value)
		}
	}
}

func sameText(a, b *yaml.Node) bool { return a != nil && b != nil && a.Value == b.Value }

// applyOperations applies the operations or the callbacks of an overlay.
func (s *source) applyOperations(section string, overlay *yaml.Node) {
	operations := child(s.root, section)
	for name, op := range s.members(overlay, section) {
		base, added := child(operations, name.Value), s.takeNew(op)
		kind := strings.TrimSuffix(section, "s")
		switch {
		case base == nil && (added || slices.Contains(s.forms, newKey)):
			s.addOperation(operations, name, op)
		case base == nil:
			hint := addHint(DidYouMean(name.Value, names(operations)))
			s.missingNew = append(s.missingNew, s.problem(name, "the table has no %s %s%s", kind, name.Value, hint))
		case added:
			s.errorf(name, "remove new: true, since the table already has the %s %s", kind, name.Value)
		default:
			s.applyOperation(name, base, op)
		}
	}
}

// addHint returns the end of an error about an addition without new: true.
func addHint(didYouMean string) string {
	if didYouMean == "" {
		return "; to add it, write new: true"
	}
	return didYouMean + " To add it, write new: true"
}

// addOperation adds a new operation. Its rows are new too and need no mark.
func (s *source) addOperation(operations, name, op *yaml.Node) {
	for _, m := range []string{"request", "reply"} {
		if rows := child(op, m); rows != nil && rows.Kind == yaml.SequenceNode {
			s.expandCommon(rows, rows)
			for _, row := range rows.Content {
				s.takeNew(row)
			}
		}
	}
	set(operations, name, op)
}

// applyOperation applies an operation or a callback of an overlay to that of the table.
func (s *source) applyOperation(name, base, op *yaml.Node) {
	for key, value := range s.members(op, "an operation") {
		switch key.Value {
		case "request", "reply":
			message := sequence(base, key)
			s.expandCommon(value, message)
			s.applyRows(message, value, s.reusedRows(op, base), name.Value+" "+key.Value)
		default:
			set(base, key, value)
		}
	}
}

// reusedRows returns the rows that a callback, or the overlay of one, reuses by fields: OPERATION, or nil if it has no such key.
func (s *source) reusedRows(callbacks ...*yaml.Node) *yaml.Node {
	for _, callback := range callbacks {
		fields := child(callback, "fields")
		if fields == nil {
			continue
		}
		if reply := child(child(child(s.root, "operations"), fields.Value), "reply"); reply != nil {
			return reply
		}
		return &yaml.Node{Kind: yaml.SequenceNode} // the operation does not exist
	}
	return nil
}

// applyRows applies rows to the list base of a message. If base belongs to a callback that reuses rows, they are applied when the callback
// is read, since a later overlay can change the reused rows.
func (s *source) applyRows(base, overlay *yaml.Node, reused *yaml.Node, message string) {
	rows := base.Content
	if reused != nil {
		rows = slices.Concat(rows, reused.Content)
		for _, layer := range s.layers[base] {
			rows = slices.Concat(rows, layer.Content)
		}
	}
	if known := newRowList(rows, s.forms); overlay.Kind == yaml.SequenceNode {
		for _, row := range overlay.Content {
			s.checkNew(row, known, message)
		}
	}
	if reused != nil {
		s.layers[base] = append(s.layers[base], overlay)
		return
	}
	s.changeRows(base, overlay, message)
}

// checkNew adds a problem for a row without new: true if no known row has one of its paths, or if a path is similar to that of a
// known row. A misspelled path would add a field that nobody sends, and the field that was meant would be dropped. A known field
// may get another name in one form without new: true.
func (s *source) checkNew(row *yaml.Node, known *rowList, message string) {
	if s.takeNew(row) || child(row, "remove") != nil || slices.Contains(s.forms, newKey) {
		return
	}
	keys := pathKeys(row, s.forms)
	isKnown := func(key pathKey) bool { return len(known.at[key]) > 0 }
	matched := slices.ContainsFunc(keys, isKnown)
	for _, key := range keys {
		if key.path == "" || isKnown(key) {
			continue
		}
		if hint, similar := known.similarPath(row, []string{key.form}); similar || !matched {
			at := child(row, key.form)
			s.missingNew = append(s.missingNew, s.problem(at, "%s has no path %s%s", message, key.path, addHint(hint)))
			matched = true // one problem per row is enough, unless the other path is similar to a known one
		}
	}
}

// newKey is the key by which an overlay adds a row or an operation. If a form of the table has this name, overlays need no such key.
const newKey = "new"

// takeNew removes new: true from a row or an operation, and reports whether it was there.
func (s *source) takeNew(n *yaml.Node) bool {
	value := child(n, newKey)
	if value == nil || slices.Contains(s.forms, newKey) {
		return false
	}
	remove(n, newKey)
	return s.boolean(value, newKey)
}
