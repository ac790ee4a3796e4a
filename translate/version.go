package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Version returns a hash of the text of the table, with its overlays, from which messages of the operation are made:
// everything that changes a message or what it means. What was counted of an operation with one version does not count
// for another. It does not depend on descriptions, comments, or how the gateway represents a table.
func (o *Operation) Version() string { return o.version }

// Keys that change no message of an operation, or that are in its version as far as its rows use them.
var (
	outsideVersions   = strings.Fields("operations callbacks shared fields nouns roles")
	outsideOperations = strings.Fields("request reply")
)

// setVersions sets the versions of all operations.
func (s *source) setVersions() {
	var common version
	common.without(s.root, outsideVersions...)
	for _, o := range s.table.operations {
		v, roles := version{}, map[string]bool{o.Created: true}
		v.WriteString(o.Name + common.String())
		v.without(child(child(s.root, "operations"), o.Name), outsideOperations...)
		for _, m := range messageKeys {
			v.WriteString(string(m))
			v.rows(o.rows[m], roles)
		}
		for name, role := range Members(child(s.root, "roles")) {
			if roles[name.Value] {
				v.node(name)
				v.node(role)
			}
		}
		sum := sha256.Sum256([]byte(v.String()))
		o.version = hex.EncodeToString(sum[:6])
	}
}

// A version has the text of parts of a table. Nodes that say the same are written as the same text.
type version struct{ strings.Builder }

// rows writes what rows say, and adds their roles.
func (v *version) rows(rows []*row, roles map[string]bool) {
	for _, r := range rows {
		roles[r.Role.name] = true
		v.WriteString(r.id)
		v.without(r.node, "each")
		if v.WriteString("["); r.list {
			v.node(r.Each)
		}
		v.rows(r.items, roles)
		v.WriteString("]")
	}
}

func (v *version) without(n *yaml.Node, keys ...string) {
	for key, value := range Members(n) {
		if !slices.Contains(keys, key.Value) {
			v.node(key)
			v.node(value)
		}
	}
}

func (v *version) node(n *yaml.Node) {
	fmt.Fprintf(v, "%d %s %q", n.Kind, n.Tag, n.Value)
	for _, child := range n.Content {
		v.node(child)
	}
	v.WriteString(";")
}
