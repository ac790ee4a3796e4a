package translate

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// readTable reads the tree into the table.
func (s *source) readTable() {
	t := s.table
	var keys struct {
		Forms, Success, Invalid, Unknown, Bounds, Options, Roles, Fields *yaml.Node
		Catalogue, Common, Codes, Operations, Callbacks                  *yaml.Node
	}
	t.options, t.interned = map[string]bool{}, map[string]string{}
	t.roles, t.fields = map[string]*role{}, map[string]*fieldText{}
	s.decode(s.root, "a table", &keys)
	s.readForms(keys.Forms)
	for name, v := range s.members(keys.Options, "options") {
		t.options[name.Value] = s.boolean(v, name.Value)
	}
	for name, v := range s.members(keys.Roles, "roles") {
		t.roles[name.Value] = s.readRole(name.Value, v)
	}
	for name, v := range s.members(keys.Fields, "fields") {
		t.fields[name.Value] = &fieldText{}
		s.decode(v, "a field", t.fields[name.Value])
	}
	s.readCatalogue(keys.Catalogue)
	switch {
	case len(s.problems) > 0:
		return
	case t.forms[1].name == "":
		s.errorf(s.root, "forms: a table needs exactly two forms")
		return
	}
	s.forms = []string{string(t.forms[0].name), string(t.forms[1].name)}
	t.bounds = "upstream"
	if keys.Bounds != nil {
		t.bounds = oneOf(s, keys.Bounds, "bounds", "upstream", "enforce")
	}
	s.readSuccess(keys.Success)
	if keys.Invalid != nil {
		t.invalid = s.refusalCode(keys.Invalid)
	}
	if t.invalid == "" {
		s.errorf(s.root, "invalid: the code is missing; it is for refusals whose row names none")
	}
	s.readUnknown(keys.Unknown)
	s.readMeanings(keys.Catalogue)
	s.readCodePairs(keys.Codes)
	if keys.Operations == nil {
		s.errorf(s.root, "operations is missing")
		return
	}
	for name, value := range s.members(keys.Operations, "operations") {
		s.readOperation(name, value)
	}
	s.readCallbacks(keys.Callbacks, keys.Operations)
	s.checkReferences(keys.Operations)
	for name := range members(keys.Options) {
		if !s.usedOptions[name.Value] && len(s.problems) == 0 { // a misspelled option would have no effect
			hint := DidYouMean(name.Value, slices.Collect(maps.Keys(s.usedOptions)))
			s.errorf(name, "options: no row has when or unless with %q%s", name.Value, hint)
		}
	}
}

func (s *source) readSuccess(n *yaml.Node) {
	t := s.table
	var keys struct{ Code, Text *yaml.Node }
	if n != nil {
		s.decode(n, "success", &keys)
	}
	s.oneForEachForm(keys.Code, "success.code", func(f int, v *yaml.Node) {
		read := s.checkCode
		if f != 0 { // the catalogue lists the codes of the first form only
			read = func(n *yaml.Node) string { return s.str(n, "a code") }
		}
		t.success.code[f] = read(v)
		t.success.codeJSON[f] = string(appendString(nil, t.success.code[f]))
	})
	if keys.Text != nil {
		if c := s.constant(keys.Text); c != nil {
			t.success.text, t.success.textJSON = c.text, string(appendString(nil, c.text))
		}
	}
	for f, code := range t.success.code {
		if code == "" {
			s.errorf(s.root, "success: the code for %s is missing; write success: {code: …}", t.forms[f].name)
		}
	}
}

// oneForEachForm calls f for both forms with the value n, or with the value that the mapping n has for each.
func (s *source) oneForEachForm(n *yaml.Node, what string, f func(form int, v *yaml.Node)) {
	if n == nil || n.Kind == yaml.MappingNode {
		s.eachForm(n, what, f)
		return
	}
	f(0, n)
	f(1, n)
}

// readUnknown reads what happens to fields without a row.
func (s *source) readUnknown(n *yaml.Node) {
	unknown := map[Message][2]string{Request: {"refuse", "refuse"}, Reply: {"drop", "drop"}}
	for key, value := range s.members(n, "unknown") {
		m := oneOf(s, key, "a key of unknown", Request, Reply)
		allowed := []string{"drop", "pass", "refuse"}
		if m != Request {
			allowed = allowed[:2]
		}
		words := unknown[m]
		s.oneForEachForm(value, "unknown", func(f int, v *yaml.Node) {
			what := "unknown." + key.Value
			if v != value {
				what += "." + s.forms[f]
			}
			words[f] = oneOf(s, v, what, allowed...)
		})
		unknown[m] = words
	}
	unknown[callbackMessage] = unknown[Reply]
	s.table.unknown = unknown
}

// checkReferences checks what can be checked only when the whole table has been read.
func (s *source) checkReferences(operations *yaml.Node) {
	t := s.table
	for _, n := range s.refusalCodes {
		if slices.Contains(t.success.code[:], n.Value) {
			s.errorf(n, "a refusal cannot have %q, the code of a success", n.Value)
		}
	}
	paths := map[string]string{} // by path: the operation, since the gateway finds the operation of a call by its path
	for i, o := range t.operations {
		name := operations.Content[2*i]
		for role, value := range o.sets {
			if t.hasMeanings(role) && t.Meaning(role, value) == "" {
				s.errorf(child(operations.Content[2*i+1], "sets"),
					"sets: %q has no meaning: add it to means of a row with role: %s", value, role)
			}
		}
		for _, p := range o.paths {
			switch other := paths[p]; {
			case p == "":
			case other == o.Name:
				s.errorf(name, "%s has the same path in both forms, %s", o.Name, p)
			case other != "":
				s.errorf(name, "%s and %s have the same path, %s", other, o.Name, p)
			}
			paths[p] = o.Name
		}
	}
}

func (s *source) readForms(n *yaml.Node) {
	count := 0
	for name, value := range s.members(n, "forms") {
		if count++; count > 2 {
			s.errorf(name, "forms: a table needs exactly two forms, but %q is another one", name.Value)
			continue
		}
		if s.isReserved(name.Value) {
			s.errorf(name, "a form cannot be named %q, which is a key of rows or operations", name.Value)
		}
		s.table.forms[count-1] = s.readForm(name, value)
	}
}

func (s *source) readForm(name, value *yaml.Node) form {
	f := form{name: Form(s.str(name, "the name of a form")), digits: text}
	s.decode(value, "a form", &f)
	if f.Digits == "number" {
		f.digits = number
	}
	slashes := strings.HasPrefix(f.Prefix, "/") && strings.HasSuffix(f.Prefix, "/")
	if v := child(value, "prefix"); v != nil && !slashes {
		s.errorf(v, "prefix must begin and end with a slash, but is %s", show(v))
	}
	for _, key := range []string{"code", "text", "digits"} {
		if value.Kind == yaml.MappingNode && child(value, key) == nil {
			s.errorf(name, "form %q: %s is missing", name.Value, key)
		}
	}
	if f.Code != "" && (f.Code == f.Text || f.Code == f.Result) || f.Text != "" && f.Text == f.Result {
		s.errorf(name, "form %q: code, text and result must have different names", name.Value)
	}
	return f
}

// fieldName returns one name of a path.
func (s *source) fieldName(n *yaml.Node) string {
	name := s.str(n, "a field name")
	if name != "" {
		s.checkFieldName(n, name)
	}
	return name
}

// checkFieldName allows only characters without a meaning in JSON paths: the gateway uses the names of an envelope in
// them.
func (s *source) checkFieldName(n *yaml.Node, name string) {
	const letters, digits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-$", "0123456789"
	switch {
	case strings.Trim(name, letters+digits) != "":
		s.errorf(n, "a field name can have letters, digits, _, - and $, but is %q", name)
	case strings.Trim(name, digits) == "":
		s.errorf(n, "a field name needs a letter, _, - or $, but is %q", name)
	}
}
