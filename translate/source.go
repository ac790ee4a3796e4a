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

// source is the tree of a table, with its overlays merged into it, and the table that is read from it. It collects
// problems, so that one run reports all of them.
type source struct {
	table        *Table
	root         *yaml.Node
	forms        []string // the names of the forms in the tree, which may be wrong
	file         string
	overlayOf    map[*yaml.Node]string // by node of an overlay: the overlay's name
	changes      []RowChange
	keys         map[reflect.Type][]keyOfField
	refusalCodes []*yaml.Node    // codes that a refusal of the gateway can have
	compared     int             // the names that were compared for suggestions
	used         map[string]bool // by name of shared rows
	problems     Problems
}

// errorf adds a problem at the position of n.
func (s *source) errorf(n *yaml.Node, text string, args ...any) {
	s.problems = append(s.problems, s.problem(n, text, args...))
}

func (s *source) problem(n *yaml.Node, text string, args ...any) Problem {
	n = cmp.Or(n, s.root) // a form has what it is like without a word
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
	return Members(n)
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

// A keyOfField is the key that a field of a struct has in the table, and how its value is read. The key is "" for the
// field with the values that stand beside the names of the forms.
type keyOfField struct {
	key, is  string
	required bool
	index    []int
}

var capitals = regexp.MustCompile("[A-Z]")

// keysOf returns the keys of a struct: the names of its exported fields in snake_case.
func (s *source) keysOf(t reflect.Type) []keyOfField {
	if known, ok := s.keys[t]; ok {
		return known
	}
	var keys []keyOfField
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() {
			continue
		}
		k := keyOfField{is: f.Tag.Get("is"), required: f.Tag.Get("must") != "", index: f.Index}
		if f.Tag.Get("by") != "form" {
			k.key = capitals.ReplaceAllStringFunc(f.Name, func(c string) string { return "_" + strings.ToLower(c) })[1:]
		}
		keys = append(keys, k)
	}
	s.keys[t] = keys
	return keys
}

// decode sets the fields of a struct from the mapping n, and reports whether there was no problem. Tags: `by:"form"` is
// for the field that gets the values under the names of the forms, `must:"be"` for a required key, and `is` says what a
// text must be: one of several words, or what func text names.
func (s *source) decode(n *yaml.Node, what string, into any) bool {
	before, v := len(s.problems), reflect.ValueOf(into).Elem()
	keys := s.keysOf(v.Type())
	for key, value := range s.members(n, what) {
		form := s.table.formIndex(Form(key.Value))
		at := slices.IndexFunc(keys, func(k keyOfField) bool {
			return k.key == key.Value && k.key != "" || k.key == "" && form >= 0
		})
		if at < 0 {
			s.unknownKey(key, what, keys)
			continue
		}
		field := v.FieldByIndex(keys[at].index)
		if keys[at].key == "" {
			field = s.ofForms(field).Index(form)
			if field.Kind() == reflect.String && value.Tag == nullTag { // it has none
				field.SetString("")
				continue
			}
		}
		s.read(value, key.Value, keys[at].is, field.Addr().Interface())
	}
	for _, k := range keys {
		if field := v.FieldByIndex(k.index); strings.HasPrefix(field.Type().Name(), "byForm") {
			from := n
			if k.key != "" {
				from = child(n, k.key)
			}
			s.inherit(from, s.ofForms(field))
		}
		if k.required && n.Kind == yaml.MappingNode && child(n, k.key) == nil {
			s.errorf(n, "%s is missing in %s", k.key, what)
		}
	}
	return len(s.problems) == before
}

// byForm has something for each form of a table.
type byForm[T any] []T

// ofForms returns the field of a struct with something for each form.
func (s *source) ofForms(field reflect.Value) reflect.Value {
	if field.IsNil() {
		field.Set(reflect.MakeSlice(field.Type(), len(s.table.forms), len(s.table.forms)))
	}
	return field
}

// inherit gives each form that is like another one what that has, unless the mapping n names the form.
func (s *source) inherit(n *yaml.Node, field reflect.Value) {
	for f, form := range s.table.forms {
		if form.like >= 0 && child(n, string(form.name)) == nil {
			field.Index(f).Set(field.Index(form.like))
		}
	}
}

// read reads the value of a key.
func (s *source) read(n *yaml.Node, key, is string, into any) {
	switch v := into.(type) {
	case *bool:
		*v = s.boolean(n, key)
	case *int:
		var low, high int
		if _, err := fmt.Sscanf(is, "%d..%d", &low, &high); err != nil {
			*v = s.form(n, key)
		} else if *v, _ = strconv.Atoi(n.Value); n.Tag != "!!int" || *v < low || *v > high {
			s.errorf(n, "%s must be a number from %d to %d, but is %s", key, low, high, show(n))
		}
	case *string:
		*v = s.text(n, key, is)
	case *[]string:
		for _, item := range s.items(n, key) {
			*v = append(*v, s.text(item, key, is))
		}
		if len(*v) == 0 && n.Kind == yaml.SequenceNode {
			s.errorf(n, "%s needs at least one value", key)
		}
	case *map[string]string:
		*v = map[string]string{}
		for name, each := range s.members(n, key) {
			(*v)[s.text(name, key, is)] = s.str(each, key)
		}
	case *Effect:
		*v = oneOf(s, n, key, Read, Write)
	case *Meaning:
		*v = oneOf(s, n, key, allMeanings...)
	case **role:
		*v = s.table.roles[s.roleName(n, key)]
	case *constant:
		if *v = (constant{null, nullText, "null"}); n.Tag != nullTag || is == "" {
			*v = s.constant(n)
		}
	case *pairs:
		*v = s.readPairs(n)
	case **yaml.Node:
		*v = n
	default: // a value for each form, or one text for all
		byForm := s.ofForms(reflect.ValueOf(into).Elem())
		isText := byForm.Index(0).Kind() == reflect.String
		if n.Kind != yaml.MappingNode && isText {
			for f := range s.table.forms {
				s.read(n, key, is, byForm.Index(f).Addr().Interface())
			}
			return
		}
		if !isText && n.Kind == yaml.MappingNode && len(n.Content) == 0 {
			s.errorf(n, "%s needs a value for %s or %s", key, s.forms[0], s.forms[1])
		}
		for name, each := range s.members(n, key) {
			if f := s.form(name, key); f >= 0 {
				s.read(each, key+"."+name.Value, is, byForm.Index(f).Addr().Interface())
			}
		}
	}
}

// text returns the text of a scalar, which must be what is says.
func (s *source) text(n *yaml.Node, key, is string) string {
	switch is {
	case "":
		return s.str(n, key)
	case "a code":
		s.refusalCodes = append(s.refusalCodes, n)
		return s.checkCode(n, s.str(n, is))
	case "a name", "a field name", "a path":
		return s.fieldPath(n, is)
	case "a role":
		return s.roleName(n, key)
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

// constant returns a scalar of the table: a whole number, true or false, or text.
func (s *source) constant(n *yaml.Node) constant {
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
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

// form returns the index of the form that n names, or -1.
func (s *source) form(n *yaml.Node, what string) int {
	f := s.table.formIndex(Form(n.Value))
	if f < 0 {
		s.errorf(n, "%s: the table has no form %s, only %s", what, show(n), strings.Join(s.forms, ", "))
	}
	return f
}

// unknownKey adds a problem for a key that is not one of the known keys.
func (s *source) unknownKey(n *yaml.Node, what string, known []keyOfField) {
	var all []string
	for _, k := range known {
		if k.key != "" {
			all = append(all, k.key)
		} else {
			all = append(all, s.forms...)
		}
	}
	s.errorf(n, "unknown key %q in %s%s", n.Value, what, DidYouMean(n.Value, all))
}
