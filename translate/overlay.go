package translate

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// applyOverlay applies an overlay to the table. Texts are replaced, mappings are merged, codes and pairs of codes are
// added. A row changes the row with one of its paths. Additions need new: true, so that a misspelled name is not
// added.
func (s *source) applyOverlay(overlay *yaml.Node) {
	if s.root.Kind != yaml.MappingNode {
		return // reported when the table is read
	}
	s.applyCommon(overlay) // first: rows of the operations may replace them
	for key, value := range s.members(overlay, "an overlay") {
		switch key.Value {
		case "common":
		case "operations", "callbacks":
			s.applyOperations(key, value)
		case "catalogue":
			s.applyCatalogue(sequence(s.root, key), value)
		case "codes":
			s.applyRows(sequence(s.root, key), value, codesMessage)
		default:
			set(s.root, key, value)
		}
	}
}

// applyCatalogue adds codes. A code of one form replaces the same code of that form. The meaning of a code of the
// catalogue cannot be changed, since the interface defines it.
func (s *source) applyCatalogue(catalogue, overlay *yaml.Node) {
	index := map[codeKey]int{}
	add := func(item *yaml.Node, at int) {
		if _, ok := index[keyOfCode(item)]; !ok && keyOfCode(item).code != "" {
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
		case child(item, "means") != nil && !sameNode(child(item, "means"), child(catalogue.Content[at], "means")):
			s.errorf(item, "an overlay cannot change the meaning of %s; "+
				"to add a meaning in one form, write form: FORM", keyOfCode(item).code)
		}
	}
}

// applyOperations applies the operations or the callbacks of an overlay.
func (s *source) applyOperations(section, overlay *yaml.Node) {
	operations := child(s.root, section.Value)
	if operations == nil {
		operations = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: overlay.Line, Column: overlay.Column}
		set(s.root, section, operations)
	}
	kind := strings.TrimSuffix(section.Value, "s")
	for name, op := range s.members(overlay, section.Value) {
		base, added := child(operations, name.Value), s.takeNew(op)
		switch {
		case base == nil && (added || slices.Contains(s.forms, newKey)):
			set(operations, name, op)
			s.expand(section.Value, name, op)
		case base == nil:
			hint := addHint(DidYouMean(name.Value, names(operations)))
			s.missingNew = append(s.missingNew, s.problem(name, "the table has no %s %s%s", kind, name.Value, hint))
		case added:
			s.errorf(name, "remove new: true, since the table already has the %s %s", kind, name.Value)
		default:
			s.applyOperation(kind, name, base, op)
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

// applyOperation applies an operation or a callback of an overlay to that of the table.
func (s *source) applyOperation(kind string, name, base, op *yaml.Node) {
	for key, value := range s.members(op, "the "+kind) {
		switch isRows := key.Value == "request" || key.Value == "reply"; {
		case kind == "callback" && key.Value == "request":
			s.layers[name.Value] = append(s.layers[name.Value], value)
		case kind == "operation" && isRows:
			list := sequence(base, key)
			s.include(value, list)
			s.applyRows(list, value, name.Value+" "+key.Value)
		default:
			set(base, key, value)
		}
	}
}

// newKey is the key by which an overlay adds a row or an operation. If a form of the table has this name, overlays
// need no such key.
const newKey = "new"

// takeNew removes new: true from a row or an operation, and reports whether it was there.
func (s *source) takeNew(n *yaml.Node) bool {
	if slices.Contains(s.forms, newKey) {
		return false
	}
	value := remove(n, newKey)
	return value != nil && s.boolean(value, newKey)
}
