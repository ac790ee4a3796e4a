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

// sameCode reports whether two items of the catalogue are about the same code of the same form.
func sameCode(a, b *yaml.Node) bool {
	form := func(n *yaml.Node) string {
		if f := child(n, "form"); f != nil {
			return f.Value
		}
		return ""
	}
	return codeOf(a).Kind == yaml.ScalarNode && codeOf(a).Value == codeOf(b).Value && form(a) == form(b)
}

// readMeanings reads the meanings of codes. The codes of the catalogue have been read before.
func (s *source) readMeanings(t *Table, n *yaml.Node) {
	t.meanings, t.formMeanings = map[string]Meaning{}, [2]map[string]Meaning{{}, {}}
	var later []func() // reads codes of one form, which are checked against the catalogue
	for i, item := range n.Content {
		if slices.ContainsFunc(n.Content[:i], func(before *yaml.Node) bool { return sameCode(before, item) }) {
			s.errorf(item, "the catalogue has the code %q twice", codeOf(item).Value)
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
		if code == t.success.code && means != nil {
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
	case means == nil:
		return // an overlay removes the meaning of the code
	}
	m := Meaning(s.oneOf(means, "means", allMeanings...))
	switch known := slices.Contains(t.catalogue, code); {
	case f == 0 && !known:
		s.errorf(form, "%q is not in the catalogue, which lists the codes of %s%s", code, form.Value, DidYouMean(code, t.catalogue))
	case known && s.overlayOf[s.catalogued(code)] != "" && t.meanings[code] == "":
		s.errorf(s.catalogued(code), "%q means %s in %s: to add it to the catalogue, write {code: %q, means: %[2]s}", code, m, form.Value, code)
	case known && t.meanings[code] != m && (m != NotFound || t.meanings[code] != CallerRefused):
		s.errorf(means, "means: %q is in the catalogue with another meaning, so it cannot mean %s", code, m)
	}
	t.formMeanings[f][code] = m
}

// catalogued returns the item of the catalogue that has a code for both forms.
func (s *source) catalogued(code string) *yaml.Node {
	items := child(s.root, "catalogue").Content
	return items[slices.IndexFunc(items, func(item *yaml.Node) bool { return child(item, "form") == nil && codeOf(item).Value == code })]
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
		case "means":
			r.means = s.texts(v, "means")
		default:
			s.unknownKey(key, "a role", "about", "secret", "public", "many", "unconverted", "zero_is_a_value", "means")
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
