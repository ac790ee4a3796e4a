package translate

import (
	"cmp"
	"slices"

	"go.yaml.in/yaml/v4"
)

// open is the group of codes that say nothing beyond "the call failed".
const open = "open"

// groups are the names of all groups of codes but that of a success.
var groups = []Meaning{NotFound, Exists, Refused, CallerRefused, Malformed, Unavailable, open}

// readCodes reads the codes of the first form, by what they mean, then those of each form that differ.
func (s *source) readCodes(n *yaml.Node) {
	t := s.table
	t.inCatalogue = map[string]CodeMeaning{}
	s.readSuccess(child(n, "success"))
	for group, codes := range s.members(without(n, "success"), "codes") {
		means := oneOf(&s.nodes, group, "a group of codes", groups...)
		for _, item := range s.items(codes, "codes."+group.Value) {
			code := s.str(item, "a code")
			known, twice := t.inCatalogue[code]
			switch {
			case code == "":
			case s.isSuccess(code):
				s.errorf(item, "%q is the code of a success and stands in no group", code)
			case twice:
				s.errorf(item, "the code %q is already in the group %s", code, cmp.Or(known.Means, open))
			case means != "":
				s.addToCatalogue(code, means)
			}
		}
	}
	for f := range t.forms {
		s.readCodesOf(&t.forms[f])
	}
	for _, form := range t.forms { // it passes unchanged
		for code := range form.known {
			for _, other := range t.forms {
				first, stands := other.first[code], form.first[code] != ""
				if first != "" && other.name != form.name && !stands && !t.InCatalogue(code) {
					s.errorf(form.Codes, "codes: %q of %s stands for %s in %s, where its clients would get it", code,
						form.name, first, other.name)
				}
			}
		}
	}
}

// isSuccess reports whether a code is that of a success in a form.
func (s *nodes) isSuccess(code string) bool {
	return slices.ContainsFunc(s.table.forms, func(f form) bool { return f.code.text == code })
}

// addToCatalogue adds a code of the first form. Those of open have no meaning.
func (s *source) addToCatalogue(code string, means Meaning) {
	t, m := s.table, CodeMeaning{Code: code, Means: means}
	if means == open {
		m.Means = ""
	}
	t.Catalogue, t.inCatalogue[code] = append(t.Catalogue, code), m
	if m.Means != "" {
		t.Meanings = append(t.Meanings, m)
	}
}

// readCodesOf reads the codes of a form that the first form does not have, or that mean one thing more there: the codes
// of the first form that each stands for, or what it means. If a code is in the catalogue, its meaning there cannot be
// changed, with one exception: a backend may answer caller_refused if it knows nothing of the caller's, which is then
// not_found.
func (s *source) readCodesOf(form *form) {
	t := s.table
	for code, is := range s.members(form.Codes, "codes") {
		what := "codes." + s.str(code, "a code")
		known, in := t.inCatalogue[code.Value]
		for _, one := range listOf(is) {
			first := s.str(one, what)
			means := Meaning(first)
			isMeaning := !t.InCatalogue(first) && slices.Contains(groups, means)
			changes := known.Means != means && (known.Means != CallerRefused || means != NotFound)
			switch {
			case first == "":
			case isMeaning && is != one:
				s.errorf(one, "%s: a list has only codes of %s, but %s is a meaning", what, t.forms[0].name, first)
			case isMeaning && s.isSuccess(code.Value):
				s.errorf(code, "%q is the code of a success and cannot have a meaning", code.Value)
			case isMeaning && means != open && !in && form.index == 0:
				s.errorf(code, "%q is none of the codes of %s%s", code.Value, form.name,
					DidYouMean(code.Value, t.Catalogue))
			case isMeaning && means != open && in && changes:
				s.errorf(code, "%q is in the group %s, so it cannot mean %s", code.Value, cmp.Or(known.Means, open),
					means)
			case means == open:
				form.known[code.Value] = ""
			case isMeaning:
				form.known[code.Value] = means
				t.Meanings = append(t.Meanings, CodeMeaning{code.Value, form.name, means})
			case form.index == 0:
				s.errorf(one, "codes: a code of %s stands for itself; write what else it means", form.name)
			case s.isSuccess(first), form.code.text == code.Value:
				s.errorf(one, "codes: the code of a success stands for no other code, and none stands for it")
			default:
				s.text(one, what, "a code")
				form.first[code.Value] = cmp.Or(form.first[code.Value], first)
				form.own[first] = append(form.own[first], code.Value)
			}
		}
	}
}
