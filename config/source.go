package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"

	"billbridge/translate"

	"go.yaml.in/yaml/v4"
)

// source is the file that a config came from, for the place of each problem.
type source struct {
	file     string
	root     *yaml.Node
	lookup   func(string) (string, bool)
	problems translate.Problems
}

// problem records a mistake at the place of a key, or of the deepest section around it that the file has.
func (s *source) problem(text string, keys ...string) {
	p := s.place(keys...)
	p.Text = strings.Join(keys, ".") + ": " + text
	s.problems = append(s.problems, p)
}

// place is where a key stands, or the deepest section around it that the file has.
func (s *source) place(keys ...string) translate.Problem {
	n := s.root
	for _, key := range keys {
		next := value(n, key)
		if next == nil {
			break
		}
		n = next
	}
	return translate.Problem{File: s.file, Line: n.Line, Column: n.Column}
}

func (s *source) readFile(path string, keys ...string) ([]byte, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		s.problem(err.Error(), keys...)
	}
	return data, err == nil
}

func value(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

var (
	unknownField = regexp.MustCompile(`^field (.+) not found in type `)
	wrongType    = regexp.MustCompile("^cannot construct !!(\\w+)(?: `(.*)`)? into (.*)$")
)

// moved are keys of earlier versions that are words of the table now.
var moved = map[string]string{
	"not_found":   `; codes have their meaning in the table now: write catalogue: [{code: "9980", form: legacy, means: not_found}] into an overlay (table.overlay)`,
	"unexplained": `; it is a word of an operation in the table now: write operations: {bill.create: {explain: false}} into an overlay (table.overlay)`,
}

// readable gives the YAML library's errors the words of a config's reader.
func (s *source) readable(err error) translate.Problems {
	var many *yaml.LoadErrors
	if !errors.As(err, &many) {
		return translate.Problems{{File: s.file, Line: 1, Column: 1, Text: err.Error()}}
	}
	for _, e := range many.Errors {
		text := e.Message
		if m := unknownField.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("unknown key %q%s", m[1], moved[m[1]])
			if moved[m[1]] == "" {
				text += translate.DidYouMean(m[1], keysBeside(s.root, reflect.TypeFor[Config](), e.Mark.Line, e.Mark.Column))
			}
		} else if m := wrongType.FindStringSubmatch(text); m != nil {
			text = "must be " + expected(m[3])
			if m[2] != "" {
				text += fmt.Sprintf(", but is %q", m[2])
			}
		}
		s.problems = append(s.problems, translate.Problem{File: s.file, Line: e.Mark.Line, Column: e.Mark.Column, Text: text})
	}
	return s.problems.Sorted()
}

// keysBeside are the keys that the section may have in which a key stands at a line and column, by the types of the config.
func keysBeside(n *yaml.Node, t reflect.Type, line, column int) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	types, known := map[string]reflect.Type{}, []string(nil)
	if t.Kind() == reflect.Struct {
		for _, field := range reflect.VisibleFields(t) {
			if key := field.Tag.Get("yaml"); key != "" && key != "-" {
				types[key], known = field.Type, append(known, key)
			}
		}
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		key, of := n.Content[i], types[n.Content[i].Value]
		if key.Line == line && key.Column == column {
			return known
		}
		if t.Kind() == reflect.Slice || t.Kind() == reflect.Map { // sections by a name that the file chooses
			of = t.Elem()
		}
		if of != nil {
			if found := keysBeside(n.Content[i+1], of, line, column); found != nil {
				return found
			}
		}
	}
	return nil
}

func expected(goType string) string {
	switch goType {
	case "int":
		return "a whole number"
	case "bool":
		return "true or false"
	case "string", "translate.Form":
		return "a word"
	}
	if strings.HasPrefix(goType, "[]") {
		return "a list"
	}
	return "a section with keys of its own"
}
