package config

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// checkNodes adds a problem for each value that YAML reads as something else than what is written: an empty one, which would keep the
// default, and one with a tag or an anchor, which is what a secret becomes that begins with ! or & and is not in quotes.
func (s *source) checkNodes(n *yaml.Node) {
	add := func(n *yaml.Node, text string) {
		s.problems = append(s.problems, s.problemAt(n, text))
	}
	switch {
	case n.Anchor != "":
		add(n, "an anchor is not supported; put a value that begins with & in quotes")
	case n.Style&yaml.TaggedStyle != 0 || n.Tag != "" && !strings.HasPrefix(n.Tag, "!!"):
		add(n, "a tag is not supported; put a value that begins with ! in quotes")
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		add(n, "there is no value: write one after a colon and a blank, or remove the key")
	}
	for _, child := range n.Content {
		s.checkNodes(child)
	}
}
