package translate

import "go.yaml.in/yaml/v4"

// A list of rows can include others: {common: NAME} stands for common rows. Lists are expanded as soon as they are
// read. applyRows passes what an overlay changes in common rows on to the lists that include them. The rows of a
// callback, which can begin with those of a reply, are put together when all overlays have been applied.

// expandAll expands the lists of the base table.
func (s *source) expandAll() {
	for name, rows := range s.members(child(s.root, "common"), "common") {
		s.items(rows, "common "+name.Value)
	}
	for _, section := range []string{"operations", "callbacks"} {
		for name, operation := range Members(child(s.root, section)) {
			s.expand(section, name, operation)
		}
	}
}

// expand expands the lists of an operation, or takes the rows of a callback.
func (s *source) expand(section string, name, operation *yaml.Node) {
	if section == "callbacks" {
		if rows := remove(operation, "request"); rows != nil {
			s.layers[name.Value] = []*yaml.Node{rows}
		}
		return
	}
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
		rows = append(rows, included.Content...)
	}
	list.Content = rows
}

// putTogether makes the rows of each callback: those of a reply, if it has fields: OPERATION, changed by its own rows
// and by those of overlays.
func (s *source) putTogether() {
	for name, callback := range Members(child(s.root, "callbacks")) {
		layers, fields := s.layers[name.Value], child(callback, "fields")
		list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: name.Line, Column: name.Column}
		if fields == nil && layers == nil {
			continue // reported when the callback is read
		}
		if fields != nil {
			operations, operation := child(s.root, "operations"), s.str(fields, "fields")
			reply := child(child(operations, operation), "reply")
			if reply == nil && operation != "" {
				hint := DidYouMean(operation, names(operations))
				s.errorf(fields, "fields: the table has no operation %q%s", operation, hint)
			}
			if reply == nil {
				continue
			}
			for _, row := range reply.Content {
				list.Content = append(list.Content, s.reusedRow(row))
			}
		}
		for _, rows := range layers {
			s.include(rows, list)
			s.applyRows(list, rows, name.Value+" request")
		}
		if s.together[callback] = list; fields != nil && len(layers) < 2 { // a written table still reuses the rows
			if list = nil; layers != nil {
				list = layers[0]
			}
		} else {
			remove(callback, "fields")
		}
		if list != nil {
			set(callback, scalar("request", name), list)
		}
	}
}

// reusedRow returns a copy of a row of a reply without the keys that a callback cannot have. echo becomes loss: drop.
func (s *source) reusedRow(n *yaml.Node) *yaml.Node {
	row := s.copyOf(n)
	row.Content = nil
	for key, value := range Members(n) {
		switch key.Value {
		case "must_equal_request", "repeats_request", "role", "means", "exact", "no_value_while":
			continue
		case "each":
			items := s.copyOf(value)
			for i, item := range items.Content {
				if i == 0 {
					items.Content = nil
				}
				if item.Kind == yaml.MappingNode {
					item = s.reusedRow(item)
				}
				items.Content = append(items.Content, item)
			}
			value = items
		case "echo":
			key, value = scalar("loss", key), scalar("drop", value)
		}
		row.Content = append(row.Content, key, value)
	}
	return row
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
		default:
			s.applyRows(known, rows, "common "+name.Value)
		}
	}
}

// removeCommon removes the common rows from the tree.
func (s *source) removeCommon() {
	for name, rows := range Members(remove(s.root, "common")) {
		if s.includedIn[rows] == nil {
			s.errorf(name, "common: no message includes {common: %s}", name.Value)
		}
	}
}

// scalar returns a text with the position of another node.
func scalar(text string, at *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: at.Line, Column: at.Column}
}
