package translate

import "go.yaml.in/yaml/v4"

// overlay lays the tree over onto s: words replace words, mappings are merged, pairs of codes are added, and a
// row replaces every row that names one of its paths.
func (s *source) overlay(over *yaml.Node) {
	forms := s.formNames()
	s.fields(over, "an overlay", func(key, value *yaml.Node) {
		switch key.Value {
		case "operations":
			if child(s.root, key.Value) == nil {
				set(s.root, key, value, false)
				return
			}
			s.overlayOperations(value, forms)
		case "codes":
			s.overlayRows(sequence(s.root, key), value, forms)
		default:
			set(s.root, key, value, key.Value == "options" || key.Value == "forms" || key.Value == "unknown" || key.Value == "success")
		}
	})
}

func (s *source) overlayOperations(over *yaml.Node, forms []string) {
	operations := child(s.root, "operations")
	s.fields(over, "operations", func(name, op *yaml.Node) {
		base := child(operations, name.Value)
		if base == nil {
			set(operations, name, op, false)
			return
		}
		s.fields(op, "an operation", func(key, value *yaml.Node) {
			if key.Value == "request" || key.Value == "reply" {
				s.overlayRows(sequence(base, key), value, forms)
				return
			}
			set(base, key, value, false)
		})
	})
}

// overlayRows lays rows (fields, or pairs of codes) over the list base. All rows that an overlay's row meets
// are taken away; it stands where the first of them stood, or at the end.
func (s *source) overlayRows(base, over *yaml.Node, forms []string) {
	s.items(over, "rows", func(row *yaml.Node) {
		if row.Kind != yaml.MappingNode {
			s.errorf(row, "a row must be a mapping")
			return
		}
		remove := child(row, "remove")
		gone := remove != nil && s.flag(remove, "remove")
		kept, at := make([]*yaml.Node, 0, len(base.Content)+1), -1
		for _, b := range base.Content {
			// A row of the same overlay is a companion, not a predecessor: exchanging two fields takes two rows
			// that name each other's paths.
			if s.overlaid[b] != s.overlaid[row] && samePath(b, row, forms) {
				if at < 0 {
					at = len(kept)
					if !gone {
						kept = append(kept, row)
					}
				}
				continue
			}
			kept = append(kept, b)
		}
		switch {
		case at < 0 && gone:
			s.errorf(row, "remove: no row names this path")
		case at < 0:
			kept = append(kept, row)
		}
		base.Content = kept
	})
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

// set puts value under key of n. With merge, mappings on both sides are merged key by key.
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
