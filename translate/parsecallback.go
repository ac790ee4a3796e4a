package translate

import (
	"slices"

	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v4"
)

// readCallbacks reads the callback of the table. operations is the node of all operations.
func (s *source) readCallbacks(n, operations *yaml.Node) {
	for name, value := range s.members(n, "callbacks") {
		switch {
		case s.table.callback != nil:
			s.errorf(name, "callbacks: a table can have only one, but %q is another one", name.Value)
		case child(operations, name.Value) != nil:
			s.errorf(name, "callbacks: %s is the name of an operation", name.Value)
		default:
			s.readCallback(name, value, operations)
		}
	}
}

func (s *source) readCallback(name, n, operations *yaml.Node) {
	// Both forms have it. The path has no meaning, since each callback is sent to its own address.
	o := &Operation{
		Name: name.Value, paths: [2]string{"/", "/"}, noEnvelope: -1, rows: map[Message][]*row{}, table: s.table,
	}
	c := &Callback{operation: o}
	s.table.callback = c
	var keys struct {
		Method                                       string `is:"POST|PUT"`
		Fields, Request, Under, IdentifiedBy, Answer *yaml.Node
	}
	if s.decode(n, "a callback", &keys); n.Kind != yaml.MappingNode {
		return
	}
	c.method = keys.Method
	if child(n, "method") == nil {
		s.errorf(name, "%s: method is missing; write method: POST or method: PUT", name.Value)
	}
	for _, item := range s.items(keys.IdentifiedBy, "identified_by") {
		if role := s.roleName(item, "identified_by"); role != "" {
			c.identifiedBy = append(c.identifiedBy, role)
		}
	}
	if keys.IdentifiedBy == nil || len(keys.IdentifiedBy.Content) == 0 {
		s.errorf(name, "%s: identified_by is missing; list the roles that say what the callback is about", name.Value)
	}
	var under [2]string // the object that holds the fields
	s.eachForm(keys.Under, "under", func(f int, v *yaml.Node) { under[f] = s.fieldName(v) })
	s.eachForm(keys.Answer, "answer", func(f int, v *yaml.Node) { c.answers[f] = s.readAnswer(f, v) })
	for _, form := range s.forms {
		if child(keys.Answer, form) == nil {
			s.errorf(name, "%s: the answer for %s is missing", name.Value, form)
		}
	}
	before := len(s.problems)
	rows := keys.Request
	if keys.Fields != nil {
		rows = s.reuseRows(name.Value, keys.Fields, keys.Request, operations)
	} else if rows == nil {
		s.errorf(name, "%s: request is missing; write its rows, or fields: with an operation whose reply has the same fields",
			name.Value)
	}
	if rows == nil || len(s.problems) > before {
		return
	}
	if len(s.layers[keys.Request]) > 0 { // so that the table can be written and read again
		n.Content = slices.Clone(n.Content)
		remove(n, "fields")
		remove(n, "request")
		set(n, scalar("request", n), rows)
	}
	if s.readRows(o, callbackMessage, rows); len(s.problems) > before {
		return
	}
	for _, role := range c.identifiedBy {
		hasField := func(r *row) bool { return r.hasRole(role) && r.onlyForm() < 0 }
		if !slices.ContainsFunc(o.rows[callbackMessage], hasField) {
			s.errorf(name, "%s: identified_by needs a row with role: %s and a path in both forms", name.Value, role)
		}
	}
	for _, r := range o.rows[callbackMessage] {
		for f := range r.path {
			if r.path[f] != "" {
				r.path[f] = joinPath(under[f], r.path[f])
			}
		}
	}
}

// scalar returns a text with the position of another node.
func scalar(text string, at *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: at.Line, Column: at.Column}
}

// reuseRows returns the rows of a reply for use in a callback, with the callback's own rows applied as an overlay. fields names
// the operation. If the operation has problems, reuseRows returns nil, so that each of them is reported only once.
func (s *source) reuseRows(name string, fields, own, operations *yaml.Node) *yaml.Node {
	operation := s.str(fields, "fields")
	reply := child(child(operations, operation), "reply")
	switch {
	case operation == "" || s.hasProblems[operation]:
		return nil
	case reply == nil:
		s.errorf(fields, "fields: the table has no operation %q%s", operation, DidYouMean(operation, names(operations)))
		return nil
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: fields.Line, Column: fields.Column}
	for _, row := range reply.Content {
		list.Content = append(list.Content, s.reusedRow(row))
	}
	if own == nil {
		return list
	}
	for _, rows := range append([]*yaml.Node{own}, s.layers[own]...) {
		s.changeRows(list, rows, name+" request")
	}
	return list
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

// readAnswer reads the answer with which a receiver acknowledges a callback: a JSON object with a code.
func (s *source) readAnswer(f int, n *yaml.Node) answer {
	what, name := "answer."+s.forms[f], s.table.forms[f].Code
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		s.errorf(n, "%s must be a JSON object in quotes", what)
		return answer{}
	}
	// limits.depth is not checked yet. A bad value must not be reported as a mistake of the table.
	if fault := checkJSON([]byte(n.Value), max(s.table.depth, 1)); fault != nil {
		s.errorf(n, "%s must be a JSON object: %s", what, fault.reason)
		return answer{}
	}
	doc := gjson.Parse(n.Value)
	code := lookup(doc, name)
	switch {
	case !doc.IsObject():
		s.errorf(n, "%s must be a JSON object, but is %s", what, n.Value)
	case code.kind != text || code.countsAsAbsent():
		s.errorf(n, "%s needs %s with a text, by which an acknowledgement is recognised", what, name)
	default:
		return answer{n.Value, code.text()}
	}
	return answer{}
}
