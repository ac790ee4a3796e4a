package translate

import (
	"cmp"
	"slices"
	"strings"
)

// A standing is a row, and where it stands.
type standing struct {
	*row
	message Message
	inList  bool
	o       *Operation
}

// things are what a row can have besides keys: what the value of a key is.
var things = map[string]struct {
	key, name string
	has       func(r *row) bool
}{
	"choice":   {"check", "a list of values", func(r *row) bool { return r.oneOf != nil }},
	"constant": {"fill", "a constant", func(r *row) bool { return r.always.kind != absent }},
	"count":    {"check", "a number of digits", func(r *row) bool { return r.exactDigits > 0 }},
	"decimal":  {"as", "as: decimal", func(r *row) bool { return r.as == "decimal" }},
	"echo":     {"fill", "a value of the request", func(r *row) bool { return r.echoed != "" }},
	"must":     {"required", "required: true", func(r *row) bool { return r.Required }},
	"other":    {"values", "other", func(r *row) bool { return r.Otherwise != "" }},
	"pattern":  {"as", "a pattern", func(r *row) bool { return r.pattern[0] != "" }},
	"range":    {"check", "a range", func(r *row) bool { return r.min+r.max > 0 }},
	"refuse":   {"lost", "a refusal", func(r *row) bool { return r.loss == "refuse" }},
	"single":   {"role", "a role without many: true", func(r *row) bool { return r.Role != noRole && !r.Role.Many }},
	"zeros":    {"as", "a text with leading zeros", func(r *row) bool { return slices.Max(r.width) > 0 }},
}

// rules say what a row cannot have, by where it stands or what else it has.
var rules = []struct {
	where     string
	is        func(p standing) bool
	forbidden string // keys and things
}{
	{"in a request", func(p standing) bool { return p.message == Request }, "means no_value_while other echo"},
	{"in a reply", func(p standing) bool { return p.message == Reply }, "check code must constant refuse"},
	{"in a callback", func(p standing) bool { return p.message == callbackMessage }, "no_value_while check code must echo refuse"},
	{"in an item of a list", func(p standing) bool { return p.inList }, "means no_value_while single"},
	{"beside each", func(p standing) bool { return p.Each != nil }, "role means no_value_while fill"},
	{
		"in a row with items, or in one form", func(p standing) bool { return p.Each != nil && (!p.list || p.onlyForm() >= 0) },
		"as shift values check",
	},
	{"in a row of one form", func(p standing) bool { return p.onlyForm() >= 0 }, "values shift pattern decimal"},
	{"in a row that has a path in each form", standing.isEverywhere, "fill lost"},
	{"with this role: it is the same in request and reply, or replaced", func(p standing) bool { return p.Role.Same != "" }, "values shift zeros pattern"},
	{"with a secret role: commands and pages show the table", func(p standing) bool { return p.Role.Secret }, "values constant choice"},
	{"without a role that has moves", func(p standing) bool { return p.Role.means == nil }, "means"},
	{"with as: digits", func(p standing) bool { return p.digits }, "choice count"},
	{"beside means: only text has a meaning", func(p standing) bool { return p.Means != nil }, "as"},
	{"in two forms", func(p standing) bool { return p.Shift[0] > 0 && p.Shift[1] > 0 }, "shift"},
	{"with as: decimal or shift", func(p standing) bool { return p.isMoved() }, "range count no_value_while other"},
	{"with leading zeros", func(p standing) bool { return slices.Max(p.width) > 0 }, "no_value_while check shift"},
	{"without as: digits or as: decimal", func(p standing) bool { return p.as == "" }, "shift"},
	{"beside fill: $PATH", func(p standing) bool { return p.echoed != "" }, "values shift pattern decimal"},
	{
		"unless as: digits is a number in one form and text in the other", func(p standing) bool { return !p.o.table.convertsDigits(p.row) },
		"no_value_while other",
	},
	{`beside a pair of a number and ""`, func(p standing) bool { return p.Empty.kind != absent }, "no_value_while"},
	{
		"without required or check", func(p standing) bool { return p.message == Request && !p.Required && p.Check == nil },
		"code",
	},
}

// checkRules checks a row against the rules.
func (s *source) checkRules(p standing) {
	for _, rule := range rules {
		for name := range strings.FieldsSeq(rule.forbidden) {
			thing, special := things[name]
			at := child(p.node, cmp.Or(thing.key, name))
			if at != nil && rule.is(p) && (!special || thing.has(p.row)) {
				s.errorf(at, "%s is not allowed %s", cmp.Or(thing.name, name), rule.where)
			}
		}
	}
}

// isEverywhere reports whether a row has a path in each form of its operation.
func (p standing) isEverywhere() bool {
	for f, path := range p.Path {
		if path == "" && p.o.paths[f] != "" {
			return false
		}
	}
	return p.o.paths[0] != "" && p.o.paths[1] != ""
}

// convertsDigits reports whether one form has the row's digits as a number, and the other as text.
func (t *Table) convertsDigits(r *row) bool {
	return r.onlyForm() < 0 && r.digits && r.digitsIn(&t.forms[0]) != r.digitsIn(&t.forms[1])
}
