package translate

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A RowChange is what an overlay changes in one row of the table.
type RowChange struct {
	File    string   // the overlay
	Line    int      // of its row
	Message string   // such as "bill.read reply"
	Before  string   // the row before; "" if it was added. Several rows, if one row replaces them, have a line each
	After   string   // the row with the keys that it keeps; "" if it was removed
	Lost    []string // what keeps wrong messages from passing: keys, and values with a meaning that they do not have now
}

// Changes returns what the overlays change in the rows of the table, in their order. The caller must not modify it.
func (t *Table) Changes() []RowChange { return t.changes }

// safetyKeys are the keys of a row without which a wrong message passes. RowChange.Lost has those that a row has lost.
var safetyKeys = strings.Fields("must_equal_request as values pattern shift role means loss " + boundKeys)

// codesMessage stands for the pairs of codes. A pair replaces those with one of its codes as a whole.
const codesMessage = "codes"

// replacesKey is the key by which a row of an overlay says which rows it changes: those with its path in this form.
const replacesKey = "replaces"

// applyRows applies the rows of an overlay to the list base of a message. A row changes the row of base with one of
// its paths, in its place: it keeps every key that the new row does not have, and loses those that are null. Without
// such a row it is added at the end.
//
// Rows of an overlay do not change each other, so that two rows can exchange paths. message is "" for rows that were
// already applied to the common rows that the message includes.
func (s *source) applyRows(base, overlay *yaml.Node, message string) {
	list := newRowList(base.Content, s.forms)
	for _, row := range s.items(overlay, "rows") {
		if row.Kind != yaml.MappingNode {
			s.errorf(row, "a row must be a mapping")
			continue
		}
		if s.overlayOf[row] != "" && message != "" && message != codesMessage {
			s.checkNew(row, list, message)
		}
		slots := list.find(s.matchedPaths(row))
		var before []*yaml.Node
		for _, slot := range slots {
			before = append(before, base.Content[slot])
		}
		after := row
		switch remove := child(row, "remove"); {
		case remove != nil && s.boolean(remove, "remove"):
			if after = nil; len(before) == 0 && message != "" {
				hint, _ := list.similarPath(row, s.forms)
				s.errorf(row, "remove: no row has this path%s", hint)
			}
		case len(before) == 0 || message == codesMessage:
		case len(before) > 1 && child(row, replacesKey) == nil:
			s.errorf(row, "the row has a path of %d rows, on %s: write replaces: %s to say which it changes",
				len(before), linesOf(before), strings.Join(s.forms, " or replaces: "))
			continue
		default:
			after = s.changedRow(row, before, message)
		}
		list.replace(slots, after)
		s.recordChange(message, row, before, after)
	}
	base.Content = slices.DeleteFunc(list.rows, func(row *yaml.Node) bool { return row == nil })
	for _, including := range s.includedIn[base] {
		s.applyRows(including, overlay, "")
	}
}

// checkNew adds a problem for a row without new: true if no known row has one of its paths. A misspelled path would add
// a field that nobody sends, or rename one, and the field that was meant would be dropped.
func (s *source) checkNew(row *yaml.Node, known *rowList, message string) {
	if s.takeNew(row) || child(row, "remove") != nil || slices.Contains(s.forms, newKey) {
		return
	}
	reported := false // one problem per row is enough, unless the other path is similar to a known one
	for _, key := range pathKeys(row, s.forms) {
		hint, similar := known.similarPath(row, []string{key.form})
		if key.path == "" || len(known.at[key]) > 0 || reported && !similar {
			continue
		}
		at := child(row, key.form)
		s.missingNew = append(s.missingNew, s.problem(at, "%s has no path %s%s", message, key.path, addHint(hint)))
		reported = true
	}
}

// matchedPaths returns the paths by which a row of an overlay finds the rows that it changes.
func (s *source) matchedPaths(row *yaml.Node) []pathKey {
	form := child(row, replacesKey)
	if form == nil {
		return pathKeys(row, s.forms)
	}
	paths := pathKeys(row, []string{oneOf(s, form, replacesKey, s.forms...)})
	if len(paths) == 0 && slices.Contains(s.forms, form.Value) {
		s.errorf(form, "replaces: the row has no path in %s", form.Value)
	}
	return paths
}

// changedRow returns row with the keys that it does not have and that all rows before have with the same value.
func (s *source) changedRow(row *yaml.Node, before []*yaml.Node, message string) *yaml.Node {
	after := s.copyOf(row)
	after.Content = nil
	add := func(key, value *yaml.Node) {
		if value.Tag != "!!null" && key.Value != replacesKey {
			after.Content = append(after.Content, key, value)
		}
	}
	for key, value := range Members(row) {
		has := func(b *yaml.Node) bool { return child(b, key.Value) != nil }
		if value.Tag == "!!null" && message != "" && !slices.ContainsFunc(before, has) {
			s.errorf(key, "%s: null removes a key, but the row on %s has no %[1]s", key.Value, linesOf(before))
		}
		add(key, value)
	}
	for key, value := range Members(before[0]) {
		differs := func(b *yaml.Node) bool { return !sameNode(child(b, key.Value), value) }
		if child(row, key.Value) == nil && !slices.ContainsFunc(before, differs) {
			add(key, value)
		}
	}
	return after
}

// recordChange records what a row of an overlay changes. The rows of a callback in the base table change those that
// it reuses, and are not recorded.
func (s *source) recordChange(message string, row *yaml.Node, before []*yaml.Node, after *yaml.Node) {
	file, ofOverlay := s.overlayOf[row]
	if !ofOverlay || message == "" {
		return
	}
	change := RowChange{File: file, Line: row.Line, Message: message}
	var lines []string
	for _, b := range before {
		lines = append(lines, showRow(b))
		for _, key := range safetyKeys {
			if child(b, key) != nil && child(after, key) == nil && !slices.Contains(change.Lost, key) {
				change.Lost = append(change.Lost, key)
			}
		}
		for value, means := range Members(child(b, "means")) {
			if now := child(after, "means"); now != nil && !sameNode(child(now, value.Value), means) {
				change.Lost = append(change.Lost, "means of "+value.Value)
			}
		}
	}
	change.Before = strings.Join(lines, "\n")
	if after != nil {
		change.After = showRow(after)
	}
	s.changes = append(s.changes, change)
}

// linesOf returns the lines of rows, for an error.
func linesOf(rows []*yaml.Node) string {
	var lines []string
	for _, row := range rows {
		lines = append(lines, strconv.Itoa(row.Line))
	}
	return "line " + strings.Join(lines, " and line ")
}
