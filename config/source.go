package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
func (s *source) addProblem(text string, path ...string) {
	s.problems = append(s.problems, s.problem(text, path...))
}

// addAt adds a problem at the position of a node.
func (s *source) addAt(n *yaml.Node, text string, path []string) {
	s.problems = append(s.problems, s.problemAt(n, text, path))
}

// addf adds a problem with a key that has no names of the file in it, such as "log.level".
func (s *source) addf(key, format string, args ...any) {
	s.addProblem(fmt.Sprintf(format, args...), strings.Split(key, ".")...)
}

// problem returns a problem at the position of a key, or of the innermost section around it that the file has.
func (s *source) problem(text string, path ...string) translate.Problem {
	n := s.root
	for _, key := range path {
		if next := child(n, key); next != nil {
			n = next
		} else {
			break
		}
	}
	return s.problemAt(n, text, path)
}

// position returns the position of a key.
func (s *source) position(path ...string) translate.Problem {
	p := s.problem("", path...)
	p.Text = ""
	return p
}

// problemAt returns a problem at the position of a node. Its text begins with the path, without names that may be
// secrets in the wrong place: those of partners, and invalid ones of upstreams.
func (s *source) problemAt(n *yaml.Node, text string, path []string) translate.Problem {
	path = slices.Clone(path)
	named := map[string]int{"upstreams": 1, "partners": 1}
	if len(path) > 0 {
		at := named[path[0]]
		if at > 0 && len(path) > at && (path[0] != "upstreams" || !upstreamName.MatchString(path[at])) {
			path[at] = "…"
		}
		text = strings.Join(path, ".") + ": " + text
	}
	return translate.Problem{File: s.file, Line: n.Line, Column: n.Column, Text: text}
}

// resolvePath returns the path for a path in the config file, which is relative to the folder of that file.
func (s *source) resolvePath(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(s.file), path)
}

func (s *source) readFile(path string, keys ...string) ([]byte, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		s.addProblem(s.fileText(err), keys...)
	}
	return data, err == nil
}

// fileText returns the text of a problem with a file. It has no path: what is in the place of the path may be a secret.
func (s *source) fileText(err error) string {
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return "the file cannot be read: " + failed.Err.Error() + s.relative()
	}
	return err.Error()
}

// relative is the hint of an error about a path.
func (s *source) relative() string { return "; a relative path starts at " + filepath.Dir(s.file) }

// child returns the value of a key in the mapping n, or nil. For a key such as tokens[1] it returns an entry of the
// list.
func child(n *yaml.Node, key string) *yaml.Node {
	for name, value := range translate.Members(n) {
		if name.Value == key {
			return value
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

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']{5,}'`)

// withoutText returns an error about the syntax of a file without the text of the file, which is in quotes.
func withoutText(text string) string {
	if strings.HasPrefix(text, "unknown anchor ") { // of a value that begins with *
		return "put a value that begins with !, & or * in quotes: tags, anchors and aliases are not supported"
	}
	return quoted.ReplaceAllString(text, "the key")
}
