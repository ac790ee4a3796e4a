package translate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

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

// readMeanings reads the meanings of codes. The codes of the catalogue have been read before.
func (s *source) readMeanings(t *Table, n *yaml.Node) {
	t.meanings, t.formMeanings = map[string]Meaning{}, [2]map[string]Meaning{{}, {}}
	t.uncounted = [2]map[string]bool{{}, {}}
	var later []func() // reads codes of one form, which are checked against the catalogue
	s.codeItems = map[codeKey]*yaml.Node{}
	for _, item := range n.Content {
		key := keyOfCode(item)
		if s.codeItems[key] != nil {
			s.errorf(item, "the catalogue has the code %q twice", key.code)
		} else if codeOf(item).Kind == yaml.ScalarNode {
			s.codeItems[key] = item
		}
		if item.Kind != yaml.MappingNode {
			continue
		}
		var form, means *yaml.Node
		s.fields(item, "a code", func(key, v *yaml.Node) {
			switch key.Value {
			case "code":
			case "form":
				form = v
			case "means":
				means = v
			default:
				s.unknownKey(key, "a code", "code", "form", "means")
			}
		})
		if child(item, "code") == nil {
			s.errorf(item, "this item of the catalogue has no code:")
			continue
		}
		code := s.str(child(item, "code"), "a code")
		if means != nil && slices.Contains(t.success.code[:], code) {
			s.errorf(means, "%q is the code of a success and cannot have a meaning", code)
			continue
		}
		if form == nil && means != nil {
			t.meanings[code] = Meaning(s.oneOf(means, "means", allMeanings...))
		}
		if form != nil {
			later = append(later, func() { s.readFormCode(t, code, form, means) })
		}
	}
	for _, read := range later {
		read()
	}
}

// readFormCode reads a code with form: FORM. If the code is in the catalogue, its meaning there cannot be changed, with one
// exception: a backend may answer caller_refused if it has no bill of the caller, which is then not_found.
func (s *source) readFormCode(t *Table, code string, form, means *yaml.Node) {
	f := t.formIndex(Form(s.str(form, "form")))
	switch {
	case f < 0:
		s.unknownForm(t, form, "form")
		return
	case means == nil: // perhaps an overlay removes the meaning of the code
		t.uncounted[f][code] = true
		return
	}
	m := Meaning(s.oneOf(means, "means", allMeanings...))
	catalogued := s.codeItems[codeKey{code: code}]
	switch known := catalogued != nil; {
	case f == 0 && !known:
		s.errorf(form, "%q is not in the catalogue, which lists the codes of %s%s", code, form.Value, s.suggest(code, t.catalogue))
	case known && s.overlayOf[catalogued] != "" && t.meanings[code] == "":
		s.errorf(catalogued, "%q means %s in %s: to add it to the catalogue, write {code: %q, means: %[2]s}", code, m, form.Value, code)
	case known && t.meanings[code] != m && (m != NotFound || t.meanings[code] != CallerRefused):
		s.errorf(means, "means: %q is in the catalogue with another meaning, so it cannot mean %s", code, m)
	}
	t.formMeanings[f][code] = m
}

// readRole reads the declaration of a role.
func (s *source) readRole(name, n *yaml.Node) *role {
	r := &role{name: name.Value}
	s.fields(n, "a role", func(key, v *yaml.Node) {
		switch key.Value {
		case "about":
			s.str(v, "about")
		case "secret":
			r.secret = s.boolean(v, "secret")
		case "public":
			r.public = s.boolean(v, "public")
		case "many":
			r.many = s.boolean(v, "many")
		case "unconverted":
			r.unconverted = s.boolean(v, "unconverted")
		case "zero_is_a_value":
			r.zeroIsValue = s.boolean(v, "zero_is_a_value")
		case "exact":
			r.exact = s.boolean(v, "exact")
		case "means":
			r.means = s.texts(v, "means")
		default:
			s.unknownKey(key, "a role", "about", "secret", "public", "many", "unconverted", "zero_is_a_value", "exact", "means")
		}
	})
	if r.secret && r.public {
		s.errorf(n, "role %s cannot be secret and public", name.Value)
	}
	return r
}

// roleName returns the name of a declared role.
func (s *source) roleName(t *Table, n *yaml.Node, what string) string {
	name := s.str(n, what)
	if t.roles[name] == nil && name != "" {
		roles := slices.Sorted(maps.Keys(t.roles))
		s.errorf(n, "%s: the table has no role %q; its roles are %s%s", what, name, cmp.Or(strings.Join(roles, ", "), "none"), DidYouMean(name, roles))
		return ""
	}
	return name
}
