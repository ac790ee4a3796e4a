package translate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A File is the content of a YAML file, and its name in errors.
type File struct {
	Name string
	Data []byte
}

// A Problem is one mistake in a YAML file, with its position. Lines and columns count from 1.
type Problem struct {
	File         string
	Line, Column int
	Text         string
}

func (p Problem) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
}

// Problems are all mistakes that were found, in the order of the files.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.Error()
	}
	return strings.Join(lines, "\n")
}

// Sorted sorts the problems by file, line and column, and returns them.
func (p Problems) Sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column)
	})
	return p
}

// source is the tree of a table, with its overlays applied. It collects problems, so that one run reports all of them.
type source struct {
	root         *yaml.Node
	file         string
	overlayOf    map[*yaml.Node]string       // by node of an overlay: the overlay's name
	commonIn     map[string][]*yaml.Node     // by name of common rows: the messages that include them
	layers       map[*yaml.Node][]*yaml.Node // by the rows of a callback that reuses rows: those of each overlay
	changes      []RowChange
	usedOptions  map[string]bool        // options in the when or unless of a row
	refusalCodes []*yaml.Node           // codes that a refusal of the gateway can have
	hasProblems  map[string]bool        // by name of an operation
	codeItems    map[codeKey]*yaml.Node // the items of the catalogue
	compared     int                    // the names that were compared for suggestions
	problems     Problems
	missingNew   Problems // additions of an overlay without new: true; they do not keep other mistakes from being found
}

// load parses the base table and applies the overlays to it.
func load(base File, overlays ...File) (*source, error) {
	s := &source{file: base.Name, overlayOf: map[*yaml.Node]string{}, commonIn: map[string][]*yaml.Node{}, layers: map[*yaml.Node][]*yaml.Node{}, usedOptions: map[string]bool{}, hasProblems: map[string]bool{}}
	root, err := ParseYAML(base)
	if err != nil {
		return nil, err
	}
	s.root = root
	s.expandAllCommon()
	for _, file := range overlays {
		overlay, err := ParseYAML(file)
		if err != nil {
			return nil, err
		}
		s.setOverlay(overlay, file.Name)
		s.applyOverlay(overlay)
	}
	s.removeCommon()
	if len(s.problems) > 0 {
		return nil, append(s.problems, s.missingNew...).Sorted()
	}
	return s, nil
}

// ParseYAML returns the tree of one YAML document. Tags, anchors, aliases and duplicate keys are errors. A file without content is an empty mapping.
// The error is of type [Problems].
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
		return nil, Problems{{file.Name, max(more.Line, 1), max(more.Column, 1), "a second YAML document begins here, but a file must have only one"}}
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

// syntaxProblems converts the errors of the YAML library.
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

// inspect adds a problem for each duplicate key, for each key that is not text, for each tag, which would change the type of a value,
// and for each anchor and alias, since aliases can expand without limit.
func inspect(file string, n *yaml.Node, problems *Problems) {
	add := func(n *yaml.Node, text string, args ...any) {
		*problems = append(*problems, Problem{file, n.Line, n.Column, fmt.Sprintf(text, args...)})
	}
	// The texts have no names: in a config they may be a secret that begins with one of these characters.
	if n.Style&yaml.TaggedStyle != 0 || n.Tag != "" && !strings.HasPrefix(n.Tag, "!!") {
		add(n, "a tag is not supported; put a value that begins with ! in quotes")
	}
	if n.Anchor != "" {
		add(n, "an anchor is not supported; put a value that begins with & in quotes")
	}
	switch n.Kind {
	case yaml.AliasNode:
		add(n, "an alias is not supported: write the value itself, and put a value that begins with * in quotes")
		return
	case yaml.MappingNode:
		seen := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
				add(key, "a key must be plain text")
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

// setOverlay records that a node and all nodes in it came from an overlay.
func (s *source) setOverlay(n *yaml.Node, name string) {
	s.overlayOf[n] = name
	for _, child := range n.Content {
		s.setOverlay(child, name)
	}
}

// errorf adds a problem at the position of n.
func (s *source) errorf(n *yaml.Node, text string, args ...any) {
	s.problems = append(s.problems, s.problem(n, text, args...))
}

func (s *source) problem(n *yaml.Node, text string, args ...any) Problem {
	return Problem{s.fileOf(n), n.Line, n.Column, fmt.Sprintf(text, args...)}
}

// fileOf returns the name of the file that a node came from.
func (s *source) fileOf(n *yaml.Node) string {
	if name, ok := s.overlayOf[n]; ok {
		return name
	}
	return s.file
}

// fields calls f for each key of the mapping n. It is a problem if n is not a mapping.
func (s *source) fields(n *yaml.Node, what string, f func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		s.errorf(n, "%s must be a mapping", what)
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		f(n.Content[i], n.Content[i+1])
	}
}

// items calls f for each item of the list n. It is a problem if n is not a list.
func (s *source) items(n *yaml.Node, what string, f func(item *yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		s.errorf(n, "%s must be a list", what)
		return
	}
	for _, item := range n.Content {
		f(item)
	}
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
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		s.errorf(n, "%s must be true or false, but is %s", what, show(n))
		return false
	}
	return n.Value == "true" || n.Value == "True" || n.Value == "TRUE"
}

func (s *source) wholeNumber(n *yaml.Node, what string) int {
	var v int
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Decode(&v) != nil || v < 0 {
		s.errorf(n, "%s must be a whole number, but is %s", what, show(n))
		return 0
	}
	return v
}

// oneOf returns the text of a scalar that must be one of the allowed values.
func (s *source) oneOf(n *yaml.Node, what string, allowed ...string) string {
	if n.Kind == yaml.ScalarNode && slices.Contains(allowed, n.Value) {
		return n.Value
	}
	s.errorf(n, "%s must be %s, but is %s", what, strings.Join(allowed, " or "), show(n))
	return ""
}

// show returns a node for an error.
func show(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "null"
	}
	return strconv.Quote(n.Value)
}

// maxShown limits the pairs of a row that are shown. An overlay can have 100,000.
const maxShown = 20

// showRow returns a row in one line.
func showRow(n *yaml.Node) string {
	var parts []string
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			parts = append(parts, n.Content[i].Value+": "+showRow(n.Content[i+1]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case yaml.SequenceNode:
		for i, item := range n.Content {
			if i == maxShown {
				parts = append(parts, "…")
				break
			}
			parts = append(parts, showRow(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return strconv.Quote(n.Value)
	}
	return n.Value
}

// unknownForm adds a problem for a form that the table does not have.
func (s *source) unknownForm(t *Table, n *yaml.Node, what string) {
	s.errorf(n, "%s: the table has no form %s, only %s and %s", what, show(n), t.forms[0].name, t.forms[1].name)
}

// unknownKey adds a problem for a key that is not one of the known keys.
func (s *source) unknownKey(n *yaml.Node, what string, known ...string) {
	hint := DidYouMean(n.Value, known)
	if now := renamedKeys[n.Value]; slices.Contains(known, now) {
		hint = "; it was renamed to " + now
	}
	s.errorf(n, "unknown key %q in %s%s", n.Value, what, hint)
}

// renamedKeys are the keys of earlier versions, with their names now.
var renamedKeys = map[string]string{"proof": "must_equal_request", "bare": "no_envelope", "makes": "creates", "note": "about"}

// child returns the value of a key in the mapping n, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n != nil && i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}
