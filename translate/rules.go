package translate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// checkRules checks what keys of a row go together, and with its place.
func (s *source) checkRules(o *Operation, m Message, r *row, inList bool) {
	// What a row can have besides keys: what the value of a key is.
	things := map[string]struct {
		key string
		has bool
	}{
		"a list of values":          {"check", r.oneOf != nil},
		"a constant":                {"fill", r.always.kind != absent},
		"a number of digits":        {"check", r.exactDigits > 0},
		"as: decimal":               {"as", r.as == "decimal"},
		"a value of the request":    {"fill", r.echoed != ""},
		"a role with moves":         {"role", r.Role.means != nil && len(r.Means) == 0},
		"required: true":            {"required", r.Required},
		"other":                     {"values", r.otherwise != ""},
		"a pattern":                 {"as", r.pattern[0] != ""},
		"a range":                   {"check", r.min+r.max > 0},
		"a refusal":                 {"lost", r.loss == "refuse"},
		"a role without many: true": {"role", r.Role != noRole && !r.Role.Many},
		"a text with leading zeros": {"as", slices.Max(r.width) > 0},
	}
	inOne, isList := r.onlyForm() >= 0, r.Each != nil
	lacks := slices.ContainsFunc(s.table.forms, func(f form) bool {
		return r.Path[f.index] == "" && o.paths[f.index] != ""
	})
	for _, rule := range []struct {
		where     string
		is        bool
		forbidden string // keys and things
	}{
		{"in a request", m == Request, "means, no_value_while, other, a value of the request"},
		{"in a reply", m == Reply, "check, code, a constant, a refusal"},
		{"in a reply of a read", m == Reply && o.Effect != Write, "required: true"},
		{"in a reply without means, such as means: {VALUE: MEANING}", m == Reply, "a role with moves"},
		{
			"in a callback", m == callbackMessage,
			"no_value_while, check, code, required: true, a value of the request, a refusal",
		},
		{"in an item of a list", inList, "means, no_value_while, a role without many: true"},
		{"beside each", isList, "role, means, no_value_while, fill"},
		{"in a row with items, or in one form", isList && (!r.list || inOne), "as, shift, values, check"},
		{"in a row of one form", inOne, "values, shift, a pattern, as: decimal"},
		{
			"in a row that has a path in each form: " +
				fmt.Sprintf("its name is the path in %s, unless it has %[1]s: null", s.firstForm()),
			!lacks && o.paths[0] != "" && o.paths[1] != "", "fill, lost",
		},
		{
			"with this role: it is the same in request and reply, or replaced", r.Role.Same != "",
			"values, shift, a text with leading zeros, a pattern",
		},
		{
			"with a secret role: commands and pages show the table", r.Role.Secret,
			"values, a constant, a list of values",
		},
		{"without a role that has moves", r.Role.means == nil, "means"},
		{"with as: digits", r.digits, "a list of values, a number of digits"},
		{"beside means: only text has a meaning", r.Means != nil, "as"},
		{"in two forms", r.Shift[0] > 0 && r.Shift[1] > 0, "shift"},
		{"with as: decimal or shift", r.isMoved(), "a range, a number of digits, no_value_while, other"},
		{"with leading zeros", slices.Max(r.width) > 0, "no_value_while, check, shift"},
		{"without as: digits or as: decimal", r.as == "", "shift"},
		{"beside fill: $PATH", r.echoed != "", "values, shift, a pattern, as: decimal"},
		{
			"unless as: digits is a number in one form and text in the other", !s.table.convertsDigits(r),
			"no_value_while, other",
		},
		{`beside a pair of a number and ""`, r.empty.kind != absent, "no_value_while"},
		{"without required or check", m == Request && !r.Required && r.Check == nil, "code"},
	} {
		for name := range strings.SplitSeq(rule.forbidden, ", ") {
			thing, special := things[name]
			if at := child(r.node, cmp.Or(thing.key, name)); at != nil && rule.is && (!special || thing.has) {
				s.errorf(at, "%s is not allowed %s", name, rule.where)
			}
		}
	}
}

// convertsDigits reports whether one form has the row's digits as a number, and the other as text.
func (t *Table) convertsDigits(r *row) bool {
	return r.onlyForm() < 0 && r.digits && r.digitsIn(&t.forms[0]) != r.digitsIn(&t.forms[1])
}
