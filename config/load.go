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
//	constant the value of a field that no file can set; tests change it afterwards
//	missing  the end of the error if the key is missing, such as an example
//
// The fields of a struct that is embedded are those of the section. A list whose entries have a field with the tag name
// is written as a mapping, with the values of this field as keys.
func keys(section reflect.Type) (fields []reflect.StructField) {
	for _, f := range reflect.VisibleFields(section) {
		if key := f.Tag.Get("yaml"); key != "" && key != "-" {
			fields = append(fields, f)
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
func (s *source) load(n *yaml.Node, v reflect.Value, tag reflect.StructTag, key string) {
	own, _ := v.Addr().Interface().(setter)
	switch kind := v.Kind(); {
	case n.Tag == "!!null":
		s.add(key, noValue)
	case own == nil && kind == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		s.load(n, v.Elem(), tag, key)
	case own == nil && kind == reflect.Struct:
		s.loadSection(n, v, key)
	case own == nil && kind == reflect.Slice:
		s.loadEntries(n, v, tag, key)
	default:
		if text := s.loadValue(n, v, own, tag); text != "" {
			s.add(key, text)
		}
	}
}

// A setter is a type with texts of its own.
type setter interface{ set(text string) error }

// loadValue is load for a value without keys and entries. It returns the text of a problem, or "".
func (s *source) loadValue(n *yaml.Node, v reflect.Value, own setter, tag reflect.StructTag) string {
	if own != nil {
		err := own.set(n.Value) // the value of a list or a mapping is ""
		if secret, ok := own.(*Secret); ok && err == nil {
			err = s.resolve(secret)
		}
		if err != nil {
			return err.Error()
		}
	} else if n.Kind != yaml.ScalarNode || n.Load(v.Addr().Interface()) != nil {
		return "must be " + kindNames[v.Kind()]
	} else if v.Kind() == reflect.String && v.Len() == 0 {
		return "is empty: write a value, or remove the key"
	} else if isTagged(tag, "path") {
		v.SetString(s.resolvePath(v.String()))
	}
	if words := strings.Fields(tag.Get("words")); len(words) > 0 && !slices.Contains(words, v.String()) {
		return "must be " + orList(words) + translate.DidYouMean(v.String(), words)
	}
	return outOfRange(v, tag)
}

// below returns the key of a section's key.
func below(section, key string) string { return strings.TrimPrefix(section+"."+key, ".") }

func (s *source) loadSection(n *yaml.Node, v reflect.Value, section string) {
	if n.Kind != yaml.MappingNode {
		s.add(section, "must be a mapping")
		return
	}
	for _, f := range reflect.VisibleFields(v.Type()) {
		if literal, ok := f.Tag.Lookup("constant"); ok {
			s.load(parseLiteral(literal), v.FieldByIndex(f.Index), "", section)
		}
	}
	fields := keys(v.Type())
	misspelled := s.addUnknownKeys(n, fields, section)
	for _, f := range fields {
		name := f.Tag.Get("yaml")
		value, field, before, key := child(n, name), v.FieldByIndex(f.Index), len(s.problems), below(section, name)
		if literal, ok := f.Tag.Lookup("default"); ok && value == nil {
			value = parseLiteral(literal)
		} else if value == nil && field.Kind() == reflect.Struct && len(keys(f.Type)) > 0 {
			value = &yaml.Node{Kind: yaml.MappingNode} // for the defaults in it
		}
		if value != nil {
			s.load(value, field, f.Tag, key)
		}
		empty := field.IsZero() || field.Kind() == reflect.Slice && field.Len() == 0
		if empty && isTagged(f.Tag, "required") && len(s.problems) == before && !misspelled {
			s.add(key, "is needed"+f.Tag.Get("missing"))
		}
	}
}

// addUnknownKeys adds a problem for each key that a section does not have. It reports whether there is one.
func (s *source) addUnknownKeys(n *yaml.Node, fields []reflect.StructField, section string) (found bool) {
	var known []string
	for _, f := range fields {
		known = append(known, f.Tag.Get("yaml"))
	}
	for key, value := range translate.Members(n) {
		why, gone := goneKeys[below(section, key.Value)]
		switch {
		case slices.Contains(known, key.Value):
			continue
		case value.Tag == "!!null": // such as token:secret without a blank
			s.addAt(value, section, noValue)
		case gone:
			s.addAt(key, section, "unknown key "+key.Value+"; "+why)
		default:
			s.addAt(key, section, "unknown key"+suggest(key.Value, "; the keys here are ", known))
		}
		found = true
	}
	return found
}

// goneKeys are keys that a user may look for, with why there is no such key.
var goneKeys = map[string]string{
	"rollout.copy": "a bill has one owner, so a copy of it at the other backend is a second bill: " +
		"with bills: separate partners go from old to canary, and only with bills: shared there is a stage shadow",
}

// loadEntries reads a list, in the order of the file.
func (s *source) loadEntries(n *yaml.Node, v reflect.Value, tag reflect.StructTag, key string) {
	kind, must, step := yaml.SequenceNode, "must be a list", 1
	named := entryName(v.Type()) != ""
	if named {
		kind, must, step = yaml.MappingNode, "must be a mapping", 2
	}
	if n.Kind != kind {
		s.add(key, must)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content)/step, len(n.Content)/step))
	for i := range v.Len() {
		entry, at := v.Index(i), fmt.Sprintf("%s[%d]", key, i)
		if named {
			name := n.Content[i*step].Value
			entry.Field(0).SetString(name)
			at = below(key, escape(name))
		}
		s.load(n.Content[i*step+step-1], entry, tag, at)
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
	number := func(v reflect.Value) float64 { return v.Convert(reflect.TypeFor[float64]()).Float() }
	bound := func(text string) float64 {
		b := reflect.New(v.Type()).Elem()
		(&source{}).load(parseLiteral(text), b, "", "")
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
	return fmt.Sprintf("%s, but is %v", must, v.Interface())
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
