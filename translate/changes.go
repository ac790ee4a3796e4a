package translate

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A RowChange is what an overlay changes in one row of the table.
type RowChange struct {
	File    string   // the overlay
	Line    int      // of the change
	Message string   // such as "bill.read reply"; several with commas between them, if they share the row
	Before  string   // the row before, with its name; "" if it was added
	After   string   // the row now; "" if it was removed
	Lost    []string // keys that keep wrong messages from passing, and values with another meaning now
	Like    string   // of a row that was added: `; did you mean X?` if the message has a row with a similar name
}

// safetyKeys are the keys of a row without which a wrong message passes. RowChange.Lost has those that a row has lost.
var safetyKeys = strings.Fields("as values shift role means lost check required same secret moves")

// allRows returns the rows of each message, and the roles, by name.
func allRows(root *yaml.Node) *yaml.Node {
	all := mappingAt(root, scalar("roles", root), child(root, "roles"))
	for _, section := range []string{"operations", "callbacks"} {
		for name, operation := range Members(child(root, section)) {
			for message, rows := range Members(operation) {
				if isMessage := Message(message.Value) == Request || Message(message.Value) == Reply; isMessage {
					all.Content = append(all.Content, scalar(name.Value+" "+message.Value, name), rows)
				}
			}
		}
	}
	return all
}

// recordChanges records what an overlay has changed in the rows of messages.
func (s *source) recordChanges(over, before, after *yaml.Node) {
	var changes []RowChange
	was, file := allRows(before), s.fileOf(over)
	for message, rows := range Members(allRows(after)) {
		old := child(was, message.Value)
		known := append(names(rows), names(old)...)
		for i, name := range known {
			b, a := child(old, name), child(rows, name)
			if slices.Index(known, name) < i || sameNode(b, a) {
				continue
			}
			// What is new uses the row if the overlay does not name it.
			line := cmp.Or(lineOf(over, name), cmp.Or(rows, over).Line)
			c := RowChange{File: file, Line: line, Message: message.Value}
			if c.Lost = lostKeys(b, a); b == nil {
				c.Like = DidYouMean(name, names(old))
			} else {
				c.Before = name + ": " + showRow(b)
			}
			if a != nil {
				c.After = name + ": " + showRow(a)
				if s.fileOf(a) == file {
					c.Line = a.Line
				}
			}
			shared := func(of RowChange) bool {
				return of.Line == c.Line && of.Before == c.Before && of.After == c.After
			}
			if at := slices.IndexFunc(changes, shared); at >= 0 {
				changes[at].Message += ", " + c.Message
			} else {
				changes = append(changes, c)
			}
		}
	}
	slices.SortStableFunc(changes, func(a, b RowChange) int { return a.Line - b.Line })
	s.changes = append(s.changes, changes...)
}

// lostKeys returns the safety keys of a row that it has lost, and the values with a meaning that have lost it.
func lostKeys(before, after *yaml.Node) (lost []string) {
	for _, key := range safetyKeys {
		was, is := child(before, key), child(after, key)
		if was != nil && was.Value != "false" && (is == nil || (key == "role" || key == "same") && !sameNode(was, is)) {
			lost = append(lost, key)
		}
	}
	for value, means := range Members(child(before, "means")) {
		if now := child(after, "means"); now != nil && !sameNode(child(now, value.Value), means) {
			lost = append(lost, "means of "+value.Value)
		}
	}
	return lost
}

// lineOf returns the line of the first text in a tree; 0 for none.
func lineOf(n *yaml.Node, text string) (line int) {
	if n.Value == text {
		return n.Line
	}
	for _, child := range n.Content {
		line = cmp.Or(line, lineOf(child, text))
	}
	return line
}
