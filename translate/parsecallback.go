package translate

import (
	"cmp"
	"slices"

	"go.yaml.in/yaml/v4"
)

// readCallbacks reads the callback of the table. operations is the node of all operations.
func (s *source) readCallbacks(n, operations *yaml.Node) {
	for name, value := range s.members(n, "callbacks") {
		switch {
		case s.table.Callback != nil:
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
	var keys struct {
		Method  string         `is:"POST|PUT" must:"be"`
		Result  byForm[string] `is:"a field name"` // the object that holds the fields
		Answer  byForm[string]
		Request *yaml.Node `must:"be"`
	}
	c := &Callback{Name: o.Name, operation: o}
	if s.table.Callback = c; !s.decode(n, "a callback", &keys) {
		return
	}
	c.Method, c.under, c.answers = keys.Method, keys.Result, keys.Answer
	for f, json := range keys.Answer {
		s.checkAnswer(f, json, cmp.Or(child(n, "answer"), name))
	}
	before := len(s.problems)
	if s.readRows(o, callbackMessage, keys.Request); len(s.problems) > before {
		return
	}
	rows := o.rows[callbackMessage]
	for _, r := range rows { // what a callback is about
		isKnown := slices.ContainsFunc(c.identified, func(known *row) bool { return known.Role == r.Role })
		if (r.Role.Secret || r.Role.Same == "must") && r.onlyForm() < 0 && !isKnown {
			c.identified = append(c.identified, r)
		}
	}
	if c.identified == nil {
		s.errorf(name, "%s needs a row with a path in both forms and a role that is secret or has same: must, by "+
			"which it says what it is about", name.Value)
	}
	for _, r := range rows {
		for f, path := range r.Path {
			if path != "" {
				r.Path[f] = joinPath(keys.Result[f], path)
			}
		}
	}
}

// checkAnswer checks the answer with which a receiver acknowledges a callback.
func (s *source) checkAnswer(f int, json string, n *yaml.Node) {
	form := &s.table.forms[f]
	// limits.depth is not checked yet. A bad value must not be reported as a mistake of the table.
	if _, is := form.acknowledged([]byte(json), max(s.table.depth, 1)); form.has != nil && !is {
		s.errorf(cmp.Or(child(n, s.forms[f]), n), "answer.%s must be a JSON object with %s %s, by which an "+
			"acknowledgement is recognised", s.forms[f], form.shows(), form.success.json)
	}
}
