package translate

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
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

// ParseYAML returns the tree of one YAML document. Tags, anchors, aliases and duplicate keys are errors. A file
// without content is an empty mapping. The error is of type [Problems].
func ParseYAML(file File) (*yaml.Node, error) {
	var docs []yaml.Node
	if err := yaml.Load(file.Data, &docs, yaml.WithAllDocuments()); err != nil {
		at := &yaml.LoadError{Message: err.Error()}
		errors.As(err, &at)
		return nil, Problems{{file.Name, max(at.Mark.Line, 1), max(at.Mark.Column, 1), at.Message}}
	}
	root := &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}
	switch {
	case len(docs) > 1:
		text := "a second YAML document begins here, but a file must have only one"
		return nil, Problems{{file.Name, max(docs[1].Line, 1), max(docs[1].Column, 1), text}}
	case len(docs) == 1 && len(docs[0].Content) == 1 && docs[0].Content[0].Tag != nullTag:
		root = docs[0].Content[0]
	}
	s := &nodes{table: &Table{files: []File{file}}}
	if s.inspect(root); len(s.problems) > 0 {
		return nil, s.problems
	}
	return root, nil
}

// inspect adds a problem for each duplicate key, for each key that is not text, for each tag, which would change the
// type of a value, and for each anchor and alias, since aliases can expand without limit. The texts have no names: in
// a config they may be a secret that begins with one of these characters.
func (s *nodes) inspect(n *yaml.Node) {
	isTagged := n.Style&yaml.TaggedStyle != 0 || n.Tag != "" && !strings.HasPrefix(n.Tag, "!!")
	if isTagged || n.Anchor != "" || n.Kind == yaml.AliasNode {
		s.errorf(n, "put a value that begins with !, & or * in quotes: tags, anchors and aliases are not supported")
	}
	seen := map[string]int{}
	for key := range Members(n) {
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			s.errorf(key, "a key must be plain text")
			continue
		}
		if line, dup := seen[key.Value]; dup {
			s.errorf(key, "%q is already set on line %d", key.Value, line)
		}
		seen[key.Value] = key.Line
	}
	for _, child := range n.Content {
		s.inspect(child)
	}
}

// Members returns the keys and values of a mapping. It returns nothing for nil and for any other node.
func Members(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// find returns a key of the mapping n and its value, or nil.
func find(n *yaml.Node, name string) (key, value *yaml.Node) {
	for key, value := range Members(n) {
		if key.Value == name {
			return key, value
		}
	}
	return nil, nil
}

// child returns the value of a key in the mapping n, or nil.
func child(n *yaml.Node, name string) *yaml.Node {
	_, value := find(n, name)
	return value
}

// names returns the keys of a mapping.
func names(n *yaml.Node) (list []string) {
	for key := range Members(n) {
		list = append(list, key.Value)
	}
	return list
}

// listOf returns the items of a list, or the only one without a list.
func listOf(n *yaml.Node) []*yaml.Node {
	switch {
	case n == nil || n.Tag == nullTag:
		return nil
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0:
		return n.Content
	}
	return []*yaml.Node{n}
}

// without returns a mapping without some of its keys.
func without(n *yaml.Node, without ...string) *yaml.Node {
	kept := *n
	kept.Content = nil
	for key, value := range Members(n) {
		if !slices.Contains(without, key.Value) {
			kept.Content = append(kept.Content, key, value)
		}
	}
	return &kept
}

// mappingAt returns a mapping with the position of another node.
func mappingAt(at *yaml.Node, content ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: at.Line, Column: at.Column, Content: content}
}

// scalar returns a text with the position of another node.
func scalar(text string, at *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: at.Line, Column: at.Column}
}

// sameNode reports whether two nodes have the same content.
func sameNode(a, b *yaml.Node) bool {
	return a == b || a != nil && b != nil && a.Kind == b.Kind && a.Tag == b.Tag && a.Value == b.Value &&
		slices.EqualFunc(a.Content, b.Content, sameNode)
}

// show returns a node for an error.
func show(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == nullTag:
		return "null"
	}
	return strconv.Quote(n.Value)
}

// quoted are the styles of a text that is in quotes, or a block.
const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// maxShown limits the pairs of a row that are shown. An overlay can have 100,000.
const maxShown = 20

// showRow returns a row in one line.
func showRow(n *yaml.Node) string {
	var parts []string
	switch n.Kind {
	case yaml.MappingNode:
		for key, value := range Members(n) {
			parts = append(parts, key.Value+": "+showRow(value))
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
	if n.Style&quoted != 0 {
		return strconv.Quote(n.Value)
	}
	return n.Value
}
