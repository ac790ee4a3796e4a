package translate

import (
	"slices"

	"go.yaml.in/yaml/v4"
)

// codeOf returns the code of an item of the catalogue. The item is a mapping with a code, or the code itself.
func codeOf(item *yaml.Node) *yaml.Node {
	if code := child(item, "code"); code != nil {
		return code
	}
	return item
}

// A codeKey is the code of an item of the catalogue, and its form; form is "" for a code of the catalogue.
type codeKey struct{ code, form string }

func keyOfCode(item *yaml.Node) codeKey {
	key := codeKey{code: codeOf(item).Value}
	if form := child(item, "form"); form != nil {
		key.form = form.Value
	}
	return key
}

// readCatalogue reads the codes of the catalogue.
func (s *source) readCatalogue(n *yaml.Node) {
	for _, item := range s.items(n, "catalogue") {
		if child(item, "form") == nil {
			code := s.str(codeOf(item), "a code")
			s.table.catalogue, s.table.interned[code] = append(s.table.catalogue, code), code
		}
	}
}

// codeKeys are the keys of an item of the catalogue.
type codeKeys struct{ Code, Form, Means *yaml.Node }

// readMeanings reads the meanings of codes. The codes of the catalogue have been read before.
func (s *source) readMeanings(n *yaml.Node) {
	t := s.table
	t.meanings, t.formMeanings = map[string]Meaning{}, [2]map[string]Meaning{{}, {}}
	t.uncounted = [2]map[string]bool{{}, {}}
	var ofOneForm []codeKeys // checked against the catalogue
	for _, item := range s.items(n, "catalogue") {
		key := keyOfCode(item)
		if s.codeItems[key] != nil {
			s.errorf(item, "the catalogue has the code %q twice", key.code)
		} else if codeOf(item).Kind == yaml.ScalarNode {
			s.codeItems[key] = item
		}
		if item.Kind != yaml.MappingNode {
			continue
		}
		var k codeKeys
		s.decode(item, "a code", &k)
		switch {
		case k.Code == nil:
			s.errorf(item, "this item of the catalogue has no code:")
		case s.str(k.Code, "a code") == "":
		case k.Means != nil && slices.Contains(t.success.code[:], key.code):
			s.errorf(k.Means, "%q is the code of a success and cannot have a meaning", key.code)
		case k.Form != nil:
			ofOneForm = append(ofOneForm, k)
		case k.Means != nil:
			t.meanings[key.code] = oneOf(s, k.Means, "means", allMeanings...)
		}
	}
	for _, k := range ofOneForm {
		s.readFormCode(k)
	}
}

// readFormCode reads a code with form: FORM. If the code is in the catalogue, its meaning there cannot be changed,
// with one exception: a backend may answer caller_refused if it has no bill of the caller, which is then not_found.
func (s *source) readFormCode(k codeKeys) {
	t, code := s.table, k.Code.Value
	if s.str(k.Form, "form") == "" {
		return
	}
	f := s.form(k.Form, "form")
	switch {
	case f < 0:
		return
	case k.Means == nil: // perhaps an overlay removes the meaning of the code
		t.uncounted[f][code] = true
		return
	}
	m := oneOf(s, k.Means, "means", allMeanings...)
	catalogued, means := s.codeItems[codeKey{code: code}], t.meanings[code]
	switch {
	case catalogued == nil && f == 0:
		hint := s.suggest(code, t.catalogue)
		s.errorf(k.Form, "%q is not in the catalogue, which lists the codes of %s%s", code, k.Form.Value, hint)
	case catalogued == nil || means == m || m == NotFound && means == CallerRefused:
	case s.overlayOf[catalogued] != "" && means == "":
		s.errorf(catalogued, "%q means %s in %s: to add it to the catalogue, write {code: %q, means: %[2]s}",
			code, m, k.Form.Value, code)
	default:
		s.errorf(k.Means, "means: %q is in the catalogue with another meaning, so it cannot mean %s", code, m)
	}
	t.formMeanings[f][code] = m
}

// checkCode returns a code, which must be in the catalogue.
func (s *source) checkCode(n *yaml.Node) string {
	code := s.str(n, "a code")
	if known := s.table.catalogue; code != "" && len(known) > 0 && !s.table.InCatalogue(code) {
		s.errorf(n, "%q is not in the catalogue%s", code, s.suggest(code, known))
	}
	return code
}

// refusalCode returns the code of a refusal. checkReferences compares it with the code of a success.
func (s *source) refusalCode(n *yaml.Node) string {
	s.refusalCodes = append(s.refusalCodes, n)
	return s.checkCode(n)
}

// readCodePairs reads the pairs of codes. The code of a success cannot have a pair: it would turn a refusal into a
// success, or a success into a refusal.
func (s *source) readCodePairs(n *yaml.Node) {
	before := len(s.problems)
	if s.table.codes = s.readPairs(n); len(s.problems) > before {
		return
	}
	for i, p := range s.table.codes.list {
		for form, c := range p.values {
			switch {
			case c.kind != text || c.text == "":
				s.errorf(n.Content[i], "codes: a code must be non-empty text in quotes, but is %s", c.json)
			case slices.Contains(s.table.success.code[:], c.text):
				s.errorf(n.Content[i], "codes: %q is the code of a success and cannot have a pair", c.text)
			case form == 0: // the catalogue lists the codes of this form only
				s.checkCode(child(n.Content[i], s.forms[0]))
			}
		}
	}
}
