package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Version returns a hash of the text of the table, with its overlays, from which messages of the operation are made:
// everything that changes a message or what it means. What was counted of an operation with one version does not count
// for another. It does not depend on descriptions, comments, the order of keys, or how the gateway represents a table.
func (o *Operation) Version() string { return o.version }

// Keys that change no message of an operation, or that are in its version as far as its rows use them.
var (
	outsideVersions   = strings.Fields("operations callbacks shared fields nouns roles")
	outsideOperations = strings.Fields("request reply route state_returns")
	outsideRows       = []string{"each"}
)

// setVersions sets the versions of all operations.
func (s *source) setVersions() {
	t, common := s.table, version{sha256.New()}
	common.print("%q", t.Forms()) // the first one has the catalogue, and the paths that rows refer to
	common.mapping(s.root, outsideVersions...)
	shared := common.String()
	for _, o := range t.operations {
		v := version{sha256.New()}
		v.print("%q %s", o.Name, shared)
		v.mapping(child(child(s.root, "operations"), o.Name), outsideOperations...)
		roles := map[string]bool{o.Created: true}
		for _, m := range []Message{Request, Reply} {
			v.print("%s", m)
			v.rows(o.rows[m], roles)
		}
		for name, role := range Members(child(s.root, "roles")) {
			if roles[name.Value] {
				v.print("%q", name.Value)
				v.mapping(role)
			}
		}
		o.version = v.String()
	}
}

// A version hashes parts of the tree of a table. Nodes that say the same are written as the same bytes.
type version struct{ hash.Hash }

func (v version) String() string { return hex.EncodeToString(v.Sum(nil)[:6]) }

func (v version) print(format string, values ...any) {
	_, _ = fmt.Fprintf(v, format+"\n", values...) // a hash takes everything
}

// rows writes the rows that no option has switched off, and adds their roles.
func (v version) rows(rows []*row, roles map[string]bool) {
	for _, r := range rows {
		roles[r.Role.name] = true
		v.print("%q", r.id)
		v.mapping(r.node, outsideRows...)
		switch {
		case r.Each == nil:
		case r.list:
			v.node("each", r.Each)
		default:
			v.print("each")
			v.rows(r.items, roles)
			v.print("end")
		}
	}
}

// mapping writes a mapping, or nothing for nil, without some keys.
func (v version) mapping(n *yaml.Node, without ...string) {
	values := map[string]*yaml.Node{} // an overlay can have 100,000 codes
	for key, value := range Members(n) {
		values[key.Value] = value
	}
	v.print("{")
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(without, key) {
			v.node(key, values[key])
		}
	}
	v.print("}")
}

// node writes the value of a key, or an item for the key "".
func (v version) node(key string, n *yaml.Node) {
	v.print("%q", key)
	switch {
	case n.Kind == yaml.SequenceNode, key == "status": // of several statuses with one code, the first counts
		v.print("[")
		for _, item := range n.Content {
			v.node("", item)
		}
		v.print("]")
	case n.Kind == yaml.MappingNode:
		v.mapping(n)
	default:
		v.print("%s %q", n.Tag, n.Value)
	}
}
