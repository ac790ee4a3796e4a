package translate

import (
	"slices"

	"go.yaml.in/yaml/v4"
)

// expandCommon replaces each row {common: NAME} of a message by copies of the rows that the table has in common under that name.
func (s *source) expandCommon(list *yaml.Node) {
	if list.Kind != yaml.SequenceNode {
		return // reading the message says so
	}
	var rows []*yaml.Node
	known := child(s.root, "common")
	for _, row := range list.Content {
		name := child(row, "common")
		if name == nil {
			rows = append(rows, row)
			continue
		}
		if len(row.Content) > 2 {
			s.errorf(row, "common: stands alone in a row")
		}
		common := child(known, name.Value)
		if common == nil {
			s.errorf(name, "common: there is no %q%s", name.Value, DidYouMean(name.Value, keys(known)))
			continue
		}
		s.commonIn[name.Value] = append(s.commonIn[name.Value], list)
		for _, row := range common.Content {
			rows = append(rows, s.deepCopy(row))
		}
	}
	list.Content = rows
}

// expandAllCommon includes the common rows of the base table.
func (s *source) expandAllCommon() {
	if common := child(s.root, "common"); common != nil {
		s.fields(common, "common", func(name, rows *yaml.Node) { s.items(rows, "common "+name.Value, func(*yaml.Node) {}) })
	}
	for _, section := range []string{"operations", "callbacks"} {
		operations := child(s.root, section)
		for _, name := range keys(operations) {
			for _, m := range []Message{Request, Reply} {
				if rows := child(child(operations, name), string(m)); rows != nil {
					s.expandCommon(rows)
				}
			}
		}
	}
}

// applyCommon lays rows over those that the table has in common, and over each message that has these.
func (s *source) applyCommon(over *yaml.Node, forms []string) {
	known := child(s.root, "common")
	s.fields(over, "common", func(name, rows *yaml.Node) {
		common := child(known, name.Value)
		if common == nil {
			if known == nil {
				known = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
				s.root.Content = append(s.root.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "common"}, known)
			}
			set(known, name, rows, false)
			s.items(rows, "common "+name.Value, func(*yaml.Node) {}) // rows keep new: true until a message has them
			return
		}
		if rows.Kind != yaml.SequenceNode {
			s.errorf(rows, "common %s must be a list", name.Value)
			return
		}
		copies := make([]*yaml.Node, len(s.commonIn[name.Value]))
		s.applyRows(common, rows, forms, nil, "common "+name.Value)
		for i, list := range s.commonIn[name.Value] {
			copies[i] = s.deepCopy(rows)
			s.replaceRows(list, copies[i], forms, false, func(b, _ *yaml.Node) bool { return slices.Contains(copies[i].Content, b) })
		}
	})
}

// removeCommon takes the common rows out of the tree, now that they stand in every message that has them. Rows that no message
// has would never be read.
func (s *source) removeCommon() {
	common := child(s.root, "common")
	if common == nil {
		return
	}
	for i := 0; i+1 < len(common.Content); i += 2 {
		if name := common.Content[i]; s.commonIn[name.Value] == nil {
			s.errorf(name, "common: no message has {common: %s}", name.Value)
		}
	}
	at := slices.Index(s.root.Content, common)
	s.root.Content = slices.Delete(s.root.Content, at-1, at+1)
}

// deepCopy is a deep deepCopy of a node, from the same file.
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
