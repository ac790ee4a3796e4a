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

// The codes of a form that stand for codes of the first form are pairs of these two.
const ofFirst, ofForeign = 0, 1

// readCodes reads the codes of the first form, by what they mean, then those of each form that differ.
func (s *source) readCodes(n *yaml.Node) {
	t := s.table
	t.inCatalogue = map[string]CodeMeaning{}
	for range t.forms {
		t.known = append(t.known, map[string]CodeMeaning{})
		t.codes = append(t.codes, pairs{at: []map[string]int{{}, {}}})
	}
	s.readSuccess(child(n, "success"))
	for group, codes := range s.members(without(n, "success"), "codes") {
		means := oneOf(s, group, "a group of codes", groups...)
		for _, item := range s.items(codes, "codes."+group.Value) {
			code := s.str(item, "a code")
			known, twice := t.inCatalogue[code]
			switch {
			case code == "":
			case slices.Contains(t.success.code, code):
				s.errorf(item, "%q is the code of a success and stands in no group", code)
			case twice:
				s.errorf(item, "the code %q is already in the group %s", code, cmp.Or(known.Means, open))
			case means != "":
				t.addToCatalogue(code, means)
			}
		}
	}
	for f := range t.forms {
		s.readCodesOf(f, t.forms[f].Codes)
	}
	for f, form := range t.forms { // it passes unchanged
		for code := range t.known[f] {
			for g, other := range t.codes {
				first, taken := other.find(ofForeign, ofFirst, code)
				if _, stands := t.codes[f].find(ofForeign, ofFirst, code); taken && g != f && !stands && !t.InCatalogue(code) {
					s.errorf(form.Codes, "codes: %q of %s stands for %s in %s, where its clients would get it", code, form.name,
						first.text, t.forms[g].name)
				}
			}
		}
	}
}

// addToCatalogue adds a code of the first form.
func (t *Table) addToCatalogue(code string, means Meaning) {
	t.catalogue = append(t.catalogue, code)
	t.addMeaning(CodeMeaning{Code: code, Means: means}, t.inCatalogue)
}

// addMeaning adds what a code means. Those of open have no meaning.
func (t *Table) addMeaning(m CodeMeaning, to map[string]CodeMeaning) {
	if m.Means == open {
		m.Means = ""
	}
	if to[m.Code] = m; m.Means != "" {
		t.meanings = append(t.meanings, m)
	}
}

// readCodesOf reads the codes of a form that the first form does not have, or that mean one thing more there: the codes
// of the first form that each stands for, or what it means. If a code is in the catalogue, its meaning there cannot be
// changed, with one exception: a backend may answer caller_refused if it knows nothing of the caller's, which is then
// not_found.
func (s *source) readCodesOf(f int, n *yaml.Node) {
	t, form := s.table, &s.table.forms[f]
	for code, is := range s.members(n, "codes") {
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
			case isMeaning && slices.Contains(t.success.code, code.Value):
				s.errorf(code, "%q is the code of a success and cannot have a meaning", code.Value)
			case isMeaning && means != open && !in && f == 0:
				s.errorf(code, "%q is none of the codes of %s%s", code.Value, form.name, DidYouMean(code.Value, t.catalogue))
			case isMeaning && means != open && in && changes:
				s.errorf(code, "%q is in the group %s, so it cannot mean %s", code.Value, cmp.Or(known.Means, open), means)
			case isMeaning:
				t.addMeaning(CodeMeaning{Code: code.Value, Form: form.name, Means: means}, t.known[f])
			case f == 0:
				s.errorf(one, "codes: a code of %s stands for itself; write what else it means", form.name)
			case slices.Contains(t.success.code, first), t.success.code[f] == code.Value:
				s.errorf(one, "codes: the code of a success stands for no other code, and none stands for it")
			default:
				s.text(one, what, "a code")
				t.codes[f].add([]constant{{text: first}, {text: code.Value}})
			}
		}
	}
}
