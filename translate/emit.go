package translate

// emit appends the members of the output. misfit is the slot of a value that a request cannot carry, else -1.
func (c *Call) emit(p *plan, dst []byte, slots []value) (out []byte, misfit int) {
	lenient := p.message != Request
	digits := p.table.forms[p.to].digits
	for i := range p.steps {
		s := &p.steps[i]
		switch s.do {
		case openObject:
			dst = append(append(comma(dst), s.key...), '{')
		case endObject:
			dst = c.pass(dst, s.object)
			if dst[len(dst)-1] != '{' {
				dst = append(dst, '}')
				continue
			}
			dst = dst[:len(dst)-len(s.key)-1]
			if dst[len(dst)-1] == ',' {
				dst = dst[:len(dst)-1]
			}
		case putValue:
			r, v := p.rows[s.slot], slots[s.slot]
			switch {
			case v.kind != absent:
			case r.preset != nil && r.lone() == p.to:
				dst = append(append(comma(dst), s.key...), r.preset.json...)
				c.Report.Defaulted = append(c.Report.Defaulted, r.path[p.to])
				continue
			case lenient && c.translation.echoes[s.slot] >= 0:
				if v = c.request[c.translation.echoes[s.slot]]; v.kind != absent {
					c.Report.Echoed = append(c.Report.Echoed, r.path[p.to])
				}
			}
			if v.kind == absent {
				if lenient && !r.optional && (r.path[p.from] != "" || c.translation.echoes[s.slot] >= 0) {
					c.Report.Mismatched = append(c.Report.Mismatched, shownPath(r, p))
				}
				continue
			}
			var fits bool
			dst, fits = r.append(append(comma(dst), s.key...), v, p.from, digits, lenient)
			if !fits {
				if !lenient {
					return dst, s.slot
				}
				c.Report.Mismatched = append(c.Report.Mismatched, shownPath(r, p))
			}
		}
	}
	return c.pass(dst, 0), -1
}

// shownPath is the path of a reply's row in the upstream's form, or, of an echo, in the client's.
func shownPath(r *row, p *plan) string {
	if r.path[p.from] != "" {
		return r.path[p.from]
	}
	return r.path[p.to]
}

// pass appends the fields that pass without a row into an object of the output.
func (c *Call) pass(dst []byte, object int) []byte {
	for i := range c.passing {
		if c.passing[i].object == object {
			dst = append(append(append(comma(dst), c.passing[i].key...), ':'), c.passing[i].value...)
		}
	}
	return dst
}

// comma separates a member from the one before it. A '{' at the end is always that of the object being built:
// every value that ends in one would end in '}'.
func comma(dst []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return dst
}
