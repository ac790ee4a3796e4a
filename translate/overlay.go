package translate

import "go.yaml.in/yaml/v4"

// overlay lays the tree over onto s: words replace words, mappings are merged, pairs of codes are added, and a
// row replaces every row that names one of its paths.
func (s *source) overlay(over *yaml.Node) {
	forms := s.formNames()
	s.fields(over, "an overlay", func(key, value *yaml.Node) {
		switch key.Value {
		case "operations", "callbacks":
			if child(s.root, key.Value) == nil {
				set(s.root, key, value, false)
				return
			}
			s.overlayOperations(key.Value, value, forms)
		case "codes":
			s.overlayRows(sequence(s.root, key), value, forms, false)
		default:
			set(s.root, key, value, key.Value == "options" || key.Value == "forms" || key.Value == "unknown" || key.Value == "success")
		}
	})
}

func (s *source) overlayOperations(section string, over *yaml.Node, forms []string) {
	operations := child(s.root, section)
	s.fields(over, section, func(name, op *yaml.Node) {
		base := child(operations, name.Value)
		if base == nil {
			set(operations, name, op, false)
			return
		}
		s.fields(op, "an operation", func(key, value *yaml.Node) {
			switch key.Value {
			case "request", "reply":
				borrows := child(base, "fields") != nil || child(op, "fields") != nil
				s.overlayRows(sequence(base, key), value, forms, borrows)
			default:
				set(base, key, value, key.Value == "answer" || key.Value == "under")
			}
		})
	})
}

// overlayRows lays rows (fields, or pairs of codes) over the list base. Where the rows of base are themselves to be
// laid over borrowed ones, a row that removes stays, for those.
func (s *source) overlayRows(base, over *yaml.Node, forms []string, borrows bool) {
	// A row of the same overlay is a companion, not a predecessor: exchanging two fields takes two rows that name
	// each other's paths.
	s.lay(base, over, forms, borrows, func(b, row *yaml.Node) bool { return s.overlaid[b] == s.overlaid[row] })
}

// lay lays the rows of over on those of base. All rows that one of them meets are taken away; it stands where the
// first of them stood, or at the end. With keep, one that removes stands there, too.
func (s *source) lay(base, over *yaml.Node, forms []string, keep bool, companions func(b, row *yaml.Node) bool) {
	s.items(over, "rows", func(row *yaml.Node) {
		if row.Kind != yaml.MappingNode {
			s.errorf(row, "a row must be a mapping")
			return
		}
		remove := child(row, "remove")
		gone := remove != nil && s.flag(remove, "remove")
		kept, at := make([]*yaml.Node, 0, len(base.Content)+1), -1
		for _, b := range base.Content {
			if !companions(b, row) && samePath(b, row, forms) {
				if at < 0 {
					at = len(kept)
					if !gone || keep {
						kept = append(kept, row)
					}
				}
				continue
			}
			kept = append(kept, b)
		}
		switch {
		case at < 0 && gone && !keep:
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
