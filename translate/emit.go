package translate

import "fmt"

// emit appends the members of an object of the output. If a value of a request does not fit, emit stops and refused
// is its field.
func (c *Call) emit(p *plan, n *node, dst []byte, slots []value) (out []byte, refused *entry) {
	lenient, digits := p.message != Request, p.table.forms[p.to].digits
	for i := range n.names {
		e := &n.names[i]
		if e.node != nil {
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
			continue
		}
		f, v := p.fields[e.slot], slots[e.slot]
		if v.kind == absent {
			if dst, v = c.emitAbsent(f, e.key, dst, lenient); v.kind == absent {
				continue
			}
		}
		if p.noValue(f, v, slots) {
			dst = append(append(comma(dst), e.key...), noValueOf(digits)...)
			continue
		}
		var fits bool
		dst = append(comma(dst), e.key...)
		begin := len(dst)
		if dst, fits = f.appendValue(dst, v, p.from, digits, lenient); fits {
			continue
		}
		if !lenient {
			return dst, e
		}
		if f.Otherwise == "" || digits != number || !v.isWord() {
			c.Report.mismatch(f.report, f.mismatchOf(v))
		} else if f.Otherwise == "null" {
			dst = append(dst[:begin], "null"...)
			c.Report.Dropped = append(c.Report.Dropped, f.report)
			c.Report.Words = append(c.Report.Words, fmt.Sprintf("%s: %.40s", f.report, v.text()))
		}
	}
	for i := range c.passed {
		if c.passed[i].into == n {
			dst = append(append(append(comma(dst), c.passed[i].key...), ':'), c.passed[i].value...)
		}
	}
	return dst, nil
}

// noValueOf is "no value" in a form that writes digits as the given kind.
func noValueOf(digits kind) string {
	if digits == number {
		return "null"
	}
	return `""`
}

// emitAbsent appends the default of a field that the input does not have, or returns the value of the request that is
// echoed.
func (c *Call) emitAbsent(f *mapping, key string, dst []byte, lenient bool) (out []byte, echoed value) {
	switch {
	case f.class == Defaulted:
		c.Report.Defaulted = append(c.Report.Defaulted, f.target)
		return append(append(comma(dst), key...), f.Default.json...), value{}
	case f.echo >= 0 && c.request[f.echo].kind != absent:
		c.Report.Echoed = append(c.Report.Echoed, f.target)
		return dst, c.request[f.echo]
	case lenient && !f.Optional && (f.source != "" || f.echo >= 0):
		c.Report.mismatch(f.report, Mismatch{})
	}
	return dst, value{}
}

// mismatchOf returns what is wrong with a value that does not fit.
func (r *row) mismatchOf(v value) Mismatch {
	switch {
	case len(r.Values.list) > 0 && v.kind != composite:
		return Mismatch{"", v.typeName()}
	case r.digits:
		return Mismatch{"a whole number in digits", v.notDigits()}
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
