package translate

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// source is the tree of a table, with its overlays merged into it, and the table that is read from it.
type source struct {
	nodes
	changes []RowChange
	used    map[string]bool // by name of shared rows
}

// nodes read values from the nodes of a table, and collect problems, so that one run reports all of them.
type nodes struct {
	table    *Table
	root     *yaml.Node
	forms    []string // the names of the forms in the tree, which may be wrong
	problems Problems
}

// errorf adds a problem at the position of n.
func (s *nodes) errorf(n *yaml.Node, text string, args ...any) {
	n = cmp.Or(n, s.root) // a form has what it is like without a word
	s.problems = append(s.problems, Problem{s.fileOf(n), n.Line, n.Column % fileColumns, fmt.Sprintf(text, args...)})
}

// fileOf returns the name of the file that a node came from.
func (s *nodes) fileOf(n *yaml.Node) string { return s.table.files[n.Column/fileColumns].Name }

// members returns the keys and values of the mapping n. It is a problem if n is not a mapping. It returns nothing for
// nil.
func (s *nodes) members(n *yaml.Node, what string) iter.Seq2[*yaml.Node, *yaml.Node] {
	if n != nil && n.Kind != yaml.MappingNode {
		s.errorf(n, "%s must be a mapping", what)
	}
	return Members(n)
}

// items returns the items of the list n. It is a problem if n is not a list. It returns nothing for nil.
func (s *nodes) items(n *yaml.Node, what string) []*yaml.Node {
	if n == nil || n.Kind == yaml.SequenceNode {
		return cmp.Or(n, &yaml.Node{}).Content
	}
	s.errorf(n, "%s must be a list", what)
	return nil
}

// A keyOfField is a key of the table that a field of a struct has, and how its value is read.
type keyOfField struct {
	key, is  string
	required bool
	field    []int
	form     int // whose value it is, beside those of the other forms; -1 if the key is not the name of a form
}

// keysOf returns the keys of a struct: the names of its exported fields in lower case, or what the tag `key` says, or
// the names of the forms.
func keysOf(t reflect.Type, forms []form) (keys []keyOfField) {
	for _, f := range reflect.VisibleFields(t) {
		key := cmp.Or(f.Tag.Get("key"), strings.ToLower(f.Name))
		k := keyOfField{key, f.Tag.Get("is"), f.Tag.Get("must") != "", f.Index, -1}
		switch {
		case !f.IsExported() || k.key == "-":
		case f.Tag.Get("by") != "form":
			keys = append(keys, k)
		default:
			for _, form := range forms {
				k.key, k.form = string(form.name), form.index
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// decode sets the fields of a struct from the mapping n, and reports whether there was no problem. Tags: `by:"form"` is
// for the field that gets the values under the names of the forms, `must:"be"` for a required key, `key:"-"` for what
// is no key, and `is` says what a text must be: one of several words, or what func text names.
func (s *nodes) decode(n *yaml.Node, what string, into any) bool {
	before, v, known := len(s.problems), reflect.ValueOf(into).Elem(), []string(nil)
	for _, k := range keysOf(v.Type(), s.table.forms) {
		field, value := v.FieldByIndex(k.field), child(n, k.key)
		known = append(known, k.key)
		switch {
		case k.form >= 0:
			s.readForm(value, k.key, k.is, field, k.form)
		case value != nil:
			s.read(value, k.key, k.is, field)
		case k.required && n.Kind == yaml.MappingNode:
			s.errorf(n, "%s is missing in %s", k.key, what)
		case strings.HasPrefix(field.Type().Name(), "byForm"):
			s.ofForms(field)
		}
	}
	for key := range s.members(n, what) {
		if !slices.Contains(known, key.Value) {
			s.errorf(key, "unknown key %q in %s%s", key.Value, what, DidYouMean(key.Value, append(known, s.forms...)))
		}
	}
	return len(s.problems) == before
}

// byForm has something for each form of a table.
type byForm[T any] []T

// ofForms returns the field of a struct with something for each form.
func (s *nodes) ofForms(field reflect.Value) reflect.Value {
	if field.IsNil() {
		field.Set(reflect.MakeSlice(field.Type(), len(s.table.forms), len(s.table.forms)))
	}
	return field
}

// readForm reads what a form has. A form that is like another one has what that has, if n is nil.
func (s *nodes) readForm(n *yaml.Node, key, is string, field reflect.Value, form int) {
	list, like := s.ofForms(field), s.table.forms[form].like
	into := list.Index(form)
	switch {
	case n == nil:
		into.Set(list.Index(like))
	case n.Tag == nullTag && key == string(s.table.forms[form].name) && into.Kind() == reflect.String: // it has none
		into.SetString("")
	default:
		s.read(n, key, is, into)
	}
}

// read reads the value of a key into a field.
func (s *nodes) read(n *yaml.Node, key, is string, into reflect.Value) {
	switch v := into.Addr().Interface().(type) {
	case *bool:
		if n.Tag != "!!bool" || n.Decode(v) != nil {
			s.errorf(n, "%s must be true or false, but is %s", key, show(n))
		}
	case *int:
		var low, high int
		fmt.Sscanf(is, "%d..%d", &low, &high)
		if *v, _ = strconv.Atoi(n.Value); n.Tag != "!!int" || *v < low || *v > high {
			s.errorf(n, "%s must be a number from %d to %d, but is %s", key, low, high, show(n))
		}
	case *[]string:
		*v = nil
		for _, item := range s.items(n, key) {
			*v = append(*v, s.text(item, key, is))
		}
		if n.Kind == yaml.SequenceNode && len(*v) == 0 {
			s.errorf(n, "%s needs at least one value", key)
		}
	case *map[string]string:
		*v = map[string]string{}
		for name, each := range s.members(n, key) {
			(*v)[s.text(name, key, is)] = s.str(each, key)
		}
	case **role:
		*v = s.table.roles[s.roleName(n, key)]
	case *constant:
		*v = s.constant(n, is != "")
	case *pairs: // func readValues reads them
	case **yaml.Node:
		*v = n
	default:
		switch into.Kind() {
		case reflect.String:
			into.SetString(s.text(n, key, is))
			return
		case reflect.Struct:
			s.decode(n, key, v)
			return
		}
		// A value for each form, or one text for all.
		isForAll := n.Kind == yaml.ScalarNode && into.Type().Elem().Kind() == reflect.String
		for f, form := range s.table.forms {
			value, name := child(n, string(form.name)), key+"."+string(form.name)
			if isForAll {
				value, name = n, key
			}
			s.readForm(value, name, is, into, f)
		}
		if isForAll {
			return
		}
		for name := range s.members(n, key) {
			s.form(name, key)
		}
		if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
			s.errorf(n, "%s needs a value for a form", key)
		}
	}
}

// text returns the text of a scalar, which must be what is says.
func (s *nodes) text(n *yaml.Node, key, is string) string {
	switch is {
	case "":
		return s.str(n, key)
	case "a code":
		code, known := s.str(n, is), s.table.Catalogue
		switch {
		case s.isSuccess(n.Value):
			s.errorf(n, "a refusal cannot have %q, the code of a success", n.Value)
		case code != "" && len(known) > 0 && !s.table.InCatalogue(code):
			s.errorf(n, "%q is none of the codes%s", code, DidYouMean(code, known))
		}
		return code
	case "a name", "a field name", "a path":
		return s.fieldPath(n, is)
	case "a role":
		return s.roleName(n, key)
	case "a form":
		s.form(n, key)
		return n.Value
	}
	return oneOf(s, n, key, strings.Split(is, "|")...)
}

// str returns the text of a scalar. It is a problem if n is empty or not a scalar.
func (s *nodes) str(n *yaml.Node, what string) string {
	if n.Kind != yaml.ScalarNode || n.Value == "" || n.Tag == nullTag {
		s.errorf(n, "%s must be text, but is %s", what, show(n))
		return ""
	}
	return n.Value
}

// oneOf returns the text of a scalar that must be one of the allowed values.
func oneOf[T ~string](s *nodes, n *yaml.Node, what string, allowed ...T) T {
	if n.Kind == yaml.ScalarNode && slices.Contains(allowed, T(n.Value)) {
		return T(n.Value)
	}
	words := strings.ReplaceAll(strings.Trim(fmt.Sprint(allowed), "[]"), " ", " or ")
	s.errorf(n, "%s must be %s, but is %s", what, words, show(n))
	return ""
}

// The words of pairs that stand for no value of their own. In quotes they are texts as any other.
const missingWord, otherWord = "missing", "other"

// constant returns a scalar of the table: a whole number, true or false, or text, and in a pair also null or a word.
func (s *nodes) constant(n *yaml.Node, inPair bool) constant {
	switch {
	case inPair && n.Tag == nullTag:
		return constant{null, nullText, "null"}
	case inPair && (n.Value == missingWord || n.Value == otherWord) && n.Style&quoted == 0:
		return constant{json: n.Value}
	case n.Kind != yaml.ScalarNode || n.Tag == nullTag:
		s.errorf(n, "a value must be text, a number, true or false, but is %s", show(n))
	case strings.HasPrefix(n.Value, "${"):
		s.errorf(n, "a table has no ${env:NAME} and no ${file:PATH}: %q would be the value itself", n.Value)
	case n.Tag == "!!int" && isDigits(n.Value):
		return constant{number, n.Value, n.Value}
	case n.Tag == "!!bool" && (n.Value == "true" || n.Value == "false"):
		return constant{boolean, n.Value, n.Value}
	case n.Tag == "!!str":
		return constant{text, n.Value, string(appendString(nil, n.Value))}
	default:
		s.errorf(n, "write %q in quotes: only digits without a leading zero can be written without quotes", n.Value)
	}
	return constant{}
}

// form checks that n names a form.
func (s *nodes) form(n *yaml.Node, what string) {
	if s.table.formIndex(Form(n.Value)) < 0 {
		s.errorf(n, "%s: the table has no form %s, only %s", what, show(n), strings.Join(s.forms, ", "))
	}
}

// fieldPath returns a path of names, or one name if is says a field name. Names have only characters without a meaning
// in JSON paths: the gateway uses the names of an envelope in them.
func (s *nodes) fieldPath(n *yaml.Node, is string) string {
	path := s.str(n, is)
	names := []string{path}
	switch {
	case path == "":
		return ""
	case is != "a field name":
		names = segments(path)
	}
	for _, name := range names {
		switch {
		case otherCharacter.MatchString(name):
			s.errorf(n, "%s can have letters, digits, _, - and $, but is %q", is, name)
		case strings.Trim(name, "0123456789") == "":
			s.errorf(n, "%s needs a letter, _, - or $, but is %q", is, name)
		case n.Tag != "!!str":
			s.errorf(n, "%s must be text: write %q in quotes", is, name)
		}
	}
	return path
}

// otherCharacter finds a character that a name of a field cannot have, such as one that is not UTF-8.
var otherCharacter = regexp.MustCompile(`[^\pL\pM0-9_$-]`)
