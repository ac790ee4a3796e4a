package translate

import (
	"slices"

	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v4"
)

// readCallbacks reads the callback of the table. operations is the node of all operations.
func (s *source) readCallbacks(t *Table, n, operations *yaml.Node) {
	s.fields(n, "callbacks", func(name, value *yaml.Node) {
		switch {
		case t.callback != nil:
			s.errorf(name, "callbacks: a table can have only one, but %q is another one", name.Value)
		case child(operations, name.Value) != nil:
			s.errorf(name, "callbacks: %s is the name of an operation", name.Value)
		default:
			t.callback = s.readCallback(t, name, value, operations)
		}
	})
}

// A callbackReader reads one callback.
type callbackReader struct {
	*source
	table           *Table
	callback        *Callback
	under           [2]string  // by form: the object that holds the fields
	reused, request *yaml.Node // the values of fields and request; nil if the key is missing
}

func (s *source) readCallback(t *Table, name, n, operations *yaml.Node) *Callback {
	// Both forms have it. The path has no meaning, since each callback is sent to its own address.
	o := &Operation{Name: name.Value, paths: [2]string{"/", "/"}, noEnvelope: -1, rows: map[Message][]*row{}, table: t}
	rd := &callbackReader{source: s, table: t, callback: &Callback{operation: o}}
	s.fields(n, "a callback", rd.readKey)
	if n.Kind != yaml.MappingNode {
		return rd.callback
	}
	rd.checkKeys(name, n)
	before := len(s.problems)
	rows := rd.rows(name, operations)
	if rows == nil || len(s.problems) > before {
		return rd.callback
	}
	if len(s.layers[rd.request]) > 0 { // so that the table can be written and read again
		n.Content = slices.DeleteFunc(slices.Clone(n.Content), func(part *yaml.Node) bool { return part == rd.reused || part == rd.request })
		n.Content = slices.DeleteFunc(n.Content, func(key *yaml.Node) bool { return key.Value == "fields" || key.Value == "request" })
		set(n, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "request"}, rows, false)
	}
	s.readRows(t, o, callbackMessage, rows)
	if len(s.problems) > before {
		return rd.callback
	}
	rd.checkIdentifiedBy(name)
	rd.addUnder()
	return rd.callback
}

func (rd *callbackReader) readKey(key, value *yaml.Node) {
	t, c := rd.table, rd.callback
	switch key.Value {
	case "method":
		c.method = rd.oneOf(value, "method", "POST", "PUT")
	case "fields":
		rd.reused = value
	case "request":
		rd.request = value
	case "under":
		rd.eachForm(t, value, "under", func(f int, v *yaml.Node) { rd.under[f] = rd.fieldName(v) })
	case "identified_by":
		rd.items(value, "identified_by", func(item *yaml.Node) {
			if role := rd.roleName(t, item, "identified_by"); role != "" {
				c.identifiedBy = append(c.identifiedBy, role)
			}
		})
	case "answer":
		rd.eachForm(t, value, "answer", func(f int, v *yaml.Node) { c.answers[f] = rd.readAnswer(t, f, v) })
	default:
		rd.unknownKey(key, "a callback", "method", "fields", "request", "under", "identified_by", "answer")
	}
}

// checkKeys checks that no key is missing.
func (rd *callbackReader) checkKeys(name, n *yaml.Node) {
	if child(n, "method") == nil {
		rd.errorf(name, "%s: method is missing; write method: POST or method: PUT", name.Value)
	}
	if by := child(n, "identified_by"); by == nil || len(by.Content) == 0 {
		rd.errorf(name, "%s: identified_by is missing; list the roles that say what the callback is about", name.Value)
	}
	for _, f := range rd.table.forms {
		if child(child(n, "answer"), string(f.name)) == nil {
			rd.errorf(name, "%s: the answer for %s is missing", name.Value, f.name)
		}
	}
}

// rows returns the rows of the callback: those of request, and those of the operation that fields names. It returns nil if they
// have problems.
func (rd *callbackReader) rows(name, operations *yaml.Node) *yaml.Node {
	switch {
	case rd.reused != nil:
		return rd.reuseRows(name.Value, rd.reused, rd.request, operations)
	case rd.request == nil:
		rd.errorf(name, "%s: request is missing; write its rows, or fields: with an operation whose reply has the same fields", name.Value)
	}
	return rd.request
}

// checkIdentifiedBy checks that each role of identified_by has a field in both forms.
func (rd *callbackReader) checkIdentifiedBy(name *yaml.Node) {
	for _, role := range rd.callback.identifiedBy {
		hasField := func(r *row) bool { return r.hasRole(role) && r.onlyForm() < 0 }
		if !slices.ContainsFunc(rd.callback.operation.rows[callbackMessage], hasField) {
			rd.errorf(name, "%s: identified_by needs a row with role: %s and a path in both forms", name.Value, role)
		}
	}
}

// addUnder puts the object that holds the fields in front of their paths.
func (rd *callbackReader) addUnder() {
	for _, r := range rd.callback.operation.rows[callbackMessage] {
		for f := range r.path {
			if r.path[f] != "" && rd.under[f] != "" {
				r.path[f] = rd.under[f] + "." + r.path[f]
			}
		}
	}
}

// eachForm calls f for each form in the mapping n.
func (s *source) eachForm(t *Table, n *yaml.Node, what string, f func(form int, v *yaml.Node)) {
	s.fields(n, what, func(key, v *yaml.Node) {
		if i := t.formIndex(Form(key.Value)); i >= 0 {
			f(i, v)
			return
		}
		s.unknownForm(t, key, what)
	})
}

// reuseRows returns the rows of a reply for use in a callback, with the callback's own rows applied as an overlay. fields names the
// operation. If the operation has problems, reuseRows returns nil, so that each of them is reported only once.
func (s *source) reuseRows(name string, fields, own, operations *yaml.Node) *yaml.Node {
	operation := s.str(fields, "fields")
	reply := child(child(operations, operation), "reply")
	switch {
	case operation == "" || s.hasProblems[operation]:
		return nil
	case reply == nil:
		s.errorf(fields, "fields: the table has no operation %q%s", operation, DidYouMean(operation, keys(operations)))
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
		s.changeRows(list, rows, s.formNames(), name+" request")
	}
	return list
}

// reusedRow returns a copy of a row of a reply without the keys that a callback cannot have. echo becomes loss: drop.
func (s *source) reusedRow(n *yaml.Node) *yaml.Node {
	row := *n
	row.Content = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch key.Value {
		case "must_equal_request", "repeats_request", "role", "means", "exact":
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

// readAnswer reads the answer with which a receiver acknowledges a callback: a JSON object with a code.
func (s *source) readAnswer(t *Table, f int, n *yaml.Node) answer {
	what := "answer." + string(t.forms[f].name)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		s.errorf(n, "%s must be a JSON object in quotes", what)
		return answer{}
	}
	// limits.depth is not checked yet. A bad value must not be reported as a mistake of the table.
	if fault := checkJSON([]byte(n.Value), max(t.depth, 1)); fault != nil {
		s.errorf(n, "%s must be a JSON object: %s", what, fault.reason)
		return answer{}
	}
	if !gjson.Parse(n.Value).IsObject() {
		s.errorf(n, "%s must be a JSON object, but is %s", what, n.Value)
		return answer{}
	}
	code := lookup(gjson.Parse(n.Value), t.forms[f].code)
	if code.kind != text || code.countsAsAbsent() {
		s.errorf(n, "%s needs %s with a text, by which an acknowledgement is recognised", what, t.forms[f].code)
		return answer{}
	}
	return answer{n.Value, code.text()}
}
