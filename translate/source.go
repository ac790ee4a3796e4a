package translate

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// source is the tree of a table, with its overlays applied, and the table that is read from it. It collects problems,
// so that one run reports all of them.
type source struct {
	table        *Table
	root         *yaml.Node
	forms        []string // the names of the forms in the tree, which may be wrong
	file         string
	overlayOf    map[*yaml.Node]string       // by node of an overlay: the overlay's name
	includedIn   map[*yaml.Node][]*yaml.Node // by common rows: the lists that include them
	reuses       map[*yaml.Node]*yaml.Node   // by rows of a callback with fields: the rows of the reply
	own          map[*yaml.Node][]*yaml.Node // by rows of a message: those of overlays, and of a callback with fields
	changes      []RowChange
	keys         map[reflect.Type][]keyOfField
	usedOptions  map[string]bool        // options in the when or unless of a row
	refusalCodes []*yaml.Node           // codes that a refusal of the gateway can have
	codeItems    map[codeKey]*yaml.Node // the items of the catalogue
	compared     int                    // the names that were compared for suggestions
	problems     Problems
	missingNew   Problems // additions without new: true; they do not keep other mistakes from being found
}

// load parses the base table, applies the overlays to it and reads the result.
func load(t *Table) (*source, Problems) {
	s := &source{
		table: t, overlayOf: map[*yaml.Node]string{}, includedIn: map[*yaml.Node][]*yaml.Node{},
		reuses: map[*yaml.Node]*yaml.Node{}, own: map[*yaml.Node][]*yaml.Node{}, usedOptions: map[string]bool{},
		keys: map[reflect.Type][]keyOfField{}, codeItems: map[codeKey]*yaml.Node{},
	}
	for i, file := range t.files {
		root, err := ParseYAML(file)
		switch {
		case err != nil:
			return nil, err.(Problems)
		case i == 0:
			s.root, s.file, s.forms = root, file.Name, names(child(root, "forms"))
			s.expandAll()
		default:
			s.setOverlay(root, file.Name)
			s.applyOverlay(root)
		}
	}
	if s.removeCommon(); len(s.problems) == 0 {
		s.readTable()
	}
	// A mistake in common rows is found in every message that includes them.
	return s, slices.Compact(append(s.problems, s.missingNew...).Sorted())
}

// setOverlay records that a node and all nodes in it came from an overlay.
func (s *source) setOverlay(n *yaml.Node, name string) {
	s.overlayOf[n] = name
	for _, child := range n.Content {
		s.setOverlay(child, name)
	}
}

// copyOf returns a copy of a node, from the same file.
func (s *source) copyOf(n *yaml.Node) *yaml.Node {
	c := *n
	if name, ok := s.overlayOf[n]; ok {
		s.overlayOf[&c] = name
	}
	return &c
}

// errorf adds a problem at the position of n.
func (s *source) errorf(n *yaml.Node, text string, args ...any) {
	s.problems = append(s.problems, s.problem(n, text, args...))
}

func (s *source) problem(n *yaml.Node, text string, args ...any) Problem {
	return Problem{s.fileOf(n), n.Line, n.Column, fmt.Sprintf(text, args...)}
}

// fileOf returns the name of the file that a node came from.
func (s *source) fileOf(n *yaml.Node) string { return cmp.Or(s.overlayOf[n], s.file) }

// members returns the keys and values of the mapping n. It is a problem if n is not a mapping. It returns nothing for
// nil.
func (s *source) members(n *yaml.Node, what string) iter.Seq2[*yaml.Node, *yaml.Node] {
	if n != nil && n.Kind != yaml.MappingNode {
		s.errorf(n, "%s must be a mapping", what)
	}
	return members(n)
}

// items returns the items of the list n. It is a problem if n is not a list. It returns nothing for nil.
func (s *source) items(n *yaml.Node, what string) []*yaml.Node {
	switch {
	case n == nil:
		return nil
	case n.Kind != yaml.SequenceNode:
		s.errorf(n, "%s must be a list", what)
		return nil
	}
	return n.Content
}

// A keyOfField is the key that a field of a struct has in the table, and how its value is read.
type keyOfField struct {
	key, is string
	index   []int
}

var capitals = regexp.MustCompile("[A-Z]")

// keysOf returns the keys of a struct: the names of its exported fields in snake_case. It looks into embedded structs.
func (s *source) keysOf(t reflect.Type) []keyOfField {
	if known, ok := s.keys[t]; ok {
		return known
	}
	var keys []keyOfField
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && !f.Anonymous && f.Name != "ByForm" {
			key := capitals.ReplaceAllStringFunc(f.Name, func(c string) string { return "_" + strings.ToLower(c) })
			keys = append(keys, keyOfField{key[1:], f.Tag.Get("is"), f.Index})
		}
	}
	s.keys[t] = keys
	return keys
}

// decode sets the fields of a struct from the mapping n. The field ByForm gets the keys that are names of forms. The
// tag `is` says what a text must be: one of several words, a code, or the name of a field.
func (s *source) decode(n *yaml.Node, what string, into any) {
	v := reflect.ValueOf(into).Elem()
	forms, keys := v.FieldByName("ByForm"), s.keysOf(v.Type())
	for key, value := range s.members(n, what) {
		if f := s.table.formIndex(Form(key.Value)); f >= 0 && forms.IsValid() {
			forms.Index(f).Set(reflect.ValueOf(value))
			continue
		}
		at := slices.IndexFunc(keys, func(k keyOfField) bool { return k.key == key.Value })
		if at < 0 {
			s.unknownKey(key, what, keys, forms.IsValid())
			continue
		}
		switch field, is := v.FieldByIndex(keys[at].index), keys[at].is; field.Kind() {
		case reflect.Bool:
			field.SetBool(s.boolean(value, key.Value))
		case reflect.Int:
			field.SetInt(int64(s.wholeNumber(value, key.Value)))
		case reflect.Slice:
			field.Set(reflect.ValueOf(s.texts(value, key.Value)))
		case reflect.Pointer:
			field.Set(reflect.ValueOf(value))
		case reflect.String:
			field.SetString(s.text(value, key.Value, is))
		}
	}
}

// text returns the text of a scalar, which must be what is says.
func (s *source) text(n *yaml.Node, key, is string) string {
	switch is {
	case "":
		return s.str(n, key)
	case "a code":
		return s.refusalCode(n)
	case "a field name":
		return s.fieldName(n)
	}
	return oneOf(s, n, key, strings.Split(is, "|")...)
}

// str returns the text of a scalar. It is a problem if n is empty or not a scalar.
func (s *source) str(n *yaml.Node, what string) string {
	if n.Kind != yaml.ScalarNode || n.Value == "" || n.Tag == "!!null" {
		s.errorf(n, "%s must be text, but is %s", what, show(n))
		return ""
	}
	return n.Value
}

func (s *source) boolean(n *yaml.Node, what string) bool {
	var v bool
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Decode(&v) != nil {
		s.errorf(n, "%s must be true or false, but is %s", what, show(n))
	}
	return v
}

func (s *source) wholeNumber(n *yaml.Node, what string) int {
	var v int
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Decode(&v) != nil || v < 0 {
		s.errorf(n, "%s must be a whole number, but is %s", what, show(n))
		return 0
	}
	return v
}

// texts returns the items of a list of texts.
func (s *source) texts(n *yaml.Node, what string) (list []string) {
	for _, item := range s.items(n, what) {
		list = append(list, s.str(item, what))
	}
	if len(list) == 0 && n.Kind == yaml.SequenceNode {
		s.errorf(n, "%s needs at least one value", what)
	}
	return list
}

// oneOf returns the text of a scalar that must be one of the allowed values.
func oneOf[T ~string](s *source, n *yaml.Node, what string, allowed ...T) T {
	if n.Kind == yaml.ScalarNode && slices.Contains(allowed, T(n.Value)) {
		return T(n.Value)
	}
	var words []string
	for _, word := range allowed {
		words = append(words, string(word))
	}
	s.errorf(n, "%s must be %s, but is %s", what, strings.Join(words, " or "), show(n))
	return ""
}

// constant returns a scalar of the table: a whole number, true or false, or text. It returns nil if n is another
// value.
func (s *source) constant(n *yaml.Node) *constant {
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
		s.errorf(n, "a value must be text, a number, true or false, but is %s", show(n))
		return nil
	case n.Tag == "!!int" && isDigits(n.Value):
		return &constant{number, n.Value, n.Value}
	case n.Tag == "!!bool" && (n.Value == "true" || n.Value == "false"):
		return &constant{boolean, n.Value, n.Value}
	case n.Tag == "!!str":
		return &constant{text, n.Value, string(appendString(nil, n.Value))}
	}
	s.errorf(n, "write %q in quotes: only digits without a leading zero can be written without quotes", n.Value)
	return nil
}

// unknownForm adds a problem for a form that the table does not have.
func (s *source) unknownForm(n *yaml.Node, what string) {
	forms := s.table.forms
	s.errorf(n, "%s: the table has no form %s, only %s and %s", what, show(n), forms[0].name, forms[1].name)
}

// form returns the index of the form that n names, or -1.
func (s *source) form(n *yaml.Node, what string) int {
	f := s.table.formIndex(Form(n.Value))
	if f < 0 {
		s.unknownForm(n, what)
	}
	return f
}

// eachForm calls f for each form in the mapping n.
func (s *source) eachForm(n *yaml.Node, what string, f func(form int, v *yaml.Node)) {
	for key, v := range s.members(n, what) {
		if form := s.form(key, what); form >= 0 {
			f(form, v)
		}
	}
}

// unknownKey adds a problem for a key that is not one of the known keys.
func (s *source) unknownKey(n *yaml.Node, what string, known []keyOfField, forms bool) {
	if text := overlayKeys[n.Value]; text != "" && what == "a row" {
		s.errorf(n, text, n.Value)
		return
	}
	var all []string
	for _, k := range known {
		all = append(all, k.key)
	}
	if forms {
		all = append(all, s.forms...)
	}
	if what == "a row" {
		all = append(all, slices.Collect(maps.Keys(overlayKeys))...)
	}
	hint := DidYouMean(n.Value, all)
	if now := renamedKeys[n.Value]; slices.Contains(all, now) {
		hint = "; it was renamed to " + now
	}
	s.errorf(n, "unknown key %q in %s%s", n.Value, what, hint)
}

// renamedKeys are the keys of earlier versions, with their names now.
var renamedKeys = map[string]string{
	"proof": "must_equal_request", "bare": "no_envelope", "makes": "creates", "note": "about",
}

// overlayKeys are the keys of rows that are used up before rows are read, and what it means if one is still there.
var overlayKeys = map[string]string{
	"remove":    "%s is allowed in overlays only, and only as %[1]s: true",
	newKey:      "%s is allowed in overlays only, and only as %[1]s: true",
	replacesKey: "%s is allowed in overlays only, and only in a row that changes rows of the table",
	"common":    "%s: only a request or a reply can include common rows",
}
