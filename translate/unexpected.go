package translate

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkKind checks an object or an array in the place of a field, and another value in the place of an object. The
// gateway needs the roles of a refused request, so the rest is read also after a refusal.
func (c *Call) checkKind(p *plan, n *node, e *entry, v value) {
	switch {
	case e.node == nil:
		list := e.slot < len(p.fields) && p.fields[e.slot].list && v.raw[0] == '[' // of one form, or as a whole
		if p.message == Request && !list {
			// Between equal forms the upstream decides, unless the row has a role.
			r, reason := p.fields[e.slot], why(wantSingle, v.typeName())
			if r.each != nil || r.list {
				reason = why(wantList, v.typeName())
			}
			if r.Role != noRole {
				keep(&c.rejected, r.malformed, c.at(n.pathOf(e)), reason)
			} else if p.from != p.to {
				keep(&c.refusal, r.malformed, c.at(n.pathOf(e)), reason)
			}
		}
	case p.from == p.to:
	case p.message == Request:
		keep(&c.refusal, p.table.invalid, c.at(e.node.path), why(wantObject, v.typeName()))
	case v.kind != null:
		c.mismatch(n.pathOf(e), Mismatch{"an object", v.typeName()})
	}
}

// rejectLike refuses a field without a row whose name differs from that of a row in case only, and reports whether it
// is one. A backend that ignores case could take its value for the one that was checked here.
func (c *Call) rejectLike(p *plan, n *node, name string) bool {
	if n.fold == nil {
		return false
	}
	var folded [64]byte // the names of a table are shorter, so most names need no allocation
	at, ok := n.fold[string(appendFold(folded[:0], name))]
	if !ok || p.names[name] {
		return false
	}
	known, code := n.names[at], p.table.invalid
	if known.node == nil {
		code = p.fields[known.slot].malformed
	}
	keep(&c.rejected, code, c.at(quoteName(joinPath(n.path, name))), why("differs from %v in case only", known.name()))
	return true
}

// fold returns the same text for names that differ in case only, by the simple case folding of Unicode.
func fold(name string) string { return string(appendFold(nil, name)) }

func appendFold(dst []byte, name string) []byte {
	for _, r := range name {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		dst = utf8.AppendRune(dst, least)
	}
	return dst
}

// keep keeps the first refusal: in c.rejected of a request that no translation takes, in c.refusal of one that this
// translation cannot carry.
func keep(refusal **Refusal, code, field string, reason Detail) {
	if *refusal == nil {
		*refusal = &Refusal{code, strings.Clone(field), reason}
	}
}

// handleUnknown drops, passes or refuses a field without a row, as the table says in unknown.
func (c *Call) handleUnknown(p *plan, n *node, name, key, raw string) {
	if p.from == p.to {
		return
	}
	switch p.unknown {
	case "refuse":
		keep(&c.refusal, p.table.invalid, c.at(quoteName(joinPath(n.path, name))), why(notAField))
	case "pass":
		if n.out == nil {
			break
		}
		if _, taken := n.out.index[name]; !taken {
			c.passed = append(c.passed, passedField{n.out, key, raw})
			return
		}
		if p.message == Request {
			reason := why("cannot pass: %v has another field of this name", p.toForm.name)
			keep(&c.refusal, p.table.invalid, c.at(quoteName(joinPath(n.path, name))), reason)
			return
		}
	}
	c.unknown(n.path, name)
}
