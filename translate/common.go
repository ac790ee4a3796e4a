package translate

import (
	"slices"

	"go.yaml.in/yaml/v4"
)

// expandCommon replaces each row {common: NAME} of a list by copies of the common rows of that name. message is the list of the
// message that gets them: list itself, or the one that list is applied to.
func (s *source) expandCommon(list, message *yaml.Node) {
	if list.Kind != yaml.SequenceNode {
		return // reported when the message is read
	}
	var rows []*yaml.Node
	common := child(s.root, "common")
	for _, row := range list.Content {
		name := child(row, "common")
		if name == nil {
			rows = append(rows, row)
			continue
		}
		if len(row.Content) > 2 {
			s.errorf(row, "common must be the only key of its row")
		}
		included := child(common, name.Value)
		if included == nil {
			s.errorf(name, "common: the table has no common rows %q%s", name.Value, DidYouMean(name.Value, keys(common)))
			continue
		}
		s.commonIn[name.Value] = append(s.commonIn[name.Value], message)
		for _, row := range included.Content {
			rows = append(rows, s.deepCopy(row))
		}
	}
	list.Content = rows
}

// expandAllCommon expands the common rows in all messages of the base table.
func (s *source) expandAllCommon() {
	if common := child(s.root, "common"); common != nil {
		s.fields(common, "common", func(name, rows *yaml.Node) { s.items(rows, "common "+name.Value, func(*yaml.Node) {}) })
	}
	for _, section := range []string{"operations", "callbacks"} {
		operations := child(s.root, section)
		for _, name := range keys(operations) {
			for _, m := range []Message{Request, Reply} {
				if rows := child(child(operations, name), string(m)); rows != nil {
					s.expandCommon(rows, rows)
				}
			}
		}
	}
}

// applyCommon applies the common rows of an overlay to those of the table, and to each message that includes them.
func (s *source) applyCommon(overlay *yaml.Node, forms []string) {
	common := child(s.root, "common")
	s.fields(overlay, "common", func(name, rows *yaml.Node) {
		known := child(common, name.Value)
		if known == nil {
			if common == nil {
				common = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
				s.root.Content = append(s.root.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "common"}, common)
			}
			set(common, name, rows, false)
			s.items(rows, "common "+name.Value, func(*yaml.Node) {}) // new: true is removed in the messages that include them
			return
		}
		if rows.Kind != yaml.SequenceNode {
			s.errorf(rows, "common %s must be a list", name.Value)
			return
		}
		s.applyRows(known, rows, forms, nil, "common "+name.Value)
		for _, list := range s.commonIn[name.Value] {
			s.changeRows(list, s.deepCopy(rows), forms, "")
		}
	})
}

// removeCommon removes the common rows from the tree, after they were expanded in all messages.
func (s *source) removeCommon() {
	common := child(s.root, "common")
	if common == nil {
		return
	}
	for i := 0; i+1 < len(common.Content); i += 2 {
		if name := common.Content[i]; s.commonIn[name.Value] == nil {
			s.errorf(name, "common: no message includes {common: %s}", name.Value)
		}
	}
	at := slices.Index(s.root.Content, common)
	s.root.Content = slices.Delete(s.root.Content, at-1, at+1)
}

// deepCopy returns a copy of a node and of all nodes in it, from the same file.
func (s *source) deepCopy(n *yaml.Node) *yaml.Node {
	c := *n
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		c.Content[i] = s.deepCopy(child)
	}
	if name, ok := s.overlayOf[n]; ok {
		s.overlayOf[&c] = name
	}
	return &c
}
