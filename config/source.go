package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"billbridge/translate"

	"go.yaml.in/yaml/v4"
)

// source is the file of a config. It collects problems with their positions.
type source struct {
	file     string
	root     *yaml.Node
	lookup   func(string) (string, bool)
	problems translate.Problems
}

// addProblem adds a problem at the position of a key.
func (s *source) addProblem(text string, keys ...string) {
	p := s.position(keys...)
	path := slices.Clone(keys)
	if len(path) > 1 && path[0] == "upstreams" && len(path[1]) > 4 && !upstreamName.MatchString(path[1]) {
		path[1] = notShown
	}
	if len(path) > 1 && path[0] == "partners" {
		path[1] = shownHash(path[1])
	}
	if len(path) > 2 && path[0] == "tracing" && !headerName.MatchString(path[2]) {
		path[2] = notShown
	}
	p.Text = strings.Join(path, ".") + ": " + withoutSecrets(text)
	s.problems = append(s.problems, p)
}

// problemAt returns a problem at the position of a node.
func (s *source) problemAt(n *yaml.Node, text string) translate.Problem {
	return translate.Problem{File: s.file, Line: n.Line, Column: n.Column, Text: text}
}

// position returns the position of a key, or of the innermost section around it that the file has.
func (s *source) position(keys ...string) translate.Problem {
	n := s.root
	for _, key := range keys {
		next := child(n, key)
		if next == nil {
			break
		}
		n = next
	}
	return s.problemAt(n, "")
}

func (s *source) readFile(path string, keys ...string) ([]byte, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		s.addFileProblem(err, keys...)
	}
	return data, err == nil
}

// addFileProblem adds a problem with a file. What is in the place of its path may be a secret.
func (s *source) addFileProblem(err error, keys ...string) {
	text := err.Error()
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		text = failed.Op + " " + shownFile(failed.Path) + ": " + failed.Err.Error()
	}
	s.addProblem(text, keys...)
}

// child returns the value of a key in the mapping n, or nil. For a key such as tokens[1] it returns an entry of the list.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	list, index, _ := strings.Cut(strings.TrimSuffix(key, "]"), "[")
	if i, err := strconv.Atoi(index); err == nil {
		if entries := child(n, list); entries != nil && entries.Kind == yaml.SequenceNode && i < len(entries.Content) {
			return entries.Content[i]
		}
	}
	return nil
}

var (
	unknownField = regexp.MustCompile(`^field (.+) not found in type `)
	wrongType    = regexp.MustCompile("^cannot construct !!(\\w+)(?: `(.*)`)? into (.*)$")
)

// movedKeys are keys of earlier versions that are now in the table, with the hint for their error.
var movedKeys = map[string]string{
	"not_found":   `; it moved to the table: write catalogue: [{code: "9980", form: legacy, means: not_found}] into an overlay (table.overlay)`,
	"unexplained": `; it moved to the table: write operations: {bill.create: {explain: false}} into an overlay (table.overlay)`,
}

// yamlProblems rewords the errors of the YAML library, which name Go types.
func (s *source) yamlProblems(err error) translate.Problems {
	var many *yaml.LoadErrors
	if !errors.As(err, &many) {
		return translate.Problems{{File: s.file, Line: 1, Column: 1, Text: withoutSecrets(err.Error())}}
	}
	for _, e := range many.Errors {
		text := e.Message
		if m := unknownField.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("unknown key %q%s", m[1], movedKeys[m[1]])
			if movedKeys[m[1]] == "" {
				text += translate.DidYouMean(m[1], knownKeys(s.root, reflect.TypeFor[Config](), e.Mark.Line, e.Mark.Column))
			}
		} else if m := wrongType.FindStringSubmatch(text); m != nil {
			text = "must be " + typeName(m[3])
			if m[2] != "" {
				text += fmt.Sprintf(", but is %q", m[2])
			}
		}
		s.problems = append(s.problems, translate.Problem{File: s.file, Line: e.Mark.Line, Column: e.Mark.Column, Text: withoutSecrets(text)})
	}
	return s.problems.Sorted()
}

// knownKeys returns the keys of the section that has a key at a line and column. t is the Go type of section n.
func knownKeys(n *yaml.Node, t reflect.Type, line, column int) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice {
		for _, entry := range n.Content {
			if found := knownKeys(entry, t.Elem(), line, column); found != nil {
				return found
			}
		}
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
		key, valueType := n.Content[i], types[n.Content[i].Value]
		if key.Line == line && key.Column == column {
			return known
		}
		if t.Kind() == reflect.Slice || t.Kind() == reflect.Map { // the file chooses the names of these sections
			valueType = t.Elem()
		}
		if valueType != nil {
			if found := knownKeys(n.Content[i+1], valueType, line, column); found != nil {
				return found
			}
		}
	}
	return nil
}

// typeName returns the name of a Go type for an error.
func typeName(goType string) string {
	switch goType {
	case "int":
		return "a whole number"
	case "bool":
		return "true or false"
	case "string", "translate.Form":
		return "text"
	}
	if strings.HasPrefix(goType, "[]") {
		return "a list"
	}
	return "a mapping"
}
