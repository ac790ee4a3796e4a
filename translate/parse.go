package translate

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// operationKeys are the keys of an operation that are not forms.
var operationKeys = []string{"effect", "creates", "sets", "no_envelope", "explain", "result", "request", "reply"}

// readTable reads the whole tree into t.
func (s *source) readTable(t *Table) {
	t.unknown = map[Message][2]string{Request: {"drop", "drop"}, Reply: {"drop", "drop"}}
	t.bounds = "upstream"
	t.options, t.roles = map[string]bool{}, map[string]*role{}
	if s.readNames(t); len(s.problems) > 0 {
		return
	}
	if t.forms[1].name == "" {
		s.errorf(s.root, "a table needs forms: with exactly two of them")
		return
	}
	s.readRules(t)
	operations := child(s.root, "operations")
	if operations == nil {
		s.errorf(s.root, "a table needs operations:")
		return
	}
	s.fields(operations, "operations", func(name, value *yaml.Node) {
		before := len(s.problems)
		t.operations = append(t.operations, s.operation(t, name, value))
		s.hasProblems[name.Value] = len(s.problems) > before
	})
	s.checkUniquePaths(t, operations)
	if callbacks := child(s.root, "callbacks"); callbacks != nil {
		s.callbacks(t, callbacks, operations)
	}
	s.checkReferences(t, operations)
}

// readNames reads what everything else refers to, wherever it stands in the file.
func (s *source) readNames(t *Table) {
	s.fields(s.root, "a table", func(key, value *yaml.Node) {
		switch key.Value {
		case "forms":
			s.forms(t, value)
		case "options":
			s.fields(value, "options", func(name, v *yaml.Node) { t.options[name.Value] = s.boolean(v, name.Value) })
		case "roles":
			s.fields(value, "roles", func(name, v *yaml.Node) { t.roles[name.Value] = s.role(name, v) })
		case "catalogue":
			s.items(value, "catalogue", func(item *yaml.Node) {
				if code := codeOf(item); child(item, "form") == nil {
					t.catalogue = append(t.catalogue, s.str(code, "a code"))
				}
			})
		case "success", "invalid", "unknown", "bounds", "codes", "operations", "callbacks":
		default:
			s.unknownKey(key, "a table", "forms", "options", "roles", "catalogue", "common", "success", "invalid", "unknown", "bounds", "codes", "operations", "callbacks")
		}
	})
}

// readRules reads what holds for all operations.
func (s *source) readRules(t *Table) {
	var catalogue, codes *yaml.Node
	s.fields(s.root, "a table", func(key, value *yaml.Node) {
		switch key.Value {
		case "success":
			s.success(t, value)
		case "invalid":
			t.invalid = s.refusalCode(t, value)
		case "bounds":
			t.bounds = s.oneOf(value, "bounds", "upstream", "enforce")
		case "unknown":
			s.unknown(t, value)
		case "catalogue":
			catalogue = value
		case "codes":
			codes = value
		}
	})
	t.unknown[callbackMessage] = t.unknown[Reply]
	if t.success.code == "" {
		s.errorf(s.root, "a table needs success: {code: …}")
	}
	if t.invalid == "" {
		s.errorf(s.root, "a table needs invalid: the code of a refusal whose row names none")
	}
	if catalogue != nil {
		s.meanings(t, catalogue)
	}
	if codes != nil {
		s.codePairs(t, codes)
	}
}

func (s *source) success(t *Table, n *yaml.Node) {
	s.fields(n, "success", func(k, v *yaml.Node) {
		switch k.Value {
		case "code":
			t.success.code = s.code(t, v)
			t.success.codeJSON = string(appendString(nil, t.success.code))
		case "text":
			if c, ok := s.constant(v); ok {
				t.success.text, t.success.textJSON = c.text, string(appendString(nil, c.text))
			}
		default:
			s.unknownKey(k, "success", "code", "text")
		}
	})
}

// checkReferences checks what refers to something that is read later in the file.
func (s *source) checkReferences(t *Table, operations *yaml.Node) {
	for _, n := range s.refusalCodes {
		if n.Value == t.success.code {
			s.errorf(n, "a refusal cannot have the code of a success, %q", n.Value)
		}
	}
	for i, o := range t.operations {
		for role, value := range o.sets {
			if t.hasMeanings(role) && t.meaning(role, value) == "" {
				s.errorf(child(operations.Content[2*i+1], "sets"), "sets: no row with role: %s gives %q a meaning", role, value)
			}
		}
	}
	if options := child(s.root, "options"); options != nil && len(s.problems) == 0 {
		s.fields(options, "options", func(name, _ *yaml.Node) {
			if !s.usedOptions[name.Value] { // a misspelled option of an overlay would be off in silence
				s.errorf(name, "no row has when or unless with the option %q%s", name.Value, DidYouMean(name.Value, slices.Collect(maps.Keys(s.usedOptions))))
			}
		})
	}
}

// codePairs reads the pairs of codes. The success code has no pair: a refusal would turn into a success by it,
// or a success into a refusal.
func (s *source) codePairs(t *Table, n *yaml.Node) {
	before := len(s.problems)
	t.codes = s.pairs(t, n)
	if len(s.problems) > before {
		return
	}
	for i, p := range t.codes {
		for form, c := range p.values {
			switch {
			case c.kind != text || c.text == "":
				s.errorf(n.Content[i], "codes: %q: a code is text, write it in quotes", c.text)
			case c.text == t.success.code:
				s.errorf(n.Content[i], "codes: %q is the code of a success in both forms and has no pair", c.text)
			case form == 0: // the other form has codes of its own
				s.code(t, child(n.Content[i], string(t.forms[0].name)))
			}
		}
	}
}

func (s *source) forms(t *Table, n *yaml.Node) {
	count := 0
	s.fields(n, "forms", func(name, value *yaml.Node) {
		if count++; count > 2 {
			s.errorf(name, "a table has exactly two forms, %q is one more", name.Value)
			return
		}
		if slices.Contains(reservedNames, name.Value) {
			s.errorf(name, "%q cannot name a form: it is a word of the rows", name.Value)
		}
		f := form{name: Form(s.str(name, "the name of a form"))}
		s.fields(value, "a form", func(k, v *yaml.Node) {
			switch k.Value {
			case "code":
				f.code = s.segment(v)
			case "text":
				f.text = s.segment(v)
			case "result":
				f.result = s.segment(v)
			case "digits":
				f.digits = text
				if s.oneOf(v, "digits", "number", "string") == "number" {
					f.digits = number
				}
			case "prefix":
				if f.prefix = s.str(v, "prefix"); !strings.HasPrefix(f.prefix, "/") || !strings.HasSuffix(f.prefix, "/") {
					s.errorf(v, "prefix must begin and end with a slash, but is %q", v.Value)
				}
			default:
				s.unknownKey(k, "a form", "code", "text", "result", "digits", "prefix")
			}
		})
		if f.code == "" || f.text == "" || f.digits == absent {
			s.errorf(name, "form %q needs code, text and digits", name.Value)
		} else if f.code == f.text || f.code == f.result || f.text == f.result {
			s.errorf(name, "form %q: code, text and result need names that differ", name.Value)
		}
		t.forms[count-1] = f
	})
}

func (s *source) unknown(t *Table, n *yaml.Node) {
	s.fields(n, "unknown", func(key, value *yaml.Node) {
		m := Message(s.oneOf(key, "a key of unknown", string(Request), string(Reply)))
		allowed := []string{"drop", "pass"}
		if m == Request {
			allowed = append(allowed, "refuse") // a reply always comes back
		}
		if value.Kind != yaml.MappingNode {
			word := s.oneOf(value, "unknown."+key.Value, allowed...)
			t.unknown[m] = [2]string{word, word}
			return
		}
		both := t.unknown[m]
		s.fields(value, "unknown", func(k, v *yaml.Node) {
			if i := t.formIndex(Form(k.Value)); i < 0 {
				s.errorf(k, "%q is not a form of this table", k.Value)
			} else {
				both[i] = s.oneOf(v, "unknown."+key.Value+"."+k.Value, allowed...)
			}
		})
		t.unknown[m] = both
	})
}

func (s *source) operation(t *Table, name, n *yaml.Node) *Operation {
	o := &Operation{Name: name.Value, Explain: true, noEnvelope: -1, sets: map[string]string{}, rows: map[Message][]*row{}, table: t}
	at := map[string]*yaml.Node{}
	s.fields(n, "an operation", func(key, value *yaml.Node) {
		at[key.Value] = value
		if i := t.formIndex(Form(key.Value)); i >= 0 {
			if o.paths[i] = s.str(value, "a path"); !strings.HasPrefix(o.paths[i], "/") || strings.ContainsAny(o.paths[i], "{}?#% ") {
				s.errorf(value, "a path must start with a slash and have no pattern or query, but is %q", value.Value)
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
				s.errorf(value, "no_envelope: %q is not a form of this table", value.Value)
			}
		case "explain":
			o.Explain = s.boolean(value, "explain")
		case "result":
			o.list = s.oneOf(value, "result", "list") == "list"
		case "request", "reply":
		default:
			s.unknownKey(key, "an operation", append(t.formNames(), operationKeys...)...)
		}
	})
	if o.paths == [2]string{} {
		s.errorf(name, "%s needs a path in at least one form", o.Name)
	}
	if o.Effect == "" {
		s.errorf(name, "%s needs effect: read or write", o.Name)
	}
	if o.list && o.paths[0] != "" && o.paths[1] != "" {
		s.errorf(name, "%s: a list result cannot be translated, only passed on in one form", o.Name)
	}
	for _, m := range []Message{Request, Reply} {
		if at[string(m)] == nil {
			s.errorf(name, "%s needs %s:", o.Name, m)
			continue
		}
		s.rows(t, o, m, at[string(m)])
	}
	s.checkOperation(t, o, name, at)
	return o
}

// checkOperation checks words of an operation that need its rows; at are the nodes of the words.
func (s *source) checkOperation(t *Table, o *Operation, name *yaml.Node, at map[string]*yaml.Node) {
	if o.Created != "" && (o.Effect != Write || !o.HasRole(Request, o.Created)) {
		s.errorf(at["creates"], "%s creates a %s: that needs effect: write and a row of the request with role: %s", o.Name, o.Created, o.Created)
	}
	if len(o.sets) > 0 && o.Effect != Write {
		s.errorf(at["sets"], "sets: %s needs effect: write", o.Name)
	}
	if !o.Explain && o.Effect != Write {
		s.errorf(at["explain"], "explain: only a write without a reply is explained, and %s is a read", o.Name)
	}
	if o.noEnvelope >= 0 && t.forms[o.noEnvelope].result != "" {
		s.errorf(name, "%s: %s keeps its results under %q, so none of them is without an envelope", o.Name, t.forms[o.noEnvelope].name, t.forms[o.noEnvelope].result)
	}
	if o.noEnvelope >= 0 && !slices.ContainsFunc(o.rows[Reply], func(r *row) bool { return r.mustEqual != "" || r.means != nil }) {
		s.errorf(name, "%s: a reply without an envelope needs a row with must_equal_request or means, nothing else tells it from any other object", o.Name)
	}
}

// checkUniquePaths refuses two operations under one path: the path alone says what a call is.
func (s *source) checkUniquePaths(t *Table, n *yaml.Node) {
	seen := map[string]string{}
	for i, o := range t.operations {
		for _, p := range o.paths {
			if p == "" {
				continue
			}
			if other, dup := seen[p]; dup {
				s.errorf(n.Content[2*i], "%s has the path %s of %s", o.Name, p, other)
			}
			seen[p] = o.Name
		}
	}
}

// code is a code that a refusal may earn.
func (s *source) code(t *Table, n *yaml.Node) string {
	code := s.str(n, "a code")
	if code != "" && len(t.catalogue) > 0 && !slices.Contains(t.catalogue, code) {
		s.errorf(n, "%q is not in the catalogue%s", code, DidYouMean(code, t.catalogue))
	}
	return code
}

// refusalCode is a code that a refusalCode of ours has. It is held against the code of a success when that is known.
func (s *source) refusalCode(t *Table, n *yaml.Node) string {
	s.refusalCodes = append(s.refusalCodes, n)
	return s.code(t, n)
}

// segment is one name of a path. The characters are those that no JSON path syntax gives a meaning to: the
// gateway edits an envelope by these names.
func (s *source) segment(n *yaml.Node) string {
	name := s.str(n, "a name")
	s.checkSegment(n, name)
	return name
}

func (s *source) checkSegment(n *yaml.Node, name string) {
	letters := false
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c == '-', c == '$':
			letters = true
		case c >= '0' && c <= '9':
		default:
			s.errorf(n, "a field name has letters, digits, _, - and $, but this is %q", name)
			return
		}
	}
	if !letters {
		s.errorf(n, "a field name needs a letter, but this is %q", name)
	}
}
