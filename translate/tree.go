package translate

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A table is read from one tree: that of its file, with each overlay merged into it by path.

// load parses the table, merges the overlays into it and reads the result.
func load(t *Table) (*source, Problems) {
	s := &source{
		table: t, overlayOf: map[*yaml.Node]string{}, keys: map[reflect.Type][]keyOfField{},
		used: map[string]bool{},
	}
	for i, file := range t.files {
		root, err := ParseYAML(file)
		if err != nil {
			return nil, err.(Problems)
		}
		if i == 0 {
			s.file, s.root = file.Name, root
		} else {
			s.setOverlay(root, file.Name)
		}
		for _, form := range names(child(root, "forms")) {
			if !slices.Contains(s.forms, form) {
				s.forms = append(s.forms, form)
			}
		}
		if s.spellOut(root); len(s.problems) > 0 {
			break
		}
		before := s.allRows()
		if s.members(root, "a table"); i == 0 {
			s.merge(&yaml.Node{Kind: yaml.MappingNode}, root, tableLevel, true) // finds what null cannot remove
			continue
		}
		if key, shared := find(root, "shared"); key != nil { // other rows refer to these
			remove(root, key.Value)
			root.Content = slices.Concat([]*yaml.Node{key, shared}, root.Content)
		}
		s.merge(s.root, root, tableLevel, false)
		s.recordChanges(root, before)
	}
	if s.prune(s.root, tableLevel, nil); len(s.problems) == 0 {
		s.readTable()
	}
	// A mistake in shared rows is found in every message that uses them.
	return s, slices.Compact(s.problems.Sorted())
}

// setOverlay records that a node and all nodes in it came from an overlay.
func (s *source) setOverlay(n *yaml.Node, name string) {
	s.overlayOf[n] = name
	for _, child := range n.Content {
		s.setOverlay(child, name)
	}
}

// useKey is the key of a message that names shared rows.
const useKey = "use"

// messageKeys are the keys under which an operation or a callback has its messages.
var messageKeys = []Message{Request, Reply}

// spellOut writes rows and fields that are plain text as mappings, so that all merge alike.
func (s *source) spellOut(root *yaml.Node) {
	for _, rows := range Members(child(root, "shared")) {
		s.spellOutRows(rows, false)
	}
	for _, field := range Members(child(root, "fields")) {
		s.spellOutText(field, "about")
	}
	for _, section := range []string{"operations", "callbacks"} {
		for _, operation := range Members(child(root, section)) {
			for _, m := range messageKeys {
				s.spellOutRows(child(operation, string(m)), true)
			}
		}
	}
}

func (s *source) spellOutRows(rows *yaml.Node, isMessage bool) {
	for name, row := range Members(rows) {
		s.spellOutRows(child(row, "each"), false)
		switch {
		case name.Value == useKey && !isMessage: // rows could use themselves
			s.errorf(name, "use: only a request or a reply can use shared rows, not these rows or the items of a list")
		case name.Value != useKey && len(s.forms) > 1:
			s.spellOutText(row, s.forms[1])
		}
	}
}

// spellOutText writes a text as a mapping with one key.
func (s *source) spellOutText(n *yaml.Node, key string) {
	if n.Kind != yaml.ScalarNode || n.Tag == nullTag {
		return
	}
	text := s.cloneOf(n)
	*n = yaml.Node{
		Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle, Line: text.Line, Column: text.Column,
		Content: []*yaml.Node{scalar(key, text), text},
	}
}

// isPath reports whether a key of a row or of an operation is the name of a form that has a path if nothing is said.
// null says there that it has none.
func (s *source) isPath(l level, key string) bool {
	likeAnother := child(child(child(s.root, "forms"), key), "like") != nil
	return l == rowLevel && key == s.firstForm() || (l == rowLevel || l == operationLevel) && likeAnother
}

// firstForm returns the name of the first form, or "".
func (s *source) firstForm() string { return append(s.forms, "")[0] }

const nullTag = "!!null"

// A level is a place in the tree of a table, which says how an overlay changes what is there.
type level int

const (
	tableLevel      level = iota
	operationsLevel       // an addition has a + before its name, so that a misspelled name is not added
	operationLevel
	sharedLevel
	rowsLevel // like operationsLevel
	rowLevel
	mapLevel   // is merged
	valueLevel // is replaced as a whole
)

// below returns the level of what is under a key.
func (l level) below(key string) level {
	switch {
	case l == tableLevel && (key == "operations" || key == "callbacks"):
		return operationsLevel
	case l == tableLevel && key == "shared":
		return sharedLevel
	case l == operationsLevel:
		return operationLevel
	case l == operationLevel && slices.Contains(messageKeys, Message(key)), l == sharedLevel, l == rowLevel && key == "each":
		return rowsLevel
	case l == rowsLevel && key != useKey:
		return rowLevel
	case l == tableLevel, l == operationLevel, l == mapLevel && key != "flag", l == rowLevel && key == "means":
		return mapLevel
	}
	return valueLevel
}

// merge lays one mapping over another. Mappings are merged, codes are added to their group, and everything else is
// replaced. null removes what is there. It stays in the tree, since it can remove a row that a message gets from shared
// ones. In what is new all names are new.
func (s *source) merge(base, over *yaml.Node, l level, isNew bool) {
	used, index := map[string]*yaml.Node{}, map[string]int{} // without it 100,000 codes of an overlay take minutes
	if l == rowsLevel {
		used = byName(slices.Concat(s.usedRows(base), s.usedRows(over)))
	}
	for i, name := range names(base) {
		index[name] = 2 * i
	}
	put := func(key, value *yaml.Node) {
		at, ok := index[key.Value]
		if !ok {
			at = len(base.Content)
			index[key.Value], base.Content = at, append(base.Content, key, value)
		}
		base.Content[at], base.Content[at+1] = key, value
	}
	for key, value := range Members(over) {
		name, plus := strings.CutPrefix(key.Value, "+")
		named := l == operationsLevel || l == rowsLevel && name != useKey
		if plus = plus && named; plus {
			key.Value, key.Tag = name, "!!str"
		}
		var old *yaml.Node
		if at, ok := index[key.Value]; ok {
			old = base.Content[at+1]
		}
		shared := used[key.Value]
		known := old != nil && old.Tag != nullTag || old == nil && shared != nil
		hint := func() string {
			return s.suggest(key.Value, slices.AppendSeq(names(base), maps.Keys(used)))
		}
		isMerged := value.Kind == yaml.MappingNode && l.below(key.Value) != valueLevel
		switch isNull := value.Tag == nullTag; {
		case isNull && value.Value != "null":
			s.errorf(key, "%s has no value; null removes it", key.Value)
		case isNull && !known && !s.isPath(l, key.Value):
			s.errorf(key, "%s: null removes it, but there is nothing with this name%s", key.Value, hint())
		case plus && (known || isNew):
			s.errorf(key, "+%s: only what an overlay adds has a +; write it without", key.Value)
		case !plus && !known && !isNew && named:
			s.errorf(key, "the table has no %s here; to add it, write +%[1]s%s", key.Value, hint())
		case isMerged && known && old == nil && shared.Kind == yaml.MappingNode:
			s.merge(s.cloneOf(shared), value, rowLevel, isNew)
			put(key, value) // func rowsOf merges it into the shared one
		case isMerged && known && old != nil && old.Kind == yaml.MappingNode:
			s.merge(old, value, l.below(key.Value), isNew)
		case isMerged && !known:
			added := s.cloneOf(value)
			added.Content = nil
			put(key, added)
			s.merge(added, value, l.below(key.Value), isNew || l != tableLevel)
		case known && value.Kind == yaml.SequenceNode && base == child(s.root, "codes") && old.Kind == value.Kind:
			old.Content = append(old.Content, value.Content...)
		default:
			put(key, value)
		}
	}
}

// usedRows returns the shared rows of a message.
func (s *source) usedRows(message *yaml.Node) []namedRow {
	key, use := find(message, useKey)
	if key == nil {
		return nil
	}
	return s.rowsOf(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{key, use}}, callbackMessage)
}

// prune removes what null stands for from a mapping, but what it removes from a shared row, and what says that a form
// has no path.
func (s *source) prune(n *yaml.Node, l level, shared *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return
	}
	used := map[string]*yaml.Node{}
	if l == rowsLevel {
		used = byName(s.usedRows(n))
	}
	var kept []*yaml.Node // not in place: copies of n keep theirs
	for key, value := range Members(n) {
		under := cmp.Or(child(shared, key.Value), used[key.Value])
		if value.Tag == nullTag && under == nil && !s.isPath(l, key.Value) {
			continue
		}
		if below := l.below(key.Value); below != valueLevel {
			s.prune(value, below, under)
		}
		kept = append(kept, key, value)
	}
	n.Content = kept
}

// cloneOf returns a copy of a tree, from the same files.
func (s *source) cloneOf(n *yaml.Node) *yaml.Node {
	c := *n
	if name, ok := s.overlayOf[n]; ok {
		s.overlayOf[&c] = name
	}
	c.Content = nil
	for _, child := range n.Content {
		c.Content = append(c.Content, s.cloneOf(child))
	}
	return &c
}

// A namedRow is a row of a message. Its name is its path in the first form, unless the row has another one.
type namedRow struct {
	name, row *yaml.Node
	shared    bool // it is one of those that the message uses
}

// rowsOf returns the rows of a message: those that it uses, with its own of the same name merged into them, and its
// own. A callback can use the rows of a reply.
func (s *source) rowsOf(n *yaml.Node, m Message) (rows []namedRow) {
	index := map[string]int{}
	add := func(name, row *yaml.Node, shared bool) {
		at, ok := index[name.Value]
		if !ok {
			index[name.Value], rows = len(rows), append(rows, namedRow{name, row, shared})
			return
		}
		under, over := rows[at].row, row
		if shared {
			under, over = over, under
		}
		if rows[at].shared = true; under.Kind == yaml.MappingNode && over.Kind == yaml.MappingNode {
			merged, problems := s.cloneOf(under), s.problems
			s.merge(merged, over, rowLevel, true)
			over, s.problems = merged, problems // it was checked when it was added
		}
		rows[at].row = over
	}
	for key, value := range Members(n) {
		if key.Value != useKey {
			add(key, value, false)
			continue
		}
		for _, name := range listOf(value) {
			if reply := child(child(child(s.root, "operations"), name.Value), string(Reply)); m == callbackMessage && reply != nil {
				for _, r := range s.rowsOf(reply, Reply) {
					add(r.name, s.borrowed(r.row), true)
				}
				continue
			}
			for shared, row := range Members(child(child(s.root, "shared"), name.Value)) {
				add(shared, row, true)
			}
		}
	}
	rows = slices.DeleteFunc(rows, func(r namedRow) bool { return r.row.Tag == nullTag })
	for i, r := range rows {
		rows[i].row = s.cloneOf(r.row)
		s.prune(rows[i].row, rowLevel, nil)
	}
	return rows
}

// listOf returns the items of a list, or the only one without a list.
func listOf(n *yaml.Node) []*yaml.Node {
	switch {
	case n == nil || n.Tag == nullTag:
		return nil
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0:
		return n.Content
	}
	return []*yaml.Node{n}
}

// borrowed returns a copy of a row of a reply without the keys that a callback cannot have.
func (s *source) borrowed(n *yaml.Node) *yaml.Node {
	row := s.cloneOf(n)
	for _, key := range strings.Fields("role means no_value_while required check code") {
		remove(row, key)
	}
	if fill := remove(row, "fill"); fill != nil && child(row, "lost") == nil {
		row.Content = append(row.Content, scalar("lost", fill), scalar("drop", fill))
	}
	if each := child(row, "each"); each != nil {
		for i := 1; i < len(each.Content); i += 2 {
			each.Content[i] = s.borrowed(each.Content[i])
		}
	}
	return row
}

// scalar returns a text with the position of another node.
func scalar(text string, at *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: at.Line, Column: at.Column}
}

// messageRows are the rows of a message, for the report of what an overlay changes.
type messageRows struct {
	message string // such as "bill.read reply"
	rows    []namedRow
}

// allRows returns copies of the rows of all messages, and the roles.
func (s *source) allRows() (all []messageRows) {
	roles := messageRows{message: "roles"}
	for name, role := range Members(child(s.root, "roles")) {
		roles.rows = append(roles.rows, namedRow{name: name, row: s.cloneOf(role)})
	}
	all = append(all, roles)
	for _, section := range []string{"operations", "callbacks"} {
		for name, operation := range Members(child(s.root, section)) {
			for _, key := range messageKeys {
				m := key
				if section == "callbacks" {
					m = callbackMessage
				}
				all = append(all, messageRows{name.Value + " " + string(key), s.rowsOf(child(operation, string(key)), m)})
			}
		}
	}
	return all
}

// A RowChange is what an overlay changes in one row of the table.
type RowChange struct {
	File    string   // the overlay
	Line    int      // of the change
	Message string   // such as "bill.read reply"; several with commas between them, if they share the row
	Before  string   // the row before, with its name; "" if it was added
	After   string   // the row now; "" if it was removed
	Lost    []string // what keeps wrong messages from passing: keys, and values with a meaning that they do not have now
	Like    string   // of a row that was added: `; did you mean X?` if the message has a row with a similar name
}

// Changes returns what the overlays change in the rows of the table, in their order. The caller must not modify it.
func (t *Table) Changes() []RowChange { return t.changes }

// safetyKeys are the keys of a row without which a wrong message passes. RowChange.Lost has those that a row has lost.
var safetyKeys = strings.Fields("as values shift role means lost check required same secret moves")

// recordChanges records what an overlay has changed in the rows of messages.
func (s *source) recordChanges(overlay *yaml.Node, before []messageRows) {
	known, others := map[string][]namedRow{}, len(s.changes)
	for _, m := range before {
		known[m.message] = m.rows
	}
	for _, m := range s.allRows() {
		was, is := byName(known[m.message]), byName(m.rows)
		for _, r := range m.rows {
			if old := was[r.name.Value]; !sameNode(old, r.row) {
				s.recordChange(m.message, r.name.Value, overlay, old, r.row, was)
			}
		}
		for _, r := range known[m.message] {
			if is[r.name.Value] == nil {
				s.recordChange(m.message, r.name.Value, overlay, r.row, nil, nil)
			}
		}
	}
	slices.SortStableFunc(s.changes[others:], func(a, b RowChange) int { return a.Line - b.Line })
}

func byName(rows []namedRow) map[string]*yaml.Node {
	index := map[string]*yaml.Node{}
	for _, r := range rows {
		index[r.name.Value] = r.row
	}
	return index
}

func (s *source) recordChange(message, name string, overlay, before, after *yaml.Node, known map[string]*yaml.Node) {
	c := RowChange{File: s.overlayOf[overlay], Message: message}
	if c.Line = s.lineIn(after, c.File); c.Line == 0 { // it was removed, has lost a key, or is used by what is new
		operation, _, _ := strings.Cut(message, " ")
		c.Line = cmp.Or(s.lineOf(overlay, name), s.lineOf(overlay, operation))
	}
	if before == nil {
		c.Like = DidYouMean(name, slices.Sorted(maps.Keys(known)))
	} else {
		c.Before = name + ": " + showRow(before)
		for _, key := range safetyKeys {
			was, is := child(before, key), child(after, key)
			changed := is == nil || (key == "role" || key == "same") && !sameNode(was, is)
			if was != nil && changed {
				c.Lost = append(c.Lost, key)
			}
		}
		for value, means := range Members(child(before, "means")) {
			if now := child(after, "means"); now != nil && !sameNode(child(now, value.Value), means) {
				c.Lost = append(c.Lost, "means of "+value.Value)
			}
		}
	}
	if after != nil {
		c.After = name + ": " + showRow(after)
	}
	for i, other := range s.changes {
		if other.File == c.File && other.Line == c.Line && other.Before == c.Before && other.After == c.After {
			s.changes[i].Message += ", " + message
			return
		}
	}
	s.changes = append(s.changes, c)
}

// lineIn returns the line of the first node in a row that is from a file; 0 for none.
func (s *source) lineIn(row *yaml.Node, file string) (line int) {
	switch {
	case row == nil:
		return 0
	case s.overlayOf[row] == file:
		return row.Line
	}
	for _, child := range row.Content {
		if line = s.lineIn(child, file); line > 0 {
			break
		}
	}
	return line
}

// lineOf returns the line of the first key with a name in an overlay.
func (s *source) lineOf(n *yaml.Node, name string) (line int) {
	for key, value := range Members(n) {
		if key.Value == name {
			return key.Line
		}
		if line = s.lineOf(value, name); line > 0 {
			return line
		}
	}
	return 0
}
