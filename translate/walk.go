package translate

import (
	"strings"
	"unicode"

	"github.com/tidwall/gjson"
)

// walk fills the slots from an object of the input. Names are compared after unescaping. checkJSON has refused duplicates.
func (c *Call) walk(p *plan, n *node, doc gjson.Result, slots []value) {
	next := 0
	doc.ForEach(func(key, v gjson.Result) bool {
		e := n.find(key.Str, &next)
		switch {
		case e == nil:
			if !c.rejectLike(p, n, key.Str) {
				c.handleUnknown(p, n, key, v)
			}
		case e.node == nil:
			slots[e.slot] = valueOf(v)
			if v.Type == gjson.JSON && p.message == Request {
				c.refuseComposite(p, p.rows[e.slot], joinPath(n.path, e.name), slots[e.slot])
			}
		case v.IsObject():
			c.walk(p, e.node, v, slots)
		case p.message == Request && p.from != p.to:
			c.keepRefusal(p.table.invalid, e.node.path, wrongType("an object", valueOf(v).typeName()))
		case v.Type != gjson.Null && p.from != p.to:
			c.Report.mismatch(joinPath(n.path, e.name), Mismatch{"an object", valueOf(v).typeName()})
		}
		return true // also after a refusal: the gateway needs the roles of a refused request
	})
}

// refuseComposite refuses an object or an array where a row of a request has a single value. Between equal forms the upstream
// decides, unless the row has a role.
func (c *Call) refuseComposite(p *plan, r *row, path string, v value) {
	switch reason := wrongType("a single value", v.typeName()); {
	case r.role != nil:
		c.reject(r.malformed, path, reason)
	case p.from != p.to:
		c.keepRefusal(r.malformed, path, reason)
	}
}

// rejectLike refuses a field without a row whose name differs from that of a row in case only, and reports whether it is one. A backend that
// ignores case could take its value for the one that was checked here.
func (c *Call) rejectLike(p *plan, n *node, name string) bool {
	if n.fold == nil {
		return false
	}
	at, ok := n.fold[fold(name)]
	if !ok {
		return false
	}
	known, code := n.names[at], p.table.invalid
	if known.node == nil {
		code = p.rows[known.slot].malformed
	}
	c.reject(code, quoteName(joinPath(n.path, name)), "differs from "+known.name+" in case only")
	return true
}

// fold returns the same text for names that differ in case only, by the simple case folding of Unicode.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, name)
}

// reject refuses a request in every translation.
func (c *Call) reject(code, field, reason string) {
	if c.rejected == nil {
		c.rejected = &Refusal{code, strings.Clone(field), reason}
	}
}

// handleUnknown drops, passes or refuses a field without a row, as the table says in unknown.
func (c *Call) handleUnknown(p *plan, n *node, key, v gjson.Result) {
	if p.from == p.to {
		return
	}
	switch p.unknown {
	case "refuse":
		c.keepRefusal(p.table.invalid, quoteName(joinPath(n.path, key.Str)), "is not a field of this operation")
	case "pass":
		if n.output < 0 {
			break
		}
		if !p.objects[n.output].names[key.Str] {
			c.passed = append(c.passed, passedField{n.output, key.Raw, v.Raw})
			return
		}
		if p.message == Request {
			c.keepRefusal(p.table.invalid, quoteName(joinPath(n.path, key.Str)), "cannot pass: "+string(p.table.forms[p.to].name)+" has another field of this name")
			return
		}
	}
	c.Report.unknown(n.path, key.Str)
}

// keepRefusal keeps the first refusal for Translate.
func (c *Call) keepRefusal(code, field, reason string) {
	if c.refusal == nil {
		c.refusal = &Refusal{code, strings.Clone(field), reason}
	}
}
