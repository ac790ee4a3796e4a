package translate

import (
	"cmp"
	"slices"
	"strings"
)

// checkRules checks what keys of a row go together, and with its place.
func (s *source) checkRules(o *Operation, m Message, r *row, inList bool) {
	// What a row can have besides keys: what the value of a key is.
	things := map[string]struct {
		key, name string
		has       bool
	}{
		"choice":   {"check", "a list of values", r.oneOf != nil},
		"constant": {"fill", "a constant", r.always.kind != absent},
		"count":    {"check", "a number of digits", r.exactDigits > 0},
		"decimal":  {"as", "as: decimal", r.as == "decimal"},
		"echo":     {"fill", "a value of the request", r.echoed != ""},
		"moves":    {"role", "a role with moves", r.Role.means != nil && len(r.Means) == 0},
		"must":     {"required", "required: true", r.Required},
		"other":    {"values", "other", r.Otherwise != ""},
		"pattern":  {"as", "a pattern", r.pattern[0] != ""},
		"range":    {"check", "a range", r.min+r.max > 0},
		"refuse":   {"lost", "a refusal", r.loss == "refuse"},
		"single":   {"role", "a role without many: true", r.Role != noRole && !r.Role.Many},
		"zeros":    {"as", "a text with leading zeros", slices.Max(r.width) > 0},
	}
	inOne, isList := r.onlyForm() >= 0, r.Each != nil
	lacks := slices.ContainsFunc(s.table.forms, func(f form) bool { return r.Path[f.index] == "" && o.paths[f.index] != "" })
	for _, rule := range []struct {
		where     string
		is        bool
		forbidden string // keys and things
	}{
		{"in a request", m == Request, "means no_value_while other echo"},
		{"in a reply", m == Reply, "check code must constant refuse"},
		{"in a reply without means, such as means: {VALUE: MEANING}", m == Reply, "moves"},
		{"in a callback", m == callbackMessage, "no_value_while check code must echo refuse"},
		{"in an item of a list", inList, "means no_value_while single"},
		{"beside each", isList, "role means no_value_while fill"},
		{"in a row with items, or in one form", isList && (!r.list || inOne), "as shift values check"},
		{"in a row of one form", inOne, "values shift pattern decimal"},
		{"in a row that has a path in each form", !lacks && o.paths[0] != "" && o.paths[1] != "", "fill lost"},
		{"with this role: it is the same in request and reply, or replaced", r.Role.Same != "", "values shift zeros pattern"},
		{"with a secret role: commands and pages show the table", r.Role.Secret, "values constant choice"},
		{"without a role that has moves", r.Role.means == nil, "means"},
		{"with as: digits", r.digits, "choice count"},
		{"beside means: only text has a meaning", r.Means != nil, "as"},
		{"in two forms", r.Shift[0] > 0 && r.Shift[1] > 0, "shift"},
		{"with as: decimal or shift", r.isMoved(), "range count no_value_while other"},
		{"with leading zeros", things["zeros"].has, "no_value_while check shift"},
		{"without as: digits or as: decimal", r.as == "", "shift"},
		{"beside fill: $PATH", r.echoed != "", "values shift pattern decimal"},
		{"unless as: digits is a number in one form and text in the other", !s.table.convertsDigits(r), "no_value_while other"},
		{`beside a pair of a number and ""`, r.Empty.kind != absent, "no_value_while"},
		{"without required or check", m == Request && !r.Required && r.Check == nil, "code"},
	} {
		for name := range strings.FieldsSeq(rule.forbidden) {
			thing, special := things[name]
			if at := child(r.node, cmp.Or(thing.key, name)); at != nil && rule.is && (!special || thing.has) {
				s.errorf(at, "%s is not allowed %s", cmp.Or(thing.name, name), rule.where)
			}
		}
	}
}

// convertsDigits reports whether one form has the row's digits as a number, and the other as text.
func (t *Table) convertsDigits(r *row) bool {
	return r.onlyForm() < 0 && r.digits && r.digitsIn(&t.forms[0]) != r.digitsIn(&t.forms[1])
}
