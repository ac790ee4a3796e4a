package translate

// emit appends the members of the output. If a value of a request does not fit, emit stops and refused is its slot; otherwise
// refused is -1.
func (c *Call) emit(p *plan, dst []byte, slots []value) (out []byte, refused int) {
	lenient := p.message != Request
	digits := p.table.forms[p.to].digits
	for i := range p.steps {
		s := &p.steps[i]
		switch s.do {
		case openObject:
			dst = append(append(comma(dst), s.key...), '{')
		case endObject:
			dst = c.appendPassed(dst, s.object)
			if dst[len(dst)-1] != '{' {
				dst = append(dst, '}')
				continue
			}
			dst = dst[:len(dst)-len(s.key)-1] // the object is empty: remove it
			if dst[len(dst)-1] == ',' {
				dst = dst[:len(dst)-1]
			}
		case putValue:
			r, v := p.rows[s.slot], slots[s.slot]
			switch {
			case v.kind != absent:
			case r.defaultValue != nil && r.onlyForm() == p.to:
				dst = append(append(comma(dst), s.key...), r.defaultValue.json...)
				c.Report.Defaulted = append(c.Report.Defaulted, r.path[p.to])
				continue
			case lenient && c.translation.echoSlots[s.slot] >= 0:
				if v = c.request[c.translation.echoSlots[s.slot]]; v.kind != absent {
					c.Report.Echoed = append(c.Report.Echoed, r.path[p.to])
				}
			}
			if v.kind == absent {
				if lenient && !r.Optional && (r.path[p.from] != "" || c.translation.echoSlots[s.slot] >= 0) {
					c.Report.mismatch(reportPath(r, p), Mismatch{})
				}
				continue
			}
			var fits bool
			dst, fits = r.appendValue(append(comma(dst), s.key...), v, p.from, digits, lenient)
			if !fits {
				if !lenient {
					return dst, s.slot
				}
				c.Report.mismatch(reportPath(r, p), r.mismatchOf(v))
			}
		}
	}
	return c.appendPassed(dst, 0), -1
}

// mismatchOf returns what is wrong with a value that does not fit.
func (r *row) mismatchOf(v value) Mismatch {
	switch {
	case len(r.pairs.list) > 0 && v.kind != composite:
		return Mismatch{"", v.typeName()}
	case r.digits:
		return Mismatch{wholeNumber, v.notDigits()}
	}
	return Mismatch{"text", v.typeName()}
}

// reportPath returns the path by which reports name a row: in the form of the source, or for an echo in the form of the target.
func reportPath(r *row, p *plan) string {
	if r.path[p.from] != "" {
		return r.path[p.from]
	}
	return r.path[p.to]
}

// appendPassed appends the fields without a row that pass into an object of the output.
func (c *Call) appendPassed(dst []byte, object int) []byte {
	for i := range c.passed {
		if c.passed[i].object == object {
			dst = append(append(append(comma(dst), c.passed[i].key...), ':'), c.passed[i].value...)
		}
	}
	return dst
}

// comma appends a comma, unless the next member is the first of its object. dst ends with '{' only then: no value ends with '{'.
func comma(dst []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return dst
}
