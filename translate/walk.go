package translate

import (
	"strings"
	"unicode"

	"github.com/tidwall/gjson"
)

// walk fills the slots from one object of the input. Names are compared after unescaping; the intake check has
// refused duplicates.
func (c *Call) walk(p *plan, n *node, doc gjson.Result, slots []value) {
	next := 0
	doc.ForEach(func(key, v gjson.Result) bool {
		e := n.find(key.Str, &next)
		switch {
		case e == nil:
			if !c.like(p, n, key.Str) {
				c.handleUnknown(p, n, key, v)
			}
		case e.node == nil:
			slots[e.slot] = valueOf(v)
			if v.Type == gjson.JSON && p.message == Request {
				c.composite(p, p.rows[e.slot], joinPath(n.path, e.name), slots[e.slot])
			}
		case v.IsObject():
			c.walk(p, e.node, v, slots)
		case p.message == Request && p.from != p.to:
			c.keepRefusal(p.table.invalid, e.node.path, "must be an object, but is "+valueOf(v).typeName())
		case v.Type != gjson.Null && p.from != p.to:
			c.Report.Mismatched = append(c.Report.Mismatched, joinPath(n.path, e.name))
		}
		return true // also after a refusal: by the values of the request its bill is found
	})
}

// composite refuses an object or an array where a row of a request has a single value. In the same form it is the upstream's to
// judge, unless the gateway goes by the value.
func (c *Call) composite(p *plan, r *row, path string, v value) {
	switch reason := "must be a single value, but is " + v.typeName(); {
	case r.role != nil:
		c.reject(r.malformed, path, reason)
	case p.from != p.to:
		c.keepRefusal(r.malformed, path, reason)
	}
}

// like rejects a field of a request that no row names, but whose name differs from that of a row in case only. A backend that
// ignores case could take its value for the one that was checked here.
func (c *Call) like(p *plan, n *node, name string) bool {
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
	c.reject(code, shorten(joinPath(n.path, name)), "differs from "+known.name+" in case only")
	return true
}

// fold is the same for names that differ in case only, by the simple folding of Unicode.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, name)
}

// reject refuses a request whatever form it goes to.
func (c *Call) reject(code, field, reason string) {
	if c.rejected == nil {
		c.rejected = &Refusal{code, strings.Clone(field), reason}
	}
}

// handleUnknown deals with a field that no row names.
func (c *Call) handleUnknown(p *plan, n *node, key, v gjson.Result) {
	if p.from == p.to {
		return
	}
	switch p.unknown {
	case "refuse":
		c.keepRefusal(p.table.invalid, strings.Clone(shorten(joinPath(n.path, key.Str))), "is not a field of this operation")
	case "pass":
		if n.output < 0 {
			break
		}
		if !p.objects[n.output].names[key.Str] {
			c.passed = append(c.passed, passedField{n.output, key.Raw, v.Raw})
			return
		}
		if p.message == Request {
			c.keepRefusal(p.table.invalid, strings.Clone(shorten(joinPath(n.path, key.Str))), "would pass, but "+string(p.table.forms[p.to].name)+" has another field of this name")
			return
		}
	}
	c.Report.unknown(n.path, key.Str)
}

func (c *Call) keepRefusal(code, field, reason string) {
	if c.refusal == nil {
		c.refusal = &Refusal{code, strings.Clone(field), reason}
	}
}
