package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"billbridge/translate"

	"go.yaml.in/yaml/v4"
)

// keys returns the fields of a section that a file can set. Their tags are the description of a key, for Load, Schema
// and NeedsRestart:
//
//	yaml     the name of the key
//	default  its value in a file that does not have it
//	config   required: a file must have it; restart: a reload cannot change it; path: relative to the file's folder
//	range    the smallest and the largest value, such as "1,1000", "1," or ",10s"; why has the reason
//	words    the only values, for text
//	such     an example, for the error if the key is missing
//
// A list whose entries have a field with the tag name is written as a mapping, with the values of this field as keys.
func keys(section reflect.Type) (fields []reflect.StructField) {
	for i := range section.NumField() {
		if key := section.Field(i).Tag.Get("yaml"); key != "" && key != "-" {
			fields = append(fields, section.Field(i))
		}
	}
	return fields
}

// entryName returns what stands for the keys of a list that is written as a mapping, such as NAME, or "" for another
// list.
func entryName(list reflect.Type) string {
	if list.Elem().Kind() != reflect.Struct {
		return ""
	}
	return list.Elem().Field(0).Tag.Get("name")
}

var kindNames = map[reflect.Kind]string{
	reflect.Int: "a whole number", reflect.Float64: "a number", reflect.Bool: "true or false", reflect.String: "text",
}

const noValue = "there is no value: write one after a colon and a blank, or remove the key"

// load sets v to the value of a node. Of a mistake it says where it is and what must be there. It does not show what
// is there, which may be a secret in the wrong place, except for a number, a time or a size.
func (s *source) load(n *yaml.Node, v reflect.Value, tag reflect.StructTag, path ...string) {
	problem := func(text string) { s.addAt(n, text, path) }
	if n.Tag == "!!null" {
		problem(noValue)
		return
	}
	if own, ok := v.Addr().Interface().(interface{ set(text string) error }); ok {
		if err := own.set(n.Value); err != nil { // the value of a list or a mapping is ""
			problem(err.Error())
			return
		}
		if secret, ok := own.(*Secret); ok {
			if text := s.resolve(secret); text != "" {
				problem(text)
				return
			}
		}
	} else {
		switch v.Kind() {
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			s.load(n, v.Elem(), tag, path...)
			return
		case reflect.Struct:
			s.loadSection(n, v, path)
			return
		case reflect.Slice, reflect.Map:
			s.loadEntries(n, v, tag, path)
			return
		}
		if n.Kind != yaml.ScalarNode || n.Load(v.Addr().Interface()) != nil {
			problem("must be " + kindNames[v.Kind()])
			return
		}
		if v.Kind() == reflect.String && v.Len() == 0 {
			problem("is empty: write a value, or remove the key")
			return
		}
		if isTagged(tag, "path") {
			v.SetString(s.resolvePath(v.String()))
		}
	}
	if words := strings.Fields(tag.Get("words")); len(words) > 0 && !slices.Contains(words, v.String()) {
		problem("must be " + orList(words) + translate.DidYouMean(v.String(), words))
	}
	if text := outOfRange(v, tag); text != "" {
		problem(text)
	}
}

func (s *source) loadSection(n *yaml.Node, v reflect.Value, path []string) {
	if n.Kind != yaml.MappingNode {
		s.addAt(n, "must be a mapping", path)
		return
	}
	fields := keys(v.Type())
	misspelled := s.addUnknownKeys(n, fields, path)
	for _, f := range fields {
		key := f.Tag.Get("yaml")
		value, field, before := child(n, key), v.FieldByIndex(f.Index), len(s.problems)
		if literal, ok := f.Tag.Lookup("default"); ok && value == nil {
			value = parseLiteral(literal)
		} else if value == nil && field.Kind() == reflect.Struct && len(keys(f.Type)) > 0 {
			value = &yaml.Node{Kind: yaml.MappingNode} // for the defaults in it
		}
		at := append(path[:len(path):len(path)], key)
		if value != nil {
			s.load(value, field, f.Tag, at...)
		}
		empty := field.IsZero() || field.Kind() == reflect.Slice && field.Len() == 0
		if empty && isTagged(f.Tag, "required") && len(s.problems) == before && !misspelled {
			s.addProblem("is needed"+f.Tag.Get("such"), at...)
		}
	}
}

// addUnknownKeys adds a problem for each key that a section does not have. It reports whether there is one.
func (s *source) addUnknownKeys(n *yaml.Node, fields []reflect.StructField, path []string) (found bool) {
	var known []string
	for _, f := range fields {
		known = append(known, f.Tag.Get("yaml"))
	}
	for key, value := range translate.Members(n) {
		if slices.Contains(known, key.Value) {
			continue
		}
		found = true
		hint := suggest(key.Value, "; the keys here are ", known)
		if why := goneKeys[strings.Join(append(slices.Clone(path), key.Value), ".")]; why != "" {
			hint = " " + key.Value + "; " + why
		}
		if value.Tag == "!!null" { // such as token:secret without a blank
			s.addAt(value, noValue, path)
		} else {
			s.addAt(key, "unknown key"+hint, path)
		}
	}
	return found
}

// goneKeys are keys that a user may look for, with why there is no such key.
var goneKeys = map[string]string{
	"rollout.copy": "a bill has one owner, so a copy of it at the other backend is a second bill: with bills: separate " +
		"partners go from old to canary, and only with bills: shared there is a stage shadow",
}

// loadEntries reads a list, in the order of the file, or a map.
func (s *source) loadEntries(n *yaml.Node, v reflect.Value, tag reflect.StructTag, path []string) {
	kind, must, step := yaml.SequenceNode, "must be a list", 1
	named := v.Kind() == reflect.Map || entryName(v.Type()) != ""
	if named {
		kind, must, step = yaml.MappingNode, "must be a mapping", 2
	}
	if n.Kind != kind {
		s.addAt(n, must, path)
		return
	}
	if v.Kind() == reflect.Map {
		v.Set(reflect.MakeMap(v.Type()))
	} else {
		v.Set(reflect.MakeSlice(v.Type(), 0, len(n.Content)/step))
	}
	for i := 0; i < len(n.Content); i += step {
		entry, at := reflect.New(v.Type().Elem()).Elem(), slices.Clone(path)
		if name := n.Content[i].Value; named {
			at = append(at, name)
			if v.Kind() == reflect.Slice {
				entry.Field(0).SetString(name)
			}
		} else {
			at[len(at)-1] += fmt.Sprintf("[%d]", i)
		}
		s.load(n.Content[i+step-1], entry, tag, at...)
		if v.Kind() == reflect.Map {
			v.SetMapIndex(reflect.ValueOf(n.Content[i].Value), entry)
		} else {
			v.Set(reflect.Append(v, entry))
		}
	}
}

// isTagged reports whether the tag config of a field has a word.
func isTagged(tag reflect.StructTag, word string) bool {
	return slices.Contains(strings.Split(tag.Get("config"), ","), word)
}

// parseLiteral returns the node of a value in a tag.
func parseLiteral(text string) *yaml.Node {
	var document yaml.Node
	if err := yaml.Load([]byte(text), &document); err != nil {
		panic(fmt.Sprintf("the value %s of a tag: %v", text, err))
	}
	return document.Content[0]
}

// outOfRange says which range a value must be in, or returns "" if it is there or has no range.
func outOfRange(v reflect.Value, tag reflect.StructTag) string {
	least, most, _ := strings.Cut(tag.Get("range"), ",")
	number := func(v reflect.Value) float64 {
		if v.CanFloat() {
			return v.Float()
		}
		return float64(v.Int())
	}
	bound := func(text string) float64 {
		b := reflect.New(v.Type()).Elem()
		(&source{}).load(parseLiteral(text), b, "")
		return number(b)
	}
	// NaN is in no range.
	if (least == "" || number(v) >= bound(least)) && (most == "" || number(v) <= bound(most)) {
		return ""
	}
	must := "must be from " + least + " to " + most
	if most == "" {
		must = "must be at least " + least
	} else if least == "" {
		must = "must be at most " + most
	}
	return fmt.Sprintf("%s, but is %v%s", must, v.Interface(), tag.Get("why"))
}

// orList returns words as a list that ends in "or".
func orList(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// suggest returns the known name that is similar to a name, or else all known names, as the end of an error.
func suggest(name, all string, known []string) string {
	if hint := translate.DidYouMean(name, known); hint != "" {
		return hint
	}
	return all + strings.Join(known, ", ")
}
