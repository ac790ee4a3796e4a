package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

// add adds a problem with a key, such as log.level. The names of entries in it are escaped, see escape.
func (s *source) add(key, text string) { s.addAt(s.find(key), key, text) }

func (s *source) addf(key, format string, args ...any) { s.add(key, fmt.Sprintf(format, args...)) }

// addAt adds a problem with a key at the position of a node.
func (s *source) addAt(n *yaml.Node, key, text string) {
	s.problems = append(s.problems, s.problem(n, key, text))
}

// find returns the node of a key, or of the innermost section around it that the file has.
func (s *source) find(key string) *yaml.Node {
	n := s.root
	for name := range strings.SplitSeq(key, ".") {
		next := child(n, name)
		if next == nil {
			break
		}
		n = next
	}
	return n
}

// position returns the position of a key.
func (s *source) position(key string) translate.Problem { return s.problem(s.find(key), "", "") }

// problem returns a problem at the position of a node. Its text begins with the key, without names that may be secrets
// in the wrong place: those of partners, and invalid ones of upstreams.
func (s *source) problem(n *yaml.Node, key, text string) translate.Problem {
	if names := strings.Split(key, "."); key != "" {
		if len(names) > 1 &&
			(names[0] == "partners" || names[0] == "upstreams" && !upstreamName.MatchString(names[1])) {
			names[1] = "…"
		}
		text = strings.Join(names, ".") + ": " + text
	}
	return translate.Problem{File: s.file, Line: n.Line, Column: n.Column, Text: text}
}

// escape makes the name of an entry a part of a key, in which dots separate the parts.
func escape(name string) string { return strings.ReplaceAll(name, ".", "\x00") }

// resolvePath returns the path for a path in the config file, which is relative to the folder of that file.
func (s *source) resolvePath(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(s.file), path)
}

func (s *source) readFile(path, key string) []byte {
	data, err := os.ReadFile(path)
	if err != nil {
		s.add(key, s.fileText(err))
	}
	return data
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

// child returns the value of a part of a key in the mapping n, or nil. For a part such as tokens[1] it returns an entry
// of the list.
func child(n *yaml.Node, key string) *yaml.Node {
	for name, value := range translate.Members(n) {
		if escape(name.Value) == key {
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
