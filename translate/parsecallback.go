package translate

import (
	"slices"

	"go.yaml.in/yaml/v4"
)

// readCallbacks reads the callback of the table.
func (s *source) readCallbacks(n *yaml.Node) {
	for name, value := range s.members(n, "callbacks") {
		switch {
		case s.table.Callback != nil:
			s.errorf(name, "callbacks: a table can have only one, but %q is another one", name.Value)
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
		Answer  byForm[string] `must:"be"`
		Request *yaml.Node     `must:"be"`
	}
	c := &Callback{Name: o.Name, operation: o}
	if s.table.Callback = c; !s.decode(n, "a callback", &keys) {
		return
	}
	c.Method, c.under, c.answers = keys.Method, keys.Result, keys.Answer
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
		s.errorf(name, "%s needs a row with a path in both forms and a role that is secret or has same: must, by which it "+
			"says what it is about", name.Value)
	}
	for _, r := range rows {
		for f, path := range r.Path {
			if path != "" {
				r.Path[f] = joinPath(keys.Result[f], path)
			}
		}
	}
}
