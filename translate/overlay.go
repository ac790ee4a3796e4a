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
	forms := s.formNames()
	if common := child(overlay, "common"); common != nil { // first: rows of the operations may replace them
		s.applyCommon(common, forms)
	}
	var callbacks *yaml.Node
	s.fields(overlay, "an overlay", func(key, value *yaml.Node) {
		switch key.Value {
		case "operations", "callbacks":
			if child(s.root, key.Value) == nil {
				set(s.root, key, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: value.Line, Column: value.Column}, false)
			}
			if key.Value == "callbacks" {
				callbacks = value // last: they reuse rows of the operations
				return
			}
			s.applyOperations(key.Value, value, forms)
		case "catalogue":
			s.applyCatalogue(sequence(s.root, key), value)
		case "common":
		case "codes":
			s.changeRows(sequence(s.root, key), value, forms, codesMessage)
		default:
			merge := key.Value == "options" || key.Value == "forms" || key.Value == "unknown" || key.Value == "success" || key.Value == "roles"
			set(s.root, key, value, merge)
		}
	})
	if callbacks != nil {
		s.applyOperations("callbacks", callbacks, forms)
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
	s.items(overlay, "catalogue", func(item *yaml.Node) {
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
	})
}

func sameText(a, b *yaml.Node) bool { return a != nil && b != nil && a.Value == b.Value }

// applyOperations applies the operations or the callbacks of an overlay.
func (s *source) applyOperations(section string, overlay *yaml.Node, forms []string) {
	operations := child(s.root, section)
	s.fields(overlay, section, func(name, op *yaml.Node) {
		base, added := child(operations, name.Value), s.takeNew(op, forms)
		kind := strings.TrimSuffix(section, "s")
		switch {
		case base == nil && (added || slices.Contains(forms, newKey)):
			s.addOperation(operations, name, op, forms)
		case base == nil:
			hint := addHint(DidYouMean(name.Value, keys(operations)))
			s.missingNew = append(s.missingNew, s.problem(name, "the table has no %s %s%s", kind, name.Value, hint))
		case added:
			s.errorf(name, "remove new: true, since the table already has the %s %s", kind, name.Value)
		default:
			s.applyOperation(name, base, op, forms)
		}
	})
}

// addHint returns the end of an error about an addition without new: true.
func addHint(didYouMean string) string {
	if didYouMean == "" {
		return "; to add it, write new: true"
	}
	return didYouMean + " To add it, write new: true"
}

// addOperation adds a new operation. Its rows are new too and need no mark.
func (s *source) addOperation(operations, name, op *yaml.Node, forms []string) {
	for _, m := range []string{"request", "reply"} {
		if rows := child(op, m); rows != nil && rows.Kind == yaml.SequenceNode {
			s.expandCommon(rows, rows)
			for _, row := range rows.Content {
				s.takeNew(row, forms)
			}
		}
	}
	set(operations, name, op, false)
}

// applyOperation applies an operation or a callback of an overlay to that of the table.
func (s *source) applyOperation(name, base, op *yaml.Node, forms []string) {
	s.fields(op, "an operation", func(key, value *yaml.Node) {
		switch key.Value {
		case "request", "reply":
			message := sequence(base, key)
			s.expandCommon(value, message)
			s.applyRows(message, value, forms, s.reusedRows(op, base), name.Value+" "+key.Value)
		default:
			set(base, key, value, key.Value == "answer" || key.Value == "under")
		}
	})
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
func (s *source) applyRows(base, overlay *yaml.Node, forms []string, reused *yaml.Node, message string) {
	rows := base.Content
	if reused != nil {
		rows = slices.Concat(rows, reused.Content)
		for _, layer := range s.layers[base] {
			rows = slices.Concat(rows, layer.Content)
		}
	}
	if known := pathsOf(rows, forms); overlay.Kind == yaml.SequenceNode {
		for _, row := range overlay.Content {
			s.checkNew(row, known, forms, message)
		}
	}
	if reused != nil {
		s.layers[base] = append(s.layers[base], overlay)
		return
	}
	s.changeRows(base, overlay, forms, message)
}

// checkNew adds a problem for a row without new: true if no known row has one of its paths, or if a path is similar to that of a
// known row. A misspelled path would add a field that nobody sends, and the field that was meant would be dropped. A known field
// may get another name in one form without new: true.
func (s *source) checkNew(row *yaml.Node, known knownPaths, forms []string, message string) {
	if s.takeNew(row, forms) || child(row, "remove") != nil || slices.Contains(forms, newKey) {
		return
	}
	matched := known.hasAny(pathKeys(row, forms))
	for _, form := range forms {
		path := child(row, form)
		if path == nil || path.Kind != yaml.ScalarNode || path.Value == "" || known.has[pathKey{form, path.Value}] {
			continue
		}
		if hint, similar := s.similarPath(row, known, []string{form}); similar || !matched {
			s.missingNew = append(s.missingNew, s.problem(path, "%s has no path %s%s", message, path.Value, addHint(hint)))
			matched = true // one problem per row is enough, unless the other path is similar to a known one
		}
	}
}

// similarPath returns DidYouMean for the paths of a row, and whether any known path is similar. The hint is "" if several known paths
// are equally similar.
func (s *source) similarPath(row *yaml.Node, known knownPaths, forms []string) (hint string, similar bool) {
	for _, form := range forms {
		path := child(row, form)
		if path == nil {
			continue
		}
		best, found := mostSimilar(path.Value, known.byForm[form])
		similar = similar || found
		if hint = didYouMean(best); hint != "" {
			return hint, true
		}
	}
	return "", similar
}

// newKey is the key by which an overlay adds a row or an operation. If a form of the table has this name, overlays need no such key.
const newKey = "new"

// takeNew removes new: true from a row or an operation, and reports whether it was there.
func (s *source) takeNew(n *yaml.Node, forms []string) bool {
	value := child(n, newKey)
	if value == nil || slices.Contains(forms, newKey) {
		return false
	}
	i := slices.Index(n.Content, value)
	n.Content = slices.Delete(n.Content, i-1, i+1)
	return s.boolean(value, newKey)
}

// keys returns the keys of a mapping.
func keys(n *yaml.Node) (names []string) {
	for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		names = append(names, n.Content[i].Value)
	}
	return names
}

// formNames returns the names of the forms in the tree, which may be wrong.
func (s *source) formNames() []string {
	var names []string
	if forms := child(s.root, "forms"); forms != nil {
		for i := 0; i+1 < len(forms.Content); i += 2 {
			names = append(names, forms.Content[i].Value)
		}
	}
	return names
}

// sequence returns the list under a key of n. It adds an empty one if n does not have the key.
func sequence(n, key *yaml.Node) *yaml.Node {
	if list := child(n, key.Value); list != nil {
		return list
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	n.Content = append(n.Content, key, list)
	return list
}

// set sets a key of n. With merge, two mappings are merged key by key.
func set(n, key, value *yaml.Node, merge bool) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != key.Value {
			continue
		}
		old := n.Content[i+1]
		if merge && old.Kind == yaml.MappingNode && value.Kind == yaml.MappingNode {
			for j := 0; j+1 < len(value.Content); j += 2 {
				set(old, value.Content[j], value.Content[j+1], true)
			}
			return
		}
		n.Content[i], n.Content[i+1] = key, value
		return
	}
	n.Content = append(n.Content, key, value)
}
