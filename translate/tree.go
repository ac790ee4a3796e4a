package translate

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A table is read from one tree: that of its file, with each overlay merged into it by path, in which the rows that
// messages use are written out. Only a tree that was just parsed is changed.

// load parses the table, merges the overlays into it and reads the result.
func load(t *Table) (*source, Problems) {
	root := &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}
	s := &source{nodes: nodes{table: t, root: root}, used: map[string]bool{}}
	whole := s.root
	for i, file := range t.files {
		over, err := ParseYAML(file)
		if err != nil {
			return nil, err.(Problems)
		}
		ofFile(over, i)
		s.members(over, "a table")
		order := []string{"forms", "shared", "operations", "callbacks"} // in which they refer to each other
		for _, name := range append(order, names(without(over, order...))...) {
			if key, value := find(over, name); key != nil {
				section := mappingAt(over, key, value)
				s.check(section, s.root, tableLevel, i == 0)
				s.root = tableLevel.merge(s.root, section)
				s.forms = names(child(s.root, "forms"))
			}
		}
		if len(s.problems) > 0 {
			return s, s.problems.Sorted()
		}
		before := whole
		if whole = s.expand(s.root, tableLevel); i > 0 {
			s.recordChanges(over, before, whole)
		}
		if i < len(t.files)-1 {
			s.problems = nil // a later overlay may mend it
		}
	}
	for name, rows := range s.members(child(whole, "shared"), "shared") {
		if s.members(rows, "shared."+name.Value); !s.used[name.Value] {
			s.errorf(name, "shared: no message has use: %s", name.Value)
		}
	}
	s.root = without(whole, "shared")
	s.readTable()
	// A mistake in shared rows is found in every message that uses them.
	return s, slices.Compact(s.problems.Sorted())
}

// fileColumns is more than a line has columns: above it, the column of a node has the number of its file.
const fileColumns = 1 << 32

// ofFile notes in a node, and in all nodes in it, from which file they are.
func ofFile(n *yaml.Node, file int) {
	n.Column += file * fileColumns
	for _, child := range n.Content {
		ofFile(child, file)
	}
}

// useKey is the key of a message that names shared rows.
const useKey = "use"

const nullTag = "!!null"

// A level is a place in the tree of a table, which says how an overlay changes what is there.
type level int

const (
	mapLevel   level = iota // is merged
	valueLevel              // is replaced as a whole
	tableLevel
	codesLevel
	groupLevel      // a list is added to the one that is there
	operationsLevel // an addition has a + before its name, so that a misspelled name is not added
	callbacksLevel  // likewise
	operationLevel
	callbackLevel
	sharedLevel
	groupOfRows // shared rows, and rowsLevel those of an item: like operationsLevel
	rowsLevel
	rowLevel
	requestLevel // this one and those below: the rows of a message, which can use others
	replyLevel
	callbackRows
)

// levels are the levels below each level, by key; that of "" is the level below all other keys, or else mapLevel.
var levels = map[level]map[string]level{
	mapLevel: {"flag": valueLevel},
	tableLevel: {
		"operations": operationsLevel, "callbacks": callbacksLevel, "shared": sharedLevel, "codes": codesLevel,
	},
	codesLevel:      {"": groupLevel},
	operationsLevel: {"": operationLevel},
	callbacksLevel:  {"": callbackLevel},
	operationLevel:  {"request": requestLevel, "reply": replyLevel, "hash": valueLevel},
	callbackLevel:   {"request": callbackRows},
	sharedLevel:     {"": groupOfRows},
	groupOfRows:     rowLevels,
	rowsLevel:       rowLevels,
	requestLevel:    rowLevels,
	replyLevel:      rowLevels,
	callbackRows:    rowLevels,
	rowLevel:        {"each": rowsLevel, "means": mapLevel, "": valueLevel},
}

var rowLevels = map[string]level{useKey: valueLevel, "": rowLevel}

func (l level) below(key string) level {
	if below, ok := levels[l][key]; ok {
		return below
	}
	return levels[l][""]
}

// isMessage reports whether the rows at the level can use others.
func (l level) isMessage() bool { return l >= requestLevel }

// merge lays one tree over another. Mappings are merged, and everything else is replaced. null stays in the tree, since
// it can remove a row that a message gets from shared ones. A mapping that an overlay changes has its place there.
func (l level) merge(base, over *yaml.Node) *yaml.Node {
	isMap, isGroup := over.Kind == yaml.MappingNode, over.Kind == yaml.SequenceNode && l == groupLevel
	if base == nil || base.Kind != over.Kind || l == valueLevel || !isMap && !isGroup {
		return over
	}
	merged := *base
	merged.Line, merged.Column = over.Line, over.Column
	if merged.Content = slices.Clone(base.Content); isGroup {
		merged.Content = append(merged.Content, over.Content...)
		return &merged
	}
	index := map[string]int{} // without it 100,000 codes of an overlay take minutes
	for i, name := range names(base) {
		index[name] = 2*i + 1
	}
	for key, value := range Members(over) {
		if at := index[key.Value]; at > 0 {
			merged.Content[at-1], merged.Content[at] = key, l.below(key.Value).merge(merged.Content[at], value)
		} else {
			merged.Content = append(merged.Content, key, value)
		}
	}
	return &merged
}

// check reports what does not fit in a tree that is laid over another, takes the + from its names, and writes rows that
// are plain text as mappings, so that all merge alike. In what is new all names are new.
func (s *source) check(over, base *yaml.Node, l level, isNew bool) {
	if over.Kind != yaml.MappingNode || l == valueLevel {
		return
	}
	if l.isMessage() { // it can use rows that its overlay has added
		before := len(s.problems)
		if key, use := find(over, useKey); key != nil {
			base = l.merge(base, mappingAt(over, key, use))
		}
		base = s.withUsed(base, l)
		s.problems = s.problems[:before]
	}
	there := map[string]*yaml.Node{}
	for key, value := range Members(base) {
		there[key.Value] = value
	}
	for key, value := range Members(over) {
		below := l.below(key.Value)
		named := below == operationLevel || below == callbackLevel || below == rowLevel && key.Value != "+"+useKey
		name, plus := strings.CutPrefix(key.Value, "+")
		if plus = plus && named; plus {
			key.Value, key.Tag = name, "!!str"
		}
		name = key.Value
		isText := value.Kind == yaml.ScalarNode && value.Tag != nullTag && len(s.forms) > 1
		if below == rowLevel && isText && !slices.Contains(s.forms, name) {
			text := *value
			*value = *mappingAt(value, scalar(s.forms[1], value), &text)
			value.Style = yaml.FlowStyle
		}
		old := there[name]
		known := old != nil && old.Tag != nullTag
		hint := func() string { return DidYouMean(name, names(base)) }
		switch isNull := value.Tag == nullTag; {
		case isNull && value.Value != "null":
			s.errorf(key, "%s has no value; null removes it", key.Value)
		case isNull && !known && !s.isPath(l, key.Value) && key.Value != useKey:
			s.errorf(key, "%s: null removes it, but there is nothing with this name%s", name, hint())
		case plus && (known || isNew):
			s.errorf(key, "+%s: only what an overlay adds has a +; write it without", name)
		case !plus && !known && !isNew && named:
			s.errorf(key, "the table has no %s here; to add it, write +%[1]s%s", name, hint())
		default:
			s.check(value, old, below, isNew || l != tableLevel && (!known || old.Kind != yaml.MappingNode))
		}
	}
}

// expand returns a tree without what null removes, with the rows that its messages use.
func (s *source) expand(n *yaml.Node, l level) *yaml.Node {
	if n.Kind != yaml.MappingNode || l == valueLevel {
		return n
	}
	if l == tableLevel {
		clear(s.used)
	}
	if l.isMessage() {
		n = s.withUsed(n, l)
	}
	whole := *n
	whole.Content = nil
	for key, value := range Members(n) {
		if l == groupOfRows && key.Value == useKey { // rows could use themselves
			s.errorf(key, "use: a shared group cannot use another; list both where it is used")
		} else if l == rowsLevel && key.Value == useKey {
			s.errorf(key, "use: only a request or a reply can use shared rows, not the items of a list")
		} else if value.Tag != nullTag || s.isPath(l, key.Value) {
			whole.Content = append(whole.Content, key, s.expand(value, l.below(key.Value)))
		}
	}
	return &whole
}

// withUsed returns the rows of a message: those that it uses, and its own over them. A callback can use those of a
// reply.
func (s *source) withUsed(message *yaml.Node, l level) *yaml.Node {
	known := names(child(s.root, "shared"))
	if l == callbackRows {
		known = append(known, names(child(s.root, "operations"))...)
	}
	if message == nil || message.Kind != yaml.MappingNode {
		return message
	}
	used, from := mappingAt(message), map[string]string{}
	for _, use := range listOf(child(message, useKey)) {
		name := s.str(use, useKey)
		rows, of := child(child(s.root, "shared"), name), rowsLevel
		if reply := child(child(child(s.root, "operations"), name), string(Reply)); l == callbackRows && reply != nil {
			rows, of = s.expand(reply, replyLevel), replyLevel
		}
		if s.used[name] = true; name != "" && (rows == nil || rows.Tag == nullTag) {
			s.errorf(use, "use: the table has no shared rows %q%s", name, DidYouMean(name, known))
		}
		for key, row := range Members(rows) {
			if row.Tag == nullTag {
				continue
			}
			if from[key.Value] != "" {
				s.errorf(use, "use: %s and %s both have the row %s", from[key.Value], name, key.Value)
				continue
			}
			from[key.Value] = name
			used.Content = append(used.Content, key, lent(row, of, l))
		}
	}
	return l.merge(used, without(message, useKey))
}

// lent returns a row without the keys that the rows of a message cannot have, if it uses the row of another place.
func lent(row *yaml.Node, from, to level) *yaml.Node {
	if row.Kind != yaml.MappingNode || to == requestLevel {
		return row
	}
	fill, required := child(row, "fill"), child(row, "required")
	if row = without(row, "check", "code"); required != nil && required.Value == "true" {
		row = without(row, "required")
	}
	if from == replyLevel {
		if row = without(row, "role", "means", "no_value_while", "fill"); fill != nil && child(row, "lost") == nil {
			row.Content = append(row.Content, scalar("lost", fill), scalar("drop", fill))
		}
	}
	return row
}

// isPath reports whether a key of a row or of an operation is the name of a form that has a path if nothing is said.
// null says there that it has none.
func (s *source) isPath(l level, key string) bool {
	likeAnother := child(child(child(s.root, "forms"), key), "like") != nil
	return l == rowLevel && key == s.firstForm() || (l == rowLevel || l == operationLevel) && likeAnother
}

// firstForm returns the name of the first form, or "".
func (s *nodes) firstForm() string { return append(s.forms, "")[0] }
