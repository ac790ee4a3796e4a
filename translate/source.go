package translate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A File is the text of a table, or of an overlay, and the name that errors give it.
type File struct {
	Name string
	Data []byte
}

// A Problem is one mistake in a YAML file, at its place. Lines and columns count from 1.
type Problem struct {
	File         string
	Line, Column int
	Text         string
}

func (p Problem) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
}

// Problems are all mistakes that were found, in the order of the file.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.Error()
	}
	return strings.Join(lines, "\n")
}

// Sorted puts the problems of each file in the order of its lines, and returns them.
func (p Problems) Sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column)
	})
	return p
}

// source is the tree of a table file with its overlays merged in. It collects problems as it is read, so that
// one run shows all of them.
type source struct {
	root         *yaml.Node
	file         string
	overlayOf    map[*yaml.Node]string   // nodes that came from an overlay, by the overlay's name
	commonIn     map[string][]*yaml.Node // by the name of common rows: the messages that have them
	usedOptions  map[string]bool         // options that a row names
	refusalCodes []*yaml.Node            // codes that a refusal of ours may have
	hasProblems  map[string]bool         // operations with problems of their own
	problems     Problems
	missingNew   Problems // what an overlay adds without new: true; reading goes on, so that other mistakes are found too
}

// load parses the base and lays the overlays over it.
func load(base File, overlays ...File) (*source, error) {
	s := &source{file: base.Name, overlayOf: map[*yaml.Node]string{}, commonIn: map[string][]*yaml.Node{}, usedOptions: map[string]bool{}, hasProblems: map[string]bool{}}
	root, err := ParseYAML(base)
	if err != nil {
		return nil, err
	}
	s.root = root
	s.expandAllCommon()
	for _, file := range overlays {
		over, err := ParseYAML(file)
		if err != nil {
			return nil, err
		}
		s.setOverlay(over, file.Name)
		s.applyOverlay(over)
	}
	s.removeCommon()
	if len(s.problems) > 0 {
		return nil, append(s.problems, s.missingNew...).Sorted()
	}
	return s, nil
}

// ParseYAML reads one YAML document into its tree; aliases and duplicate keys are refused. A file of comments
// alone is an empty mapping. The error is of type [Problems].
func ParseYAML(file File) (*yaml.Node, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(file.Data))
	if err != nil {
		return nil, syntaxProblems(file.Name, err)
	}
	var doc, more yaml.Node
	if err := loader.Load(&doc); err != nil && err != io.EOF {
		return nil, syntaxProblems(file.Name, err)
	}
	switch err := loader.Load(&more); {
	case err == nil:
		return nil, Problems{{file.Name, max(more.Line, 1), max(more.Column, 1), "a second document begins here, but only one is read"}}
	case err != io.EOF:
		return nil, syntaxProblems(file.Name, err)
	}
	root := &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}
	if len(doc.Content) == 1 && doc.Content[0].Tag != "!!null" {
		root = doc.Content[0]
	}
	var problems Problems
	inspect(file.Name, root, &problems)
	if len(problems) > 0 {
		return nil, problems
	}
	return root, nil
}

// syntaxProblems gives the library's errors the shape of ours.
func syntaxProblems(file string, err error) Problems {
	var problems Problems
	add := func(e *yaml.LoadError) {
		problems = append(problems, Problem{file, max(e.Mark.Line, 1), max(e.Mark.Column, 1), e.Message})
	}
	var many *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case errors.As(err, &many):
		for _, e := range many.Errors {
			add(e)
		}
	case errors.As(err, &one):
		add(one)
	default:
		problems = append(problems, Problem{file, 1, 1, err.Error()})
	}
	return problems
}

// inspect refuses what a table or config never needs and a reader would stumble over: duplicate keys, keys
// that are not words, and aliases, whose expansion has no bound.
func inspect(file string, n *yaml.Node, problems *Problems) {
	add := func(n *yaml.Node, text string, args ...any) {
		*problems = append(*problems, Problem{file, n.Line, n.Column, fmt.Sprintf(text, args...)})
	}
	switch n.Kind {
	case yaml.AliasNode:
		add(n, "aliases (*%s) are not supported here", n.Value)
		return
	case yaml.MappingNode:
		seen := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
				add(key, "a key must be a plain word")
				continue
			}
			if line, dup := seen[key.Value]; dup {
				add(key, "%q is already set on line %d", key.Value, line)
			}
			seen[key.Value] = key.Line
		}
	}
	for _, child := range n.Content {
		inspect(file, child, problems)
	}
}

func (s *source) setOverlay(n *yaml.Node, name string) {
	s.overlayOf[n] = name
	for _, child := range n.Content {
		s.setOverlay(child, name)
	}
}

// errorf records a problem at the place of n.
func (s *source) errorf(n *yaml.Node, text string, args ...any) {
	s.problems = append(s.problems, s.problem(n, text, args...))
}

func (s *source) problem(n *yaml.Node, text string, args ...any) Problem {
	file := s.file
	if name, ok := s.overlayOf[n]; ok {
		file = name
	}
	return Problem{file, n.Line, n.Column, fmt.Sprintf(text, args...)}
}

// fields calls f for each key of the mapping n; a node of another kind is a problem.
func (s *source) fields(n *yaml.Node, what string, f func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		s.errorf(n, "%s must be a mapping", what)
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		f(n.Content[i], n.Content[i+1])
	}
}

// items calls f for each item of the sequence n; a node of another kind is a problem.
func (s *source) items(n *yaml.Node, what string, f func(item *yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		s.errorf(n, "%s must be a list", what)
		return
	}
	for _, item := range n.Content {
		f(item)
	}
}

// str is the text of a scalar; another kind is a problem.
func (s *source) str(n *yaml.Node, what string) string {
	if n.Kind != yaml.ScalarNode || n.Value == "" || n.Tag == "!!null" {
		s.errorf(n, "%s must be a word", what)
		return ""
	}
	return n.Value
}

func (s *source) boolean(n *yaml.Node, what string) bool {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		s.errorf(n, "%s must be true or false", what)
		return false
	}
	return n.Value == "true" || n.Value == "True" || n.Value == "TRUE"
}

func (s *source) wholeNumber(n *yaml.Node, what string) int {
	var v int
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Decode(&v) != nil || v < 0 {
		s.errorf(n, "%s must be a whole number, but is %q", what, n.Value)
		return 0
	}
	return v
}

// oneOf is the text of a scalar that must be one of the allowed words.
func (s *source) oneOf(n *yaml.Node, what string, allowed ...string) string {
	if n.Kind == yaml.ScalarNode {
		for _, a := range allowed {
			if n.Value == a {
				return a
			}
		}
	}
	s.errorf(n, "%s must be %s, but is %q", what, strings.Join(allowed, " or "), n.Value)
	return ""
}

// unknownKey records a key that n must not have, where the known ones may stand.
func (s *source) unknownKey(n *yaml.Node, what string, known ...string) {
	hint := DidYouMean(n.Value, known)
	if now := renamedKeys[n.Value]; slices.Contains(known, now) {
		hint = "; it is called " + now + " now"
	}
	s.errorf(n, "unknown key %q in %s%s", n.Value, what, hint)
}

// renamedKeys are keys of earlier versions.
var renamedKeys = map[string]string{"proof": "must_equal_request", "bare": "no_envelope", "makes": "creates", "note": "about"}

// child is the value of key in the mapping n, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n != nil && i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}
