package translate

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// applyOverlay lays the tree over onto s: words replace words, mappings are merged, pairs of codes and codes are added, and a
// row replaces every row that names one of its paths, but keeps their role. What an applyOverlay adds to the operations says
// new: true, so that a misspelled name cannot be taken for it.
func (s *source) applyOverlay(over *yaml.Node) {
	if s.root.Kind != yaml.MappingNode {
		return // reading the table says so
	}
	forms := s.formNames()
	if common := child(over, "common"); common != nil { // first: rows of operations may replace them
		s.applyCommon(common, forms)
	}
	var callbacks *yaml.Node
	s.fields(over, "an overlay", func(key, value *yaml.Node) {
		switch key.Value {
		case "operations", "callbacks":
			if child(s.root, key.Value) == nil {
				set(s.root, key, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: value.Line, Column: value.Column}, false)
			}
			if key.Value == "callbacks" {
				callbacks = value // last: they borrow rows of the operations
				return
			}
			s.applyOperations(key.Value, value, forms)
		case "catalogue":
			s.applyCatalogue(sequence(s.root, key), value)
		case "common":
		case "codes":
			s.applyRows(sequence(s.root, key), value, forms, nil, "")
		default:
			set(s.root, key, value, key.Value == "options" || key.Value == "forms" || key.Value == "unknown" || key.Value == "success" || key.Value == "roles")
		}
	})
	if callbacks != nil {
		s.applyOperations("callbacks", callbacks, forms)
	}
}

// applyCatalogue adds codes. A code of one form replaces the same code of that form. The meaning of a code of the catalogue
// stays: it is what the interface says.
func (s *source) applyCatalogue(catalogue, over *yaml.Node) {
	s.items(over, "catalogue", func(item *yaml.Node) {
		at := slices.IndexFunc(catalogue.Content, func(known *yaml.Node) bool { return sameCode(known, item) })
		switch {
		case at < 0:
			catalogue.Content = append(catalogue.Content, item)
		case child(item, "form") != nil:
			catalogue.Content[at] = item
		case child(item, "means") != nil && !sameText(child(item, "means"), child(catalogue.Content[at], "means")):
			s.errorf(item, "%s has its meaning from the table, which an overlay does not change; say form: if it says more in one form", codeOf(item).Value)
		}
	})
}

func sameText(a, b *yaml.Node) bool { return a != nil && b != nil && a.Value == b.Value }

func (s *source) applyOperations(section string, over *yaml.Node, forms []string) {
	operations := child(s.root, section)
	s.fields(over, section, func(name, op *yaml.Node) {
		base, added := child(operations, name.Value), s.takeNew(op, forms)
		what := strings.TrimSuffix(section, "s")
		switch {
		case base == nil && (added || slices.Contains(forms, newKey)):
			for _, m := range []string{"request", "reply"} {
				if rows := child(op, m); rows != nil && rows.Kind == yaml.SequenceNode {
					s.expandCommon(rows)
					for _, row := range rows.Content {
						s.takeNew(row, forms) // as all of the operation is
					}
				}
			}
			set(operations, name, op, false)
			return
		case base == nil:
			s.missingNew = append(s.missingNew, s.problem(name, "new %s %s%s (say new: true if it is meant)", what, name.Value, DidYouMean(name.Value, keys(operations))))
			return
		case added:
			s.errorf(name, "new: true, but the table has the %s %s", what, name.Value)
			return
		}
		s.fields(op, "an operation", func(key, value *yaml.Node) {
			switch key.Value {
			case "request", "reply":
				s.expandCommon(value)
				borrowed := s.reusedRows(op)
				if borrowed == nil {
					borrowed = s.reusedRows(base)
				}
				s.applyRows(sequence(base, key), value, forms, borrowed, name.Value+" "+key.Value)
			default:
				set(base, key, value, key.Value == "answer" || key.Value == "under")
			}
		})
	})
}

// reusedRows is the list of rows that the fields of a callback borrow, nil where it has none.
func (s *source) reusedRows(callback *yaml.Node) *yaml.Node {
	fields := child(callback, "fields")
	if fields == nil {
		return nil
	}
	if reply := child(child(child(s.root, "operations"), fields.Value), "reply"); reply != nil {
		return reply
	}
	return &yaml.Node{Kind: yaml.SequenceNode} // of an operation that is not there
}

// applyRows lays rows (fields, or pairs of codes) over the list base. Where the rows of base are themselves to be
// laid over borrowed ones, what a row takes away it takes away from those, too. message names the rows' message in errors;
// it is "" for pairs, which may all be new.
func (s *source) applyRows(base, over *yaml.Node, forms []string, borrowed *yaml.Node, message string) {
	known := slices.Clone(base.Content)
	if borrowed != nil {
		known = append(known, borrowed.Content...)
	}
	if message != "" && over.Kind == yaml.SequenceNode {
		for _, row := range over.Content {
			s.checkNew(row, known, forms, message)
		}
	}
	// Rows that are laid over together do not replace each other: exchanging two fields takes two rows that name each
	// other's paths.
	companions := func(b, _ *yaml.Node) bool { return slices.Contains(over.Content, b) }
	for _, row := range s.replaceRows(base, over, forms, borrowed != nil, companions) {
		if borrowed == nil || !slices.ContainsFunc(borrowed.Content, func(b *yaml.Node) bool { return samePath(b, row, forms) }) {
			near, _ := s.nearPath(row, known, forms)
			s.errorf(row, "remove: no row names this path%s", near)
		}
	}
}

// checkNew refuses a row none of whose paths the known rows name, and a path that is spelled almost like one of theirs, unless
// the row says that it is new: a misspelled name would add a field that nobody sends, and the one that was meant would be
// dropped. A field may have another name in one form without a word.
func (s *source) checkNew(row *yaml.Node, known []*yaml.Node, forms []string, message string) {
	if s.takeNew(row, forms) || child(row, "remove") != nil || slices.Contains(forms, newKey) {
		return
	}
	meets := slices.ContainsFunc(known, func(k *yaml.Node) bool { return samePath(k, row, forms) })
	for _, form := range forms {
		path, own := child(row, form), []string{form}
		if path == nil || path.Kind != yaml.ScalarNode || path.Value == "" || slices.ContainsFunc(known, func(k *yaml.Node) bool { return samePath(k, row, own) }) {
			continue
		}
		if near, some := s.nearPath(row, known, own); some || !meets {
			s.missingNew = append(s.missingNew, s.problem(path, "new path %s %s%s (say new: true if it is meant)", message, path.Value, near))
			meets = true // one path without a likeness is enough to find the row
		}
	}
}

// nearPath is DidYouMean for the paths of a row, and whether any known path is near: several may be as near as each other.
func (s *source) nearPath(row *yaml.Node, known []*yaml.Node, forms []string) (near string, some bool) {
	for _, form := range forms {
		path := child(row, form)
		if path == nil {
			continue
		}
		var paths []string
		for _, k := range known {
			if p := child(k, form); p != nil {
				paths = append(paths, p.Value)
			}
		}
		nearest, found := nearest(path.Value, paths)
		if near, some = didYouMean(nearest), some || found; near != "" {
			return near, true
		}
	}
	return "", some
}

// newKey is the key by which an overlay says that it adds a row or an operation. A table with a form of this name has no
// such mark, and all that its overlays add is taken for meant.
const newKey = "new"

// takeNew takes the mark from a row or an operation and tells whether it was there.
func (s *source) takeNew(n *yaml.Node, forms []string) bool {
	mark := child(n, newKey)
	if mark == nil || slices.Contains(forms, newKey) {
		return false
	}
	i := slices.Index(n.Content, mark)
	n.Content = slices.Delete(n.Content, i-1, i+1)
	return s.boolean(mark, newKey)
}

// replaceRows lays the rows of over on those of base. All rows that one of them meets are taken away; it stands where the
// first of them stood, or at the end. With keep, what removes stands there, too: the row that says so, and one for
// each path that went with a row. idle are the rows that were to remove and met none.
func (s *source) replaceRows(base, over *yaml.Node, forms []string, keep bool, companions func(b, row *yaml.Node) bool) (unused []*yaml.Node) {
	s.inherit(base, over, forms)
	s.items(over, "rows", func(row *yaml.Node) {
		if row.Kind != yaml.MappingNode {
			s.errorf(row, "a row must be a mapping")
			return
		}
		remove := child(row, "remove")
		gone := remove != nil && s.boolean(remove, "remove")
		kept, at := make([]*yaml.Node, 0, len(base.Content)+1), -1
		for _, b := range base.Content {
			if companions(b, row) || !samePath(b, row, forms) {
				kept = append(kept, b)
				continue
			}
			if at < 0 {
				at = len(kept)
				if !gone || keep {
					kept = append(kept, row)
				}
			}
			if keep {
				kept = append(kept, s.removalRows(b, row, forms)...)
			}
		}
		if at < 0 && gone {
			unused = append(unused, row)
		}
		if at < 0 && (!gone || keep) {
			kept = append(kept, row)
		}
		base.Content = kept
	})
	return unused
}

// inherit gives each row what it does not say itself of the row whose path it has: about, role, means and empty. How a field is
// written does not change what it is to the gateway, which would otherwise route a bill as none and compare money as a word.
// A path of the first form counts more, and a role that another row of them names is that row's.
func (s *source) inherit(base, over *yaml.Node, forms []string) {
	given := map[string]bool{}
	for _, row := range over.Content {
		if role := child(row, "role"); role != nil && !s.allowsMany(role.Value) {
			given[role.Value] = true
		}
	}
	known := map[*yaml.Node]bool{} // rows over base whose path of a form before names one there, and these
	for _, form := range forms {
		met := map[*yaml.Node]bool{}
		for _, row := range over.Content {
			path := child(row, form)
			if path == nil || known[row] || child(row, "remove") != nil {
				continue
			}
			for _, b := range base.Content {
				if at := child(b, form); at == nil || at.Value != path.Value || known[b] {
					continue
				}
				met[row], met[b] = true, true
				inheritKey(row, b, "about")
				if role := child(b, "role"); role != nil && !given[role.Value] {
					inheritKey(row, b, "role")
				}
				if sameText(child(row, "role"), child(b, "role")) {
					inheritKey(row, b, "means")
				}
				// A date that was 0 or "" for a bill without a payment still is.
				if as := child(row, "as"); as != nil && as.Value == "digits" && child(row, "values") == nil {
					inheritKey(row, b, "empty")
				}
			}
		}
		maps.Copy(known, met)
	}
}

// inheritKey gives row a word of b that row does not have.
func inheritKey(row, b *yaml.Node, word string) {
	if value := child(b, word); value != nil && child(row, word) == nil {
		row.Content = append(row.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: word, Line: row.Line, Column: row.Column}, value)
	}
}

// allowsMany tells whether the table declares that several rows of a reply may have a role.
func (s *source) allowsMany(role string) bool {
	many := child(child(child(s.root, "roles"), role), "many")
	return many != nil && many.Value == "true"
}

// removalRows are rows that remove the paths of b that row does not name.
func (s *source) removalRows(b, row *yaml.Node, forms []string) []*yaml.Node {
	var list []*yaml.Node
	for _, form := range forms {
		path, own := child(b, form), child(row, form)
		if path == nil || own != nil && own.Value == path.Value {
			continue
		}
		word := func(tag, value string) *yaml.Node {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value, Line: row.Line, Column: row.Column}
		}
		removal := word("!!map", "")
		removal.Kind, removal.Style = yaml.MappingNode, yaml.FlowStyle
		removal.Content = []*yaml.Node{word("!!str", form), path, word("!!str", "remove"), word("!!bool", "true")}
		s.overlayOf[removal] = s.overlayOf[row]
		list = append(list, removal)
	}
	return list
}

func samePath(a, b *yaml.Node, forms []string) bool {
	for _, form := range forms {
		pa, pb := child(a, form), child(b, form)
		if pa != nil && pb != nil && pa.Value == pb.Value {
			return true
		}
	}
	return false
}

// keys are the keys of a mapping.
func keys(n *yaml.Node) (names []string) {
	for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		names = append(names, n.Content[i].Value)
	}
	return names
}

func (s *source) formNames() []string {
	var names []string
	if forms := child(s.root, "forms"); forms != nil {
		for i := 0; i+1 < len(forms.Content); i += 2 {
			names = append(names, forms.Content[i].Value)
		}
	}
	return names
}

// sequence is the list under key of n, made where there is none.
func sequence(n, key *yaml.Node) *yaml.Node {
	if list := child(n, key.Value); list != nil {
		return list
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	n.Content = append(n.Content, key, list)
	return list
}

// set puts value under key of n. With merge, mappings on both backends are merged key by key.
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
