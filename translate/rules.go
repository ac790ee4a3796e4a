package translate

import "slices"

// checkRules checks what keys of a row go together, and with its place: what would change values without a word.
func (s *source) checkRules(o *Operation, m Message, r *row) {
	constant, echo, noValue, pattern := r.always.kind != absent, r.echoed != "", r.NoValueWhile != nil, r.pattern[0] != ""
	lacks := slices.ContainsFunc(s.table.forms, func(f form) bool { return r.Path[f.index] == "" && o.paths[f.index] != "" })
	converted := r.hasPairs() || slices.Max(r.Shift) > 0 || slices.Max(r.width) > 0 || pattern
	for _, rule := range []struct {
		key   string
		is    bool
		where string
	}{
		{"values", m == Request && r.otherwise != "", "with other in a request"},
		{"fill", m != Reply && echo, "with a value of the request but in a reply"},
		{"fill", m == Reply && constant, "with a constant in a reply"},
		{"fill", echo && (converted || r.as == "decimal"), "beside a conversion, if it is a value of the request"},
		{"fill", constant && r.Role.Secret, "with a secret role: commands and pages show the table"},
		{"role", m == Reply && r.Role.means != nil && len(r.Means) == 0, "without means: {VALUE: MEANING}, since it has moves"},
		{"role", r.Role.Same != "" && converted, "beside a conversion: it is the same in request and reply, or replaced"},
		{"no_value_while", noValue && m == Request, "in a request"},
		{"no_value_while", noValue && !s.table.convertsDigits(r), "unless as: digits is a number in one form and text in the other"},
		{"values", r.otherwise != "" && !s.table.convertsDigits(r), "with other unless as: digits is a number in one form and text in the other"},
		{"fill", !lacks && r.onlyForm() < 0, "beside a path in each form: the name of the row is the path in the first one, unless it has null"},
		{"lost", !lacks && r.onlyForm() < 0, "beside a path in each form: the name of the row is the path in the first one, unless it has null"},
	} {
		if at := child(r.node, rule.key); at != nil && rule.is {
			s.errorf(at, "%s is not allowed %s", rule.key, rule.where)
		}
	}
}

// convertsDigits reports whether one form has the row's digits as a number, and the other as text.
func (t *Table) convertsDigits(r *row) bool {
	return r.onlyForm() < 0 && r.digits && r.digitsIn(&t.forms[0]) != r.digitsIn(&t.forms[1])
}
