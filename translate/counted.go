package translate

import "slices"

// ReportPaths are the paths that the reports of one message can name. Fields that no row names are not among them.
type ReportPaths struct {
	Dropped    []string
	Mismatched []string
}

// ReportPaths says what reports of the translation's requests and replies can name. It is fixed by the table.
func (c *Translation) ReportPaths() (request, reply ReportPaths) {
	return c.request.reportPaths(), c.reply.reportPaths()
}

// ReportPaths says what reports of callbacks between two forms can name.
func (c *Callback) ReportPaths(from, to Form) ReportPaths {
	return c.plans[c.operation.table.formIndex(from)][c.operation.table.formIndex(to)].reportPaths()
}

func (p *plan) reportPaths() (c ReportPaths) {
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
			c.Mismatched = append(c.Mismatched, reportPath(r, p))
		}
	}
	if lenient {
		c.Mismatched = p.root.appendObjectPaths(c.Mismatched)
	}
	if p.message == Reply {
		c.Mismatched = append(c.Mismatched, p.table.forms[p.from].text)
	}
	slices.Sort(c.Mismatched)
	c.Mismatched = slices.Compact(c.Mismatched) // a row of each of several conditions
	return c
}

// appendObjectPaths appends the paths of the objects within an object.
func (n *node) appendObjectPaths(to []string) []string {
	for _, e := range n.names {
		if e.node != nil {
			to = e.node.appendObjectPaths(append(to, joinPath(n.path, e.name)))
		}
	}
	return to
}
