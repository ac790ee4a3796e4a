package translate

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkKind checks an object or an array in the place of a field, and another value in the place of an object. The
// gateway needs the roles of a refused request, so the rest is read also after a refusal.
func (c *Call) checkKind(p *plan, n *node, e *entry, v value) {
	switch path := n.pathOf(e); {
	case e.node == nil && p.message == Request:
		f, as, reason := p.fields[e.slot], &c.refusal, why(wantSingle, v.typeName())
		if f.each != nil || f.list {
			reason = why(wantList, v.typeName())
		}
		switch {
		case f.list && v.raw[0] == '[': // of one form, or as a whole
			return
		case f.Role != noRole:
			as = &c.rejected
		case p.from == p.to: // the upstream decides
			return
		}
		keep(as, f.malformed, c.at(path), v, reason)
	case e.node == nil, p.from == p.to:
	case p.message == Request:
		keep(&c.refusal, p.table.invalid, c.at(path), v, why(wantObject, v.typeName()))
	case v.kind == null && n != e.node:
		c.trace.decide(v, OutcomeOmitted, emptyValue)
	default:
		c.report(OutcomePassed, path, v, why(wantObject, v.typeName()))
	}
}

// rejectLike refuses a field without a row whose name differs from that of a row in case only, and reports whether it
// is one. A backend that ignores case could take its value for the one that was checked here.
func (c *Call) rejectLike(p *plan, n *node, name string, v value) bool {
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
	keep(&c.rejected, code, c.nameIn(n, name), v, why("differs from %v in case only", known.name()))
	return true
}

// nameIn returns the path of a field without a row.
func (c *nesting) nameIn(n *node, name string) string { return c.at(quoteName(joinPath(n.path, name))) }

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
func keep(refusal **Refusal, code, field string, of value, reason Detail) {
	if *refusal == nil {
		*refusal = &Refusal{code, strings.Clone(field), reason, of}
	}
}

// handleUnknown drops, passes or refuses a field without a row, as the table says in unknown.
func (c *Call) handleUnknown(p *plan, n *node, name, key string, v value, slots []value) {
	if p.from == p.to {
		return
	}
	out, taken := n.out, false
	if out != nil {
		_, taken = out.index[name]
	}
	switch {
	case out != nil && !taken:
		c.pass(&slots[n.slot], passing{name, key, v.raw})
		return
	case taken && p.message == Request:
		keep(&c.refusal, p.table.invalid, c.nameIn(n, name), v,
			why("cannot pass: %v has another field of this name", p.toForm.name))
		return
	case p.unknown == "refuse":
		keep(&c.refusal, p.table.invalid, c.nameIn(n, name), v, why("is not a field of this operation"))
	}
	r := &c.Report
	if r.Unknown++; len(r.UnknownNames) < maxUnknownNames {
		r.UnknownNames = append(r.UnknownNames, c.nameIn(n, name))
	}
	c.trace.decide(v, OutcomeDropped, "is not a field of this operation")
}
