package translate

import "go.yaml.in/yaml/v4"

// A list of rows can include others: {common: NAME} stands for common rows, and the rows of a callback with fields:
// OPERATION begin with those of a reply. Lists are expanded as soon as they are read. applyRows passes what an
// overlay changes in a list on to the lists that include it.

// expandAll expands the lists of the base table.
func (s *source) expandAll() {
	for name, rows := range s.members(child(s.root, "common"), "common") {
		s.items(rows, "common "+name.Value)
	}
	for _, section := range []string{"operations", "callbacks"} {
		for name, operation := range members(child(s.root, section)) {
			s.expand(name, operation)
		}
	}
}

// expand expands the lists of an operation or a callback.
func (s *source) expand(name, operation *yaml.Node) {
	for _, m := range []string{"request", "reply"} {
		list := child(operation, m)
		if list == nil || list.Kind != yaml.SequenceNode {
			continue // reported when the message is read
		}
		s.include(list, list)
		for _, row := range list.Content {
			if s.overlayOf[row] != "" { // rows of a new operation are new too
				s.takeNew(row)
			}
		}
	}
	s.reuse(name, operation)
}

// include replaces each row {common: NAME} of a list by the common rows of that name. message is the list of the
// message that gets them: list itself, or the one that list is applied to.
func (s *source) include(list, message *yaml.Node) {
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
			hint := DidYouMean(name.Value, names(common))
			s.errorf(name, "common: the table has no common rows %q%s", name.Value, hint)
			continue
		}
		s.includedIn[included] = append(s.includedIn[included], message)
		rows = append(rows, s.copyRows(included, s.copyOf).Content...)
	}
	list.Content = rows
}

// copyRows returns a copy of a list with copies of its rows.
func (s *source) copyRows(list *yaml.Node, copyRow func(*yaml.Node) *yaml.Node) *yaml.Node {
	c := s.copyOf(list)
	c.Content = nil
	for _, row := range list.Content {
		c.Content = append(c.Content, copyRow(row))
	}
	return c
}

// reuse puts the rows of a reply in front of the rows of a callback, if it has fields: OPERATION. The callback's own
// rows, and those of overlays, change them.
func (s *source) reuse(name, callback *yaml.Node) {
	key, fields := find(callback, "fields")
	if fields == nil || s.str(fields, "fields") == "" {
		return
	}
	operations := child(s.root, "operations")
	reply := child(child(operations, fields.Value), "reply")
	if reply == nil {
		hint := DidYouMean(fields.Value, names(operations))
		s.errorf(fields, "fields: the table has no operation %q%s", fields.Value, hint)
		return
	}
	request := child(callback, "request")
	own := s.own[request]
	if s.reuses[request] == nil && request != nil {
		own = append([]*yaml.Node{request}, own...)
	}
	delete(s.reuses, request)
	list := s.copyOf(reply)
	set(callback, scalar("request", key), list)
	s.own[list], s.reuses[list] = own, reply
	s.rebuild(list, name.Value+" request")
}

// rebuild makes the rows of a callback anew from those of the reply.
func (s *source) rebuild(list *yaml.Node, message string) {
	list.Content = s.copyRows(s.reuses[list], s.reusedRow).Content
	for _, rows := range s.own[list] {
		s.applyRows(list, rows, message)
	}
}

// reusedRow returns a copy of a row of a reply without the keys that a callback cannot have. echo becomes loss: drop.
func (s *source) reusedRow(n *yaml.Node) *yaml.Node {
	row := s.copyOf(n)
	row.Content = nil
	for key, value := range members(n) {
		switch key.Value {
		case "must_equal_request", "repeats_request", "role", "means", "exact":
			continue
		case "echo":
			key, value = scalar("loss", key), scalar("drop", value)
		}
		row.Content = append(row.Content, key, value)
	}
	return row
}

// passOn applies rows that have changed a list to the lists that include it.
func (s *source) passOn(list, rows *yaml.Node) {
	for _, message := range s.includedIn[list] {
		s.applyRows(message, s.copyRows(rows, s.copyOf), "")
	}
	for message, reply := range s.reuses {
		if reply == list {
			s.rebuild(message, "")
		}
	}
}

// applyCommon applies the common rows of an overlay to those of the table.
func (s *source) applyCommon(overlay *yaml.Node) {
	key, section := find(overlay, "common")
	for name, rows := range s.members(section, "common") {
		known := child(child(s.root, "common"), name.Value)
		switch {
		case known == nil:
			s.items(rows, "common "+name.Value) // new: true is removed in the messages that include them
			added := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{name, rows}}
			set(s.root, key, added)
		case rows.Kind != yaml.SequenceNode:
			s.errorf(rows, "common %s must be a list", name.Value)
		default:
			s.applyRows(known, rows, "common "+name.Value)
		}
	}
}

// removeCommon removes the common rows from the tree.
func (s *source) removeCommon() {
	for name, rows := range members(remove(s.root, "common")) {
		if s.includedIn[rows] == nil {
			s.errorf(name, "common: no message includes {common: %s}", name.Value)
		}
	}
}

// scalar returns a text with the position of another node.
func scalar(text string, at *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: at.Line, Column: at.Column}
}
