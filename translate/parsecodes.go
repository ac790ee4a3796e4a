package translate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// codeOf is the node of the code in an item of the catalogue, which may be the code itself.
func codeOf(item *yaml.Node) *yaml.Node {
	if code := child(item, "code"); code != nil {
		return code
	}
	return item
}

// sameCode tells whether two items of the catalogue are about the same code of the same form.
func sameCode(a, b *yaml.Node) bool {
	form := func(n *yaml.Node) string {
		if f := child(n, "form"); f != nil {
			return f.Value
		}
		return ""
	}
	return codeOf(a).Kind == yaml.ScalarNode && codeOf(a).Value == codeOf(b).Value && form(a) == form(b)
}

// meanings reads what the codes of the catalogue mean, and the codes of one form. The catalogue itself has been read.
func (s *source) meanings(t *Table, n *yaml.Node) {
	t.catalogued, t.meanings = map[string]Meaning{}, [2]map[string]Meaning{{}, {}}
	var later []func() // what needs the meanings of the catalogue
	for i, item := range n.Content {
		if slices.ContainsFunc(n.Content[:i], func(before *yaml.Node) bool { return sameCode(before, item) }) {
			s.errorf(item, "the code %q is in the catalogue already", codeOf(item).Value)
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
			s.errorf(item, "a code needs code:")
			continue
		}
		code := s.str(child(item, "code"), "a code")
		if code == t.success.code && means != nil {
			s.errorf(means, "%q is the code of a success and means nothing else", code)
			continue
		}
		if form == nil && means != nil {
			t.catalogued[code] = Meaning(s.oneOf(means, "means", allMeanings...))
		}
		if form != nil {
			later = append(later, func() { s.codeOfForm(t, code, form, means) })
		}
	}
	for _, read := range later {
		read()
	}
}

// codeOfForm reads a code that one form has, or that says more there. A code of the document means what the document says; only
// that a caller is unknown may also say that it has nothing there.
func (s *source) codeOfForm(t *Table, code string, form, means *yaml.Node) {
	f := t.formIndex(Form(s.str(form, "form")))
	switch {
	case f < 0:
		s.errorf(form, "%q is not a form of this table", form.Value)
		return
	case means == nil:
		return // an overlay takes away the meaning of a code
	}
	m := Meaning(s.oneOf(means, "means", allMeanings...))
	switch known := slices.Contains(t.catalogue, code); {
	case f == 0 && !known:
		s.errorf(form, "%q is not in the catalogue, which lists the codes of %s%s", code, form.Value, DidYouMean(code, t.catalogue))
	case known && t.catalogued[code] != m && (m != NotFound || t.catalogued[code] != CallerRefused):
		s.errorf(means, "%q is a code of the catalogue: it does not mean %s for certain", code, m)
	}
	t.meanings[f][code] = m
}

// role reads one declared role.
func (s *source) role(name, n *yaml.Node) *role {
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
			r.means = s.stringList(v, "means")
		default:
			s.unknownKey(key, "a role", "about", "secret", "public", "many", "unconverted", "zero_is_a_value", "means")
		}
	})
	if r.secret && r.public {
		s.errorf(n, "role %s is secret and public", name.Value)
	}
	return r
}

// roleName is the name of a declared role.
func (s *source) roleName(t *Table, n *yaml.Node, what string) string {
	name := s.str(n, what)
	if t.roles[name] == nil && name != "" {
		roles := slices.Sorted(maps.Keys(t.roles))
		s.errorf(n, "%s: the table has no role %q, only %s%s", what, name, cmp.Or(strings.Join(roles, ", "), "none"), DidYouMean(name, roles))
		return ""
	}
	return name
}
