package translate

import "slices"

// Counted are the paths that the reports of one message can name. Fields that no row names are not among them.
type Counted struct {
	Dropped    []string
	Mismatched []string
}

// Counted says what reports of the translation's requests and replies can name. It is fixed by the table.
func (c *Translation) Counted() (request, reply Counted) {
	return c.request.counted(), c.reply.counted()
}

// Counted says what reports of callbacks between two forms can name.
func (c *Callback) Counted(from, to Form) Counted {
	return c.plans[c.operation.table.index(from)][c.operation.table.index(to)].counted()
}

func (p *plan) counted() (c Counted) {
	if p.from == p.to {
		return c
	}
	lenient := p.message != Request
	for _, r := range p.rows {
		switch {
		case r.path[p.to] == "":
			if lenient || r.loss == "drop" {
				c.Dropped = append(c.Dropped, r.path[p.from])
			}
		case lenient && (r.path[p.from] != "" || r.echo != ""):
			c.Mismatched = append(c.Mismatched, shownPath(r, p))
		}
	}
	if lenient {
		c.Mismatched = p.root.parents(c.Mismatched)
	}
	if p.message == Reply {
		c.Mismatched = append(c.Mismatched, p.table.forms[p.from].text)
	}
	slices.Sort(c.Mismatched)
	c.Mismatched = slices.Compact(c.Mismatched) // a row of each of several conditions
	return c
}

// parents appends the paths of the objects within an object.
func (n *node) parents(to []string) []string {
	for _, e := range n.names {
		if e.node != nil {
			to = e.node.parents(append(to, join(n.path, e.name)))
		}
	}
	return to
}
