package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"
)

// version returns the hash of [Table.Version]. The order of keys is a part of it: of several statuses with one code the first is written.
func (s *source) version() string {
	h := sha256.New()
	for key, value := range Members(s.root) {
		if key.Value != "fields" && key.Value != "nouns" {
			writeNode(h, key)
			writeNode(h, value)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// writeNode writes what a node says.
func writeNode(w io.Writer, n *yaml.Node) {
	fmt.Fprintf(w, "%d %s %q %d ", n.Kind, n.Tag, n.Value, len(n.Content))
	for _, child := range n.Content {
		writeNode(w, child)
	}
}
