package translate

import (
	"cmp"
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
	o := s.table.newOperation(s.fieldPath(name, "a name"), "/")
	c := &Callback{operation: o}
	s.table.callback = c
	var keys struct {
		Method  string         `is:"POST|PUT" must:"be"`
		Result  byForm[string] `is:"a field name"` // the object that holds the fields
		Answer  byForm[string]
		Request *yaml.Node `must:"be"`
	}
	if !s.decode(n, "a callback", &keys) {
		return
	}
	c.method, c.under = keys.Method, keys.Result
	c.answers = make(byForm[answer], len(s.table.forms))
	for f, json := range keys.Answer {
		if json == "" {
			s.errorf(name, "%s: the answer for %s is missing", name.Value, s.forms[f])
		} else {
			node := child(n, "answer")
			c.answers[f] = answer{json, s.codeOfAnswer(f, json, cmp.Or(child(node, s.forms[f]), node))}
		}
	}
	before := len(s.problems)
	if s.readRows(o, callbackMessage, keys.Request); len(s.problems) > before {
		return
	}
	for _, r := range o.rows[callbackMessage] { // what a callback is about
		isKnown := slices.Contains(c.identifiedBy, r.Role.name)
		if (r.Role.Secret || r.Role.Same == "must") && r.onlyForm() < 0 && !isKnown {
			c.identifiedBy = append(c.identifiedBy, r.Role.name)
		}
	}
	if c.identifiedBy == nil {
		s.errorf(name, "%s needs a row with a path in both forms and a role that is secret or has same: must, by which it says "+
			"what it is about", name.Value)
	}
	for _, r := range o.rows[callbackMessage] {
		for f, path := range r.Path {
			if path != "" {
				r.Path[f] = joinPath(keys.Result[f], path)
			}
		}
	}
}

// codeOfAnswer returns the code of the answer with which a receiver acknowledges a callback: a JSON object.
func (s *source) codeOfAnswer(f int, json string, n *yaml.Node) constant {
	form := &s.table.forms[f]
	what, name := "answer."+s.forms[f], cmp.Or(form.flag, form.Code)
	// limits.depth is not checked yet. A bad value must not be reported as a mistake of the table.
	if fault := checkJSON([]byte(json), max(s.table.depth, 1)); fault != nil {
		s.errorf(n, "%s must be a JSON object: %s", what, fault.reason)
		return constant{}
	}
	doc := gjson.Parse(json)
	code := lookup(doc, name)
	right, needs := form.isCode(code), " with a text"
	switch {
	case form.flag != "":
		right, needs = code.is(form.flagIs[1]), ": "+form.flagIs[1].json
	case form.Numeric:
		needs = " with a number"
	}
	switch {
	case !doc.IsObject():
		s.errorf(n, "%s must be a JSON object, but is %s", what, json)
	case !right:
		s.errorf(n, "%s needs %s%s, by which an acknowledgement is recognised", what, name, needs)
	}
	return constant{code.kind, code.text(), code.raw}
}
