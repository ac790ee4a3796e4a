package translate

import (
	"strings"

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
			c.unknown(p, n, key, v)
		case e.node == nil:
			slots[e.slot] = valueOf(v)
			if v.Type == gjson.JSON && p.message == Request && p.from != p.to {
				c.refuse(p.rows[e.slot].malformed, join(n.path, e.name), "must be a single value, but is "+valueOf(v).name())
			}
		case v.IsObject():
			c.walk(p, e.node, v, slots)
		case p.message == Request && p.from != p.to:
			c.refuse(p.table.invalid, e.node.path, "must be an object, but is "+valueOf(v).name())
		case v.Type != gjson.Null && p.from != p.to:
			c.Report.Mismatched = append(c.Report.Mismatched, join(n.path, e.name))
		}
		return true // also after a refusal: by the values of the request its bill is found
	})
}

// unknown deals with a field that no row names.
func (c *Call) unknown(p *plan, n *node, key, v gjson.Result) {
	if p.from == p.to {
		return
	}
	switch p.unknown {
	case "refuse":
		c.refuse(p.table.invalid, strings.Clone(shorten(join(n.path, key.Str))), "is not a field of this operation")
	case "pass":
		if n.into < 0 {
			break
		}
		if !p.objects[n.into].names[key.Str] {
			c.passing = append(c.passing, passing{n.into, key.Raw, v.Raw})
			return
		}
		if p.message == Request {
			c.refuse(p.table.invalid, strings.Clone(shorten(join(n.path, key.Str))), "would pass, but "+string(p.table.forms[p.to].name)+" has another field of this name")
			return
		}
	}
	c.Report.unknown(n.path, key.Str)
}

func (c *Call) refuse(code, field, reason string) {
	if c.refusal == nil {
		c.refusal = &Refusal{code, strings.Clone(field), reason}
	}
}
