package translate

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// source is the tree of a table, with its overlays merged into it, and the table that is read from it.
type source struct {
	nodes
	changes []RowChange
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

// decode sets the fields of a struct from the mapping n, and reports whether there was no problem. A key is the name of
// a field in lower case, or what the tag `key` says. Tags: `by:"form"` is for the field that gets the values under the
// names of the forms, `must:"be"` for a required key, `key:"-"` for what is no key, and `is` says what a text must be:
// one of several words, or what func text names.
func (s *nodes) decode(n *yaml.Node, what string, into any) bool {
	before, v, known := len(s.problems), reflect.ValueOf(into).Elem(), []string(nil)
	for _, f := range reflect.VisibleFields(v.Type()) {
		key, is, field := tableKey(f), f.Tag.Get("is"), v.FieldByIndex(f.Index)
		if f.Tag.Get("by") == "form" {
			s.readForms(n, "", is, field)
			for _, form := range s.table.forms {
				known = append(known, string(form.name))
			}
			continue
		}
		value := child(n, key)
		switch {
		case key == "":
			continue
		case value != nil:
			s.read(value, key, is, field)
		case f.Tag.Get("must") != "" && n.Kind == yaml.MappingNode:
			s.errorf(n, "%s is missing in %s", key, what)
		case strings.HasPrefix(field.Type().Name(), "byForm"):
			s.readForms(nil, key, is, field)
		}
		known = append(known, key)
	}
	for key := range s.members(n, what) {
		if !slices.Contains(known, key.Value) {
			s.errorf(key, "unknown key %q in %s%s", key.Value, what, DidYouMean(key.Value, append(known, s.forms...)))
		}
	}
	return len(s.problems) == before
}

// tableKey returns the key of a field, or "".
func tableKey(f reflect.StructField) string {
	if f.Tag.Get("key") == "-" || !f.IsExported() {
		return ""
	}
	return cmp.Or(f.Tag.Get("key"), strings.ToLower(f.Name))
}

// byForm has something for each form of a table.
type byForm[T any] []T

// readForms reads what the forms have under their names in the mapping n, beside other keys if key is "". A form that
// is like another one has what that has, if it has nothing of its own.
func (s *nodes) readForms(n *yaml.Node, key, is string, list reflect.Value) {
	if list.IsNil() {
		list.Set(reflect.MakeSlice(list.Type(), len(s.table.forms), len(s.table.forms)))
	}
	for f, form := range s.table.forms {
		name, into := string(form.name), list.Index(f)
		switch value := child(n, name); {
		case value == nil:
			into.Set(list.Index(form.like))
		case value.Tag == nullTag && key == "" && into.Kind() == reflect.String: // it has none
			into.SetString("")
		default:
			s.read(value, strings.TrimPrefix(key+"."+name, "."), is, into)
		}
	}
}

// read reads the value of a key into a field.
func (s *nodes) read(n *yaml.Node, key, is string, into reflect.Value) {
	switch v := into.Addr().Interface().(type) {
	case *bool, *int, *[]string:
		if n.Decode(v) != nil || n.Tag == nullTag {
			want := map[reflect.Kind]string{reflect.Bool: "true or false", reflect.Int: "a number", reflect.Slice: "a list of texts"}
			s.errorf(n, "%s must be %s, but is %s", key, want[into.Kind()], show(n))
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
		if n.Kind == yaml.ScalarNode && into.Type().Elem().Kind() == reflect.String { // one text for all
			into.Set(reflect.MakeSlice(into.Type(), len(s.table.forms), len(s.table.forms)))
			for f := range s.table.forms {
				s.read(n, key, is, into.Index(f))
			}
			return
		}
		for name := range s.members(n, key) {
			s.form(name, key)
		}
		s.readForms(n, key, is, into)
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
		if otherCharacter.MatchString(name) || strings.Trim(name, "0123456789") == "" {
			s.errorf(n, "%s can have letters, digits, _, - and $, and not only digits, but is %q", is, name)
		}
	}
	return path
}

// otherCharacter finds a character that a name of a field cannot have, such as one that is not UTF-8.
var otherCharacter = regexp.MustCompile(`[^\pL\pM0-9_$-]`)
