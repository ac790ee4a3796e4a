package translate

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// operationKeys are the keys of an operation besides the forms.
var operationKeys = []string{"effect", "creates", "sets", "no_envelope", "explain", "state_returns", "route", "result", "request", "reply"}

// readTable reads the tree into t.
func (s *source) readTable(t *Table) {
	t.unknown = map[Message][2]string{Request: {"refuse", "refuse"}, Reply: {"drop", "drop"}}
	t.bounds = "upstream"
	t.options, t.roles, t.interned = map[string]bool{}, map[string]*role{}, map[string]string{}
	if s.readNames(t); len(s.problems) > 0 {
		return
	}
	if t.forms[1].name == "" {
		s.errorf(s.root, "forms: a table needs exactly two forms")
		return
	}
	s.readRules(t)
	operations := child(s.root, "operations")
	if operations == nil {
		s.errorf(s.root, "operations is missing")
		return
	}
	s.fields(operations, "operations", func(name, value *yaml.Node) {
		before := len(s.problems)
		t.operations = append(t.operations, s.readOperation(t, name, value))
		s.hasProblems[name.Value] = len(s.problems) > before
	})
	s.checkUniquePaths(t, operations)
	if callbacks := child(s.root, "callbacks"); callbacks != nil {
		s.readCallbacks(t, callbacks, operations)
	}
	s.checkReferences(t, operations)
}

// readNames reads the names that the rest of the table refers to: forms, options, roles and codes.
func (s *source) readNames(t *Table) {
	s.fields(s.root, "a table", func(key, value *yaml.Node) {
		switch key.Value {
		case "forms":
			s.readForms(t, value)
		case "options":
			s.fields(value, "options", func(name, v *yaml.Node) { t.options[name.Value] = s.boolean(v, name.Value) })
		case "roles":
			s.fields(value, "roles", func(name, v *yaml.Node) { t.roles[name.Value] = s.readRole(name, v) })
		case "catalogue":
			s.items(value, "catalogue", func(item *yaml.Node) {
				if child(item, "form") == nil {
					code := s.str(codeOf(item), "a code")
					t.catalogue, t.interned[code] = append(t.catalogue, code), code
				}
			})
		case "success", "invalid", "unknown", "bounds", "codes", "operations", "callbacks":
		default:
			s.unknownKey(key, "a table", "forms", "options", "roles", "catalogue", "common", "success", "invalid", "unknown", "bounds", "codes", "operations", "callbacks")
		}
	})
}

// readRules reads what applies to all operations.
func (s *source) readRules(t *Table) {
	var catalogue, codes *yaml.Node
	s.fields(s.root, "a table", func(key, value *yaml.Node) {
		switch key.Value {
		case "success":
			s.readSuccess(t, value)
		case "invalid":
			t.invalid = s.refusalCode(t, value)
		case "bounds":
			t.bounds = s.oneOf(value, "bounds", "upstream", "enforce")
		case "unknown":
			s.readUnknown(t, value)
		case "catalogue":
			catalogue = value
		case "codes":
			codes = value
		}
	})
	t.unknown[callbackMessage] = t.unknown[Reply]
	for f, code := range t.success.code {
		if code == "" {
			s.errorf(s.root, "success: the code for %s is missing; write success: {code: …}", t.forms[f].name)
		}
	}
	if t.invalid == "" {
		s.errorf(s.root, "invalid: the code is missing; it is for refusals whose row names none")
	}
	if catalogue != nil {
		s.readMeanings(t, catalogue)
	}
	if codes != nil {
		s.readCodePairs(t, codes)
	}
}

func (s *source) readSuccess(t *Table, n *yaml.Node) {
	s.fields(n, "success", func(k, v *yaml.Node) {
		switch k.Value {
		case "code":
			s.readSuccessCode(t, v)
		case "text":
			if c, ok := s.constant(v); ok {
				t.success.text, t.success.textJSON = c.text, string(appendString(nil, c.text))
			}
		default:
			s.unknownKey(k, "success", "code", "text")
		}
	})
}

// readSuccessCode reads the code of a success: one for both forms, or one for each.
func (s *source) readSuccessCode(t *Table, n *yaml.Node) {
	codes := [2]*yaml.Node{n, n}
	if n.Kind == yaml.MappingNode {
		codes = [2]*yaml.Node{}
		s.eachForm(t, n, "success.code", func(f int, v *yaml.Node) { codes[f] = v })
	}
	for f, v := range codes {
		switch {
		case v == nil:
			continue
		case f == 0: // the catalogue lists the codes of this form only
			t.success.code[f] = s.code(t, v)
		default:
			t.success.code[f] = s.str(v, "a code")
		}
		t.success.codeJSON[f] = string(appendString(nil, t.success.code[f]))
	}
}

// checkReferences checks what can be checked only when the whole table has been read.
func (s *source) checkReferences(t *Table, operations *yaml.Node) {
	for _, n := range s.refusalCodes {
		if slices.Contains(t.success.code[:], n.Value) {
			s.errorf(n, "a refusal cannot have %q, the code of a success", n.Value)
		}
	}
	for i, o := range t.operations {
		for role, value := range o.sets {
			if t.hasMeanings(role) && t.Meaning(role, value) == "" {
				s.errorf(child(operations.Content[2*i+1], "sets"), "sets: %q has no meaning: add it to means of a row with role: %s", value, role)
			}
		}
	}
	if options := child(s.root, "options"); options != nil && len(s.problems) == 0 {
		s.fields(options, "options", func(name, _ *yaml.Node) {
			if !s.usedOptions[name.Value] { // a misspelled option would have no effect
				s.errorf(name, "options: no row has when or unless with %q%s", name.Value, DidYouMean(name.Value, slices.Collect(maps.Keys(s.usedOptions))))
			}
		})
	}
}

// readCodePairs reads the pairs of codes. The code of a success cannot have a pair: it would turn a refusal into a success, or a
// success into a refusal.
func (s *source) readCodePairs(t *Table, n *yaml.Node) {
	before := len(s.problems)
	t.codes = s.readPairs(t, n)
	if len(s.problems) > before {
		return
	}
	for i, p := range t.codes.list {
		for form, c := range p.values {
			switch {
			case c.kind != text || c.text == "":
				s.errorf(n.Content[i], "codes: a code must be non-empty text in quotes, but is %s", c.json)
			case slices.Contains(t.success.code[:], c.text):
				s.errorf(n.Content[i], "codes: %q is the code of a success and cannot have a pair", c.text)
			case form == 0: // the catalogue lists the codes of this form only
				s.code(t, child(n.Content[i], string(t.forms[0].name)))
			}
		}
	}
}

func (s *source) readForms(t *Table, n *yaml.Node) {
	count := 0
	s.fields(n, "forms", func(name, value *yaml.Node) {
		if count++; count > 2 {
			s.errorf(name, "forms: a table needs exactly two forms, but %q is another one", name.Value)
			return
		}
		if slices.Contains(reservedNames, name.Value) {
			s.errorf(name, "a form cannot be named %q, which is a key of rows or operations", name.Value)
		}
		t.forms[count-1] = s.readForm(name, value)
	})
}

func (s *source) readForm(name, value *yaml.Node) form {
	f := form{name: Form(s.str(name, "the name of a form"))}
	s.fields(value, "a form", func(k, v *yaml.Node) {
		switch k.Value {
		case "code":
			f.code = s.fieldName(v)
		case "text":
			f.text = s.fieldName(v)
		case "result":
			f.result = s.fieldName(v)
		case "digits":
			f.digits = text
			if s.oneOf(v, "digits", "number", "string") == "number" {
				f.digits = number
			}
		case "prefix":
			if f.prefix = s.str(v, "prefix"); !strings.HasPrefix(f.prefix, "/") || !strings.HasSuffix(f.prefix, "/") {
				s.errorf(v, "prefix must begin and end with a slash, but is %s", show(v))
			}
		default:
			s.unknownKey(k, "a form", "code", "text", "result", "digits", "prefix")
		}
	})
	for _, key := range []string{"code", "text", "digits"} {
		if value.Kind == yaml.MappingNode && child(value, key) == nil {
			s.errorf(name, "form %q: %s is missing", name.Value, key)
		}
	}
	if f.code != "" && (f.code == f.text || f.code == f.result) || f.text != "" && f.text == f.result {
		s.errorf(name, "form %q: code, text and result must have different names", name.Value)
	}
	return f
}

func (s *source) readUnknown(t *Table, n *yaml.Node) {
	s.fields(n, "unknown", func(key, value *yaml.Node) {
		m := Message(s.oneOf(key, "a key of unknown", string(Request), string(Reply)))
		allowed := []string{"drop", "pass"}
		if m == Request {
			allowed = append(allowed, "refuse")
		}
		if value.Kind != yaml.MappingNode {
			word := s.oneOf(value, "unknown."+key.Value, allowed...)
			t.unknown[m] = [2]string{word, word}
			return
		}
		both := t.unknown[m]
		s.fields(value, "unknown", func(k, v *yaml.Node) {
			if i := t.formIndex(Form(k.Value)); i < 0 {
				s.unknownForm(t, k, "unknown")
			} else {
				both[i] = s.oneOf(v, "unknown."+key.Value+"."+k.Value, allowed...)
			}
		})
		t.unknown[m] = both
	})
}

func (s *source) readOperation(t *Table, name, n *yaml.Node) *Operation {
	o := &Operation{Name: name.Value, Explain: true, noEnvelope: -1, sets: map[string]string{}, rows: map[Message][]*row{}, table: t}
	nodes := map[string]*yaml.Node{}
	s.fields(n, "an operation", func(key, value *yaml.Node) {
		nodes[key.Value] = value
		s.readOperationKey(t, o, key, value)
	})
	if n.Kind != yaml.MappingNode {
		return o
	}
	for _, m := range []Message{Request, Reply} {
		if nodes[string(m)] == nil {
			s.errorf(name, "%s: %s is missing; write %[2]s: [] if it has no fields", o.Name, m)
			continue
		}
		s.readRows(t, o, m, nodes[string(m)])
	}
	s.checkOperation(t, o, name, nodes)
	return o
}

func (s *source) readOperationKey(t *Table, o *Operation, key, value *yaml.Node) {
	if i := t.formIndex(Form(key.Value)); i >= 0 {
		if o.paths[i] = s.str(value, "a path"); o.paths[i] != "" && (o.paths[i][0] != '/' || strings.ContainsAny(o.paths[i], "{}?#% ")) {
			s.errorf(value, "a path must start with a slash and have no pattern and no query, but is %s", show(value))
		}
		return
	}
	switch key.Value {
	case "effect":
		o.Effect = Effect(s.oneOf(value, "effect", string(Read), string(Write)))
	case "creates":
		o.Created = s.roleName(t, value, "creates")
	case "sets":
		s.fields(value, "sets", func(k, v *yaml.Node) { o.sets[s.roleName(t, k, "sets")] = s.str(v, "a value") })
	case "no_envelope":
		if o.noEnvelope = t.formIndex(Form(s.str(value, "no_envelope"))); o.noEnvelope < 0 {
			s.unknownForm(t, value, "no_envelope")
		}
	case "explain":
		o.Explain = s.boolean(value, "explain")
	case "state_returns":
		o.StateReturns = s.boolean(value, "state_returns")
	case "route":
		o.route = s.oneOf(value, "route", "stage", "default")
	case "result":
		o.list = s.oneOf(value, "result", "list") == "list"
	case "request", "reply":
	default:
		s.unknownKey(key, "an operation", append(t.formNames(), operationKeys...)...)
	}
}

// checkOperation checks how the keys of an operation go together. nodes are the values of its keys.
func (s *source) checkOperation(t *Table, o *Operation, name *yaml.Node, nodes map[string]*yaml.Node) {
	if o.paths == [2]string{} {
		s.errorf(name, "%s: the path is missing; give it one in %s, in %s or in both", o.Name, t.forms[0].name, t.forms[1].name)
	}
	if nodes["effect"] == nil {
		s.errorf(name, "%s: effect is missing; write effect: read or effect: write", o.Name)
	}
	if o.list && o.paths[0] != "" && o.paths[1] != "" {
		s.errorf(name, "%s: result: list cannot be translated, so the operation can have a path in one form only", o.Name)
	}
	if o.Created != "" && (o.Effect != Write || !o.HasRole(Request, o.Created)) {
		s.errorf(nodes["creates"], "creates: %s needs effect: write and a row of the request with role: %s", o.Name, o.Created)
	}
	if len(o.sets) > 0 && o.Effect != Write {
		s.errorf(nodes["sets"], "sets: %s needs effect: write", o.Name)
	}
	if !o.Explain && o.Effect != Write {
		s.errorf(nodes["explain"], "explain: %s needs effect: write, since only writes are explained", o.Name)
	}
	if o.noEnvelope >= 0 && t.forms[o.noEnvelope].result != "" {
		s.errorf(name, "%s: no_envelope cannot be %s, which has its results under %q", o.Name, t.forms[o.noEnvelope].name, t.forms[o.noEnvelope].result)
	}
	if o.noEnvelope >= 0 && !slices.ContainsFunc(o.rows[Reply], func(r *row) bool {
		secret := slices.ContainsFunc(o.rows[Request], func(asked *row) bool { return asked.path[0] == r.mustEqual && asked.isSecret() })
		return r.path[o.noEnvelope] != "" && (r.mustEqual != "" && !secret || r.means != nil) // a secret can be missing
	}) {
		s.errorf(name, "%s: no_envelope needs a row of %s in the reply with must_equal_request or means, to recognise a success", o.Name, t.forms[o.noEnvelope].name)
	}
}

// checkUniquePaths checks that no two operations have the same path, since the gateway finds the operation of a call by its path.
func (s *source) checkUniquePaths(t *Table, n *yaml.Node) {
	seen := map[string]string{}
	for i, o := range t.operations {
		for _, p := range o.paths {
			if p == "" {
				continue
			}
			switch other, dup := seen[p]; {
			case other == o.Name:
				s.errorf(n.Content[2*i], "%s has the same path in both forms, %s", o.Name, p)
			case dup:
				s.errorf(n.Content[2*i], "%s and %s have the same path, %s", other, o.Name, p)
			}
			seen[p] = o.Name
		}
	}
}

// code returns a code of the catalogue.
func (s *source) code(t *Table, n *yaml.Node) string {
	code := s.str(n, "a code")
	if code != "" && len(t.catalogue) > 0 && !t.InCatalogue(code) {
		s.errorf(n, "%q is not in the catalogue%s", code, s.suggest(code, t.catalogue))
	}
	return code
}

// refusalCode returns the code of a refusal. checkReferences compares it with the code of a success.
func (s *source) refusalCode(t *Table, n *yaml.Node) string {
	s.refusalCodes = append(s.refusalCodes, n)
	return s.code(t, n)
}

// fieldName returns one name of a path.
func (s *source) fieldName(n *yaml.Node) string {
	name := s.str(n, "a field name")
	if name != "" {
		s.checkFieldName(n, name)
	}
	return name
}

// checkFieldName allows only characters without a meaning in JSON paths: the gateway uses the names of an envelope in them.
func (s *source) checkFieldName(n *yaml.Node, name string) {
	letters := false
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c == '-', c == '$':
			letters = true
		case c >= '0' && c <= '9':
		default:
			s.errorf(n, "a field name can have letters, digits, _, - and $, but is %q", name)
			return
		}
	}
	if !letters {
		s.errorf(n, "a field name needs a letter, _, - or $, but is %q", name)
	}
}
