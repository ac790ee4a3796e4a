package translate

import "go.yaml.in/yaml/v4"

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
			s.errorf(name, "common: the table has no common rows %q%s", name.Value, DidYouMean(name.Value, names(common)))
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
		for name, rows := range s.members(common, "common") {
			s.items(rows, "common "+name.Value)
		}
	}
	for _, section := range []string{"operations", "callbacks"} {
		operations := child(s.root, section)
		for _, name := range names(operations) {
			for _, m := range []Message{Request, Reply} {
				if rows := child(child(operations, name), string(m)); rows != nil {
					s.expandCommon(rows, rows)
				}
			}
		}
	}
}

// applyCommon applies the common rows of an overlay to those of the table, and to each message that includes them.
func (s *source) applyCommon(overlay *yaml.Node) {
	common := child(s.root, "common")
	for name, rows := range s.members(overlay, "common") {
		known := child(common, name.Value)
		if known == nil {
			if common == nil {
				common = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
				set(s.root, scalar("common", overlay), common)
			}
			set(common, name, rows)
			s.items(rows, "common "+name.Value) // new: true is removed in the messages that include them
			continue
		}
		if rows.Kind != yaml.SequenceNode {
			s.errorf(rows, "common %s must be a list", name.Value)
			continue
		}
		s.applyRows(known, rows, nil, "common "+name.Value)
		for _, list := range s.commonIn[name.Value] {
			s.changeRows(list, s.deepCopy(rows), "")
		}
	}
}

// removeCommon removes the common rows from the tree, after they were expanded in all messages.
func (s *source) removeCommon() {
	for name := range members(remove(s.root, "common")) {
		if s.commonIn[name.Value] == nil {
			s.errorf(name, "common: no message includes {common: %s}", name.Value)
		}
	}
}

// deepCopy returns a copy of a node and of all nodes in it, from the same file.
func (s *source) deepCopy(n *yaml.Node) *yaml.Node {
	c := s.copyOf(n)
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		c.Content[i] = s.deepCopy(child)
	}
	return c
}
