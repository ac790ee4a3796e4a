package translate

import (
	"slices"

	"go.yaml.in/yaml/v4"
)

// A codeKey is the code of an item of the catalogue, and its form; form is "" for a code of the catalogue.
type codeKey struct{ code, form string }

// keyOfCode returns the key of an item of the catalogue. The item is a mapping, or the code itself.
func keyOfCode(item *yaml.Node) (key codeKey) {
	key.code = item.Value
	if code := child(item, "code"); code != nil {
		key.code = code.Value
	}
	if form := child(item, "form"); form != nil {
		key.form = form.Value
	}
	return key
}

// readCatalogue reads the codes and their meanings.
func (s *source) readCatalogue(n *yaml.Node) {
	t := s.table
	t.known = [3]map[string]CodeMeaning{{}, {}, {}}
	for _, item := range s.items(n, "catalogue") {
		var c struct {
			Code  string `must:"be"`
			Form  int    `is:"a form"`
			Means Meaning
		}
		c.Form = catalogued
		if item.Kind != yaml.MappingNode {
			c.Code = s.str(item, "a code")
		} else {
			s.decode(item, "an item of the catalogue", &c)
		}
		if c.Code == "" || c.Form < 0 {
			continue
		}
		if _, twice := t.known[c.Form][c.Code]; twice {
			s.errorf(item, "the catalogue has the code %q twice", c.Code)
		}
		m := CodeMeaning{Code: c.Code, Means: c.Means}
		if c.Form == catalogued {
			t.catalogue = append(t.catalogue, c.Code)
		} else {
			m.Form = t.forms[c.Form].name
		}
		t.known[c.Form][c.Code], s.codeItems[keyOfCode(item)] = m, item
		t.meanings = append(t.meanings, m)
	}
}

// checkMeanings checks the meanings of codes. If a code of one form is in the catalogue, its meaning there cannot be
// changed, with one exception: a backend may answer caller_refused if it knows nothing of the caller's, which is then
// not_found.
func (s *source) checkMeanings() {
	t := s.table
	for _, m := range t.meanings {
		item := s.codeItems[codeKey{m.Code, string(m.Form)}]
		known, in := t.known[catalogued][m.Code]
		switch {
		case m.Means == "": // perhaps an overlay removes the meaning of the code
		case slices.Contains(t.success.code[:], m.Code):
			s.errorf(item, "%q is the code of a success and cannot have a meaning", m.Code)
		case !in && m.Form == t.forms[0].name:
			hint := s.suggest(m.Code, t.catalogue)
			s.errorf(item, "%q is not in the catalogue, which lists the codes of %s%s", m.Code, m.Form, hint)
		case !in || known.Means == m.Means || m.Means == NotFound && known.Means == CallerRefused:
		case known.Means == "" && s.overlayOf[s.codeItems[codeKey{code: m.Code}]] != "":
			s.errorf(s.codeItems[codeKey{code: m.Code}], "%q means %s in %s: to add it to the catalogue, "+
				"write {code: %[1]q, means: %[2]s}", m.Code, m.Means, m.Form)
		default:
			s.errorf(item, "means: %q is in the catalogue with another meaning, so it cannot mean %s", m.Code, m.Means)
		}
	}
}

// checkCode checks that a code is in the catalogue, and returns it.
func (s *source) checkCode(n *yaml.Node, code string) string {
	if known := s.table.catalogue; code != "" && len(known) > 0 && !s.table.InCatalogue(code) {
		s.errorf(n, "%q is not in the catalogue%s", code, s.suggest(code, known))
	}
	return code
}

// readCodePairs reads the pairs of codes. The code of a success cannot have a pair: it would turn a refusal into a
// success, or a success into a refusal.
func (s *source) readCodePairs(n *yaml.Node) {
	before := len(s.problems)
	if s.table.codes = s.readPairs(n); len(s.problems) > before {
		return
	}
	for i := range s.table.codes.list {
		p := &s.table.codes.list[i]
		for form, c := range p.Values {
			p.Values[form].json = s.table.forms[form].codeJSON(c.text)
			switch {
			case (c.kind != text || c.text == "") && (s.table.forms[form].Codes != "number" || c.kind != number):
				s.errorf(n.Content[i], "codes: a code must be non-empty text in quotes, but is %s", c.json)
			case slices.Contains(s.table.success.code[:], c.text):
				s.errorf(n.Content[i], "codes: %q is the code of a success and cannot have a pair", c.text)
			case form == 0: // the catalogue lists the codes of this form only
				s.checkCode(child(n.Content[i], s.forms[0]), c.text)
			}
		}
	}
}
