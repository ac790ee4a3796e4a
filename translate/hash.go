package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// An operationHash is the hash of an operation's requests: SHA-256 in lower-case hexadecimal digits. Its numbers are
// indexes of rows, and so of slots.
type operationHash struct {
	in int        // has the hash
	of []hashPart // what is hashed, in this order
}

// A hashPart is a field that is hashed.
type hashPart struct {
	slot     int
	optional bool // without it the other parts are hashed; otherwise there is no hash
}

// readHash reads the hash of an operation: the row that has it, and the rows that are hashed.
func (s *source) readHash(o *Operation, n *yaml.Node) {
	rows, inBoth := o.rows[Request], o.paths[0] != "" && o.paths[1] != ""
	find := func(n *yaml.Node, name string, inOne bool) int {
		slot := slices.IndexFunc(rows, func(r *row) bool { return r.id == name })
		switch {
		case slot < 0:
			s.errorf(n, "hash: the request of %s has no row %s%s", o.Name, name, didYouMeanRow(name, rows))
		case rows[slot].Role.Same == "never":
			s.errorf(n, "hash: %s has role: %s, and the gateway may replace it", name, rows[slot].Role.name)
		case rows[slot].items != nil || inBoth && rows[slot].onlyForm() >= 0 && !inOne:
			s.errorf(n, "hash: %s cannot be a list, and needs a path in each form of the operation", name)
		}
		return slot
	}
	for name, of := range s.members(n, "hash") {
		o.hash = &operationHash{in: find(name, name.Value, false)}
		for _, item := range s.items(of, "hash") {
			part, optional := strings.CutSuffix(s.str(item, "hash"), "?")
			o.hash.of = append(o.hash.of, hashPart{find(item, part, optional), optional})
		}
	}
	if n != nil && n.Kind == yaml.MappingNode && (len(n.Content) != 2 || len(n.Content[1].Content) == 0) {
		s.errorf(n, "hash must be the row with the hash, and the rows that are hashed, "+
			"as in {hash: [id, phone?, price]}")
	}
}

// HasHash reports whether requests of the operation have a hash, by the table.
func (o *Operation) HasHash() bool { return o.hash != nil }

// A Signature is the hash of a request.
type Signature struct {
	Text    string // what is hashed
	Hash    string // in hexadecimal digits, lower-case
	Carried string // the hash that the request has; "" for none
}

// Sign returns the hash of the request that was read. The operation must have a hash. The error is a [*Refusal]: a part
// is missing, or is no single value.
func (c *Call) Sign() (Signature, error) {
	p, h := c.translation.request, c.translation.operation.hash
	var parts []string
	for _, part := range h.of {
		v, f, reason := c.request[part.slot], p.fields[part.slot], Detail{}
		switch {
		case v.kind == composite:
			reason = why(wantSingle, v.typeName())
		case v.countsAsAbsent() && !part.optional:
			reason = why(IsMissing)
		case v.countsAsAbsent():
			continue
		case f.digits && !allDigits(v.text()):
			reason = why(wantDigits, v.notDigits())
		}
		if reason.Format != "" {
			return Signature{}, p.table.refusal(f.source, reason)
		}
		parts = append(parts, v.text())
	}
	joined := strings.Join(parts, ",")
	s, sum := Signature{Text: joined}, sha256.Sum256([]byte(joined))
	s.Hash = hex.EncodeToString(sum[:])
	if v := c.request[h.in]; v.kind == text {
		s.Carried = v.text()
	}
	return s, nil
}
