package translate

// emit appends the members of an object of the output. If a value of a request does not fit, emit stops and refused
// is its field.
func (c *Call) emit(p *plan, n *node, dst []byte, slots []value) (out []byte, refused *entry) {
	for i := range n.names {
		e := &n.names[i]
		if e.node == nil {
			var fits bool
			if dst, fits = c.emitField(p, e, dst, slots[e.slot]); !fits {
				return dst, e
			}
			continue
		}
		begin := len(dst)
		dst = append(append(comma(dst), e.key...), '{')
		if dst, refused = c.emit(p, e.node, dst, slots); refused != nil {
			return dst, refused
		}
		if dst[len(dst)-1] == '{' { // the object is empty
			dst = dst[:begin]
		} else {
			dst = append(dst, '}')
		}
	}
	for i := range c.passed {
		if c.passed[i].into == n {
			dst = append(append(append(comma(dst), c.passed[i].key...), ':'), c.passed[i].value...)
		}
	}
	return dst, nil
}

// emitField appends a field of the output. ok is false if the value of a request does not fit.
func (c *Call) emitField(p *plan, e *entry, dst []byte, v value) (out []byte, ok bool) {
	f, lenient := p.fields[e.slot], p.message != Request
	if v.kind == absent {
		switch {
		case f.class == Defaulted:
			c.Report.Defaulted = append(c.Report.Defaulted, f.target)
			return append(append(comma(dst), e.key...), f.defaultValue.json...), true
		case f.echo >= 0:
			v = c.request[f.echo]
		}
		if v.kind == absent {
			if lenient && !f.Optional && (f.source != "" || f.echo >= 0) {
				c.Report.mismatch(f.report, Mismatch{})
			}
			return dst, true
		}
		c.Report.Echoed = append(c.Report.Echoed, f.target)
	}
	dst, fits := f.appendValue(append(comma(dst), e.key...), v, p.from, p.table.forms[p.to].digits, lenient)
	if !fits && lenient {
		c.Report.mismatch(f.report, f.mismatchOf(v))
	}
	return dst, fits || lenient
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

// comma appends a comma, unless the next member is the first of its object. dst ends with '{' only then: no value
// ends with '{'.
func comma(dst []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return dst
}
