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
			s.readCallback(name, value)
		}
	}
}

func (s *source) readCallback(name, n *yaml.Node) {
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
	if keys.Request == nil {
		s.errorf(name, "%s: request is missing; write its rows, "+
			"or fields: with an operation whose reply has the same fields", name.Value)
	}
	if s.readRows(o, callbackMessage, keys.Request); len(s.problems) > before {
		return
	}
	if own := s.own[keys.Request]; keys.Fields != nil { // so that the table can be written and read again
		switch {
		case slices.ContainsFunc(own, func(rows *yaml.Node) bool { return s.overlayOf[rows] != "" }):
			remove(n, "fields")
		case len(own) == 0:
			remove(n, "request")
		default:
			set(n, scalar("request", n), own[0])
		}
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
