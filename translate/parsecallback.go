package translate

import (
	"slices"

	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v4"
)

// callbacks reads what the upstream sends of itself. operations is the node that holds all operations.
func (s *source) callbacks(t *Table, n, operations *yaml.Node) {
	s.fields(n, "callbacks", func(name, value *yaml.Node) {
		switch {
		case t.callback != nil:
			s.errorf(name, "a table has one callback, %q is one more", name.Value)
		case child(operations, name.Value) != nil:
			s.errorf(name, "%s is the name of an operation", name.Value)
		default:
			t.callback = s.callback(t, name, value, operations)
		}
	})
}

func (s *source) callback(t *Table, name, n, operations *yaml.Node) *Callback {
	// Every form has it, whatever address it is sent to.
	o := &Operation{Name: name.Value, paths: [2]string{"/", "/"}, noEnvelope: -1, rows: map[Message][]*row{}, table: t}
	c := &Callback{operation: o}
	var under [2]string
	var fields, own *yaml.Node
	s.fields(n, "a callback", func(key, value *yaml.Node) {
		switch key.Value {
		case "method":
			c.method = s.oneOf(value, "method", "POST", "PUT")
		case "fields":
			fields = value
		case "request":
			own = value
		case "under":
			s.eachForm(t, value, "under", func(f int, v *yaml.Node) { under[f] = s.segment(v) })
		case "identified_by":
			s.items(value, "identified_by", func(item *yaml.Node) {
				if role := s.roleName(t, item, "identified_by"); role != "" {
					c.identifiedBy = append(c.identifiedBy, role)
				}
			})
		case "answer":
			s.eachForm(t, value, "answer", func(f int, v *yaml.Node) { c.answers[f] = s.answer(t, f, v) })
		default:
			s.unknownKey(key, "a callback", "method", "fields", "request", "under", "identified_by", "answer")
		}
	})
	if n.Kind != yaml.MappingNode {
		return c
	}
	if child(n, "method") == nil {
		s.errorf(name, "%s needs method: POST or PUT", o.Name)
	}
	if by := child(n, "identified_by"); by == nil || len(by.Content) == 0 {
		s.errorf(name, "%s needs identified_by: the roles that say what it is about", o.Name)
	}
	for _, f := range t.forms {
		if child(child(n, "answer"), string(f.name)) == nil {
			s.errorf(name, "%s needs an answer for %s", o.Name, f.name)
		}
	}
	before := len(s.problems)
	rows := own
	switch {
	case fields == nil && own == nil:
		s.errorf(name, "%s needs request: with its rows, or fields: with the operation whose reply has them", o.Name)
	case fields != nil:
		rows = s.reuseRows(fields, own, operations)
	}
	if rows == nil || len(s.problems) > before {
		return c
	}
	s.rows(t, o, callbackMessage, rows)
	if len(s.problems) > before {
		return c
	}
	for _, role := range c.identifiedBy {
		if !slices.ContainsFunc(o.rows[callbackMessage], func(r *row) bool { return r.hasRole(role) && r.onlyForm() < 0 }) {
			s.errorf(name, "%s needs a row of both forms with role: %s, nothing else says what it is about", o.Name, role)
		}
	}
	for _, r := range o.rows[callbackMessage] {
		for f := range r.path {
			if r.path[f] != "" && under[f] != "" {
				r.path[f] = under[f] + "." + r.path[f]
			}
		}
	}
	return c
}

// eachForm calls f for each form that the mapping n names.
func (s *source) eachForm(t *Table, n *yaml.Node, what string, f func(form int, v *yaml.Node)) {
	s.fields(n, what, func(key, v *yaml.Node) {
		if i := t.formIndex(Form(key.Value)); i >= 0 {
			f(i, v)
			return
		}
		s.errorf(key, "%s: %q is not a form of this table", what, key.Value)
	})
}

// reuseRows is the list of rows of the reply that fields names, with the rows of own laid over it. It is nil where that
// operation has problems: they are told once.
func (s *source) reuseRows(fields, own, operations *yaml.Node) *yaml.Node {
	operation := s.str(fields, "fields")
	reply := child(child(operations, operation), "reply")
	switch {
	case operation == "" || s.hasProblems[operation]:
		return nil
	case reply == nil:
		s.errorf(fields, "fields: %q is not an operation of this table%s", operation, DidYouMean(operation, keys(operations)))
		return nil
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: fields.Line, Column: fields.Column}
	for _, row := range reply.Content {
		list.Content = append(list.Content, s.reusedRow(row))
	}
	if own != nil {
		companions := func(b, _ *yaml.Node) bool { return slices.Contains(own.Content, b) }
		for _, row := range s.replaceRows(list, own, s.formNames(), false, companions) {
			if _, over := s.overlayOf[row]; !over {
				s.errorf(row, "remove: no row names this path")
				continue
			}
			// It had something to remove when it was laid over the table. A table that is written has no need of it.
			own.Content = slices.DeleteFunc(own.Content, func(n *yaml.Node) bool { return n == row })
		}
	}
	return list
}

// reusedRow is a row of a reply as a callback has it, which has no request.
func (s *source) reusedRow(n *yaml.Node) *yaml.Node {
	row := *n
	row.Content = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch key.Value {
		case "must_equal_request", "role", "means":
			continue
		case "echo":
			key = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "loss", Line: key.Line, Column: key.Column}
			value = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "drop", Line: value.Line, Column: value.Column}
		}
		row.Content = append(row.Content, key, value)
	}
	if name, ok := s.overlayOf[n]; ok {
		s.overlayOf[&row] = name
	}
	return &row
}

// answer reads what a receiver answers to say that it has the callback: the body, byte for byte, and in it the code
// by which a success is known.
func (s *source) answer(t *Table, f int, n *yaml.Node) answer {
	what := "answer." + string(t.forms[f].name)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		s.errorf(n, "%s must be a JSON object, in quotes", what)
		return answer{}
	}
	// A depth below one is a mistake of the config's, and not to be told of the table.
	if fault := checkJSON([]byte(n.Value), max(t.depth, 1)); fault != nil || !gjson.Parse(n.Value).IsObject() {
		reason := ""
		if fault != nil {
			reason = ": " + fault.reason
		}
		s.errorf(n, "%s must be a JSON object%s", what, reason)
		return answer{}
	}
	code := lookup(gjson.Parse(n.Value), t.forms[f].code)
	if code.kind != text || code.countsAsAbsent() {
		s.errorf(n, "%s needs %s with text in it: by it a success is known", what, t.forms[f].code)
		return answer{}
	}
	return answer{n.Value, code.text()}
}
