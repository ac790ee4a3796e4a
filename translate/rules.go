package translate

import "slices"

// checkRules checks what keys of a row go together, and with its place: what would change values without a word.
func (s *source) checkRules(o *Operation, m Message, r *row) {
	constant, echo, reply := r.always.kind != absent, r.echoed != "", m == Reply
	converts, other, noValue := s.table.convertsDigits(r), r.otherwise != "", r.NoValueWhile != nil
	converted := r.hasPairs() || slices.Max(r.Shift) > 0 || slices.Max(r.width) > 0 || r.pattern[0] != ""
	inBoth := r.onlyForm() < 0 && !slices.ContainsFunc(s.table.forms, func(f form) bool {
		return r.Path[f.index] == "" && o.paths[f.index] != ""
	})
	for _, rule := range []struct {
		key   string
		is    bool
		where string
	}{
		{"values", other && (m == Request || !converts), "with other but in a reply, for digits that are text in one form"},
		{"no_value_while", noValue && (m == Request || !converts), "but in a reply, for digits that are text in one form"},
		{"fill", !reply && echo, "with a value of the request but in a reply"},
		{"fill", reply && constant, "with a constant in a reply"},
		{"fill", echo && (converted || r.as == "decimal"), "beside a conversion, if it is a value of the request"},
		{"fill", constant && r.Role.Secret, "with a secret role: commands and pages show the table"},
		{"role", reply && r.Role.means != nil && len(r.Means) == 0, "without means: {VALUE: MEANING}, since it has moves"},
		{"role", r.Role.Same != "" && converted, "beside a conversion: it is the same in request and reply, or replaced"},
		{"fill", inBoth, "beside a path in each form: the name of the row is that in the first one, unless it has null"},
		{"lost", inBoth, "beside a path in each form: the name of the row is that in the first one, unless it has null"},
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
