package config

import "go.yaml.in/yaml/v4"

// checkNodes adds a problem for each empty value, which would keep the default.
func (s *source) checkNodes(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		s.problems = append(s.problems, s.problemAt(n, "there is no value: write one after a colon and a blank, or remove the key"))
	}
	for _, child := range n.Content {
		s.checkNodes(child)
	}
}
