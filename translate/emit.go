package translate

// emitAll appends the output of a plan as an object.
func (c *Call) emitAll(p *plan, dst []byte, slots []value) ([]byte, *Refusal) {
	dst, refused := c.emit(p, p.out, append(dst, '{'), slots)
	return append(dst, '}'), refused
}

// emit appends the members of an object of the output. If a value of a request does not fit, emit stops and returns
// why.
func (c *Call) emit(p *plan, n *node, dst []byte, slots []value) (out []byte, refused *Refusal) {
	for i := range n.names {
		e, begin := &n.names[i], len(dst)
		dst = append(comma(dst), e.key...)
		at := len(dst)
		if e.node == nil {
			f, v := p.fields[e.slot], slots[e.slot]
			if f.plain && v.kind == text && c.trace == nil { // mostly
				dst = append(dst, v.raw...)
				continue
			}
			dst, refused = c.emitField(p, f, dst, v, slots)
		} else if dst, refused = c.emit(p, e.node, append(dst, '{'), slots); len(dst) > at+1 {
			dst = append(dst, '}')
		} else {
			dst = dst[:at] // the object is empty
		}
		switch {
		case refused != nil:
			return dst, refused
		case len(dst) == at:
			dst = dst[:begin]
		}
	}
	if n.slot >= 0 && slots[n.slot].ref > 0 {
		for _, one := range c.passed[slots[n.slot].ref-1] {
			dst = append(append(append(comma(dst), one.key...), ':'), one.value...)
			c.trace.wrote(c, p, nil, joinPath(n.path, one.name), value{raw: one.value, kind: asIs}, one.value)
		}
	}
	return dst, nil
}

// emitField appends the value of a field: that of the input, or else what the table has for it. It appends nothing if
// the output does not get the field.
func (c *Call) emitField(p *plan, f *mapping, dst []byte, v value, slots []value) (out []byte, refused *Refusal) {
	begin, lenient := len(dst), p.message != Request
	if v.kind == absent {
		switch {
		case f.class == Defaulted:
			c.report(OutcomeDefaulted, f.target, v, Mismatch{})
			dst = append(dst, f.always.json...)
		case f.Absent[p.to].kind != absent && f.Absent[p.from].kind == absent:
			dst = append(dst, f.Absent[p.to].json...)
		case f.class == Echoed && c.request[f.of].kind != absent:
			v = c.request[f.of]
			c.report(OutcomeEchoed, f.target, v, Mismatch{})
		case lenient && !f.Optional && (f.source != "" || f.class == Echoed):
			c.report(OutcomePassed, f.report, v, Mismatch{})
		}
	}
	switch {
	case v.kind == absent:
	case f.rare && f.omits(v):
		c.trace.decide(v, OutcomeOmitted, "the other form leaves the field out instead")
	case f.each != nil:
		dst, refused = c.emitList(p, f, v, dst)
	case f.state >= 0 && p.noValue(f, v, slots):
		dst = append(dst, noValueOf(f.digitsTo)...)
	default:
		fits := false
		dst, fits = f.append(dst, v, lenient)
		switch {
		case fits && (v.kind != null || !lenient || !f.nulls || string(dst[begin:]) != "null"): // mostly
		case f.Otherwise == "" || f.digitsTo != number || !v.isWord():
			refused = c.misfit(p, f, v)
		case f.Otherwise == "drop":
			dst = append(dst[:begin], "null"...)
			c.report(OutcomeDropped, f.report, v, Mismatch{})
		case c.trace != nil: // the row says that a word is right
			c.trace.decide(v, OutcomePassed, f.mismatchOf(v).String())
		}
	}
	if c.trace != nil && len(dst) > begin {
		c.trace.wrote(c, p, f, f.target, v, string(dst[begin:]))
	}
	return dst, refused
}

// misfit returns the refusal of a value of a request that does not fit, or reports that of another message.
func (c *Call) misfit(p *plan, f *mapping, v value) *Refusal {
	wrong := f.mismatchOf(v)
	if p.message != Request {
		c.report(OutcomePassed, f.report, v, wrong)
		return nil
	}
	reason := why("has a value without a counterpart in %v", p.toForm.name)
	if f.items != nil {
		reason = why(wantList, wrong.Got)
	} else if wrong.Want != "" {
		switch as := f.convert.(type) {
		case pattern:
			reason = why(wantText, as.in, wrong.Got)
		case decimal:
			reason = why(wantNumber, wrong.Got)
		case digits:
			reason = why(wantDigits, wrong.Got)
		}
	}
	return &Refusal{f.malformed, c.at(f.source), reason, v}
}

// noValueOf is "no value" in a form that writes digits as the given kind.
func noValueOf(digits kind) string {
	if digits == number {
		return "null"
	}
	return `""`
}

// mismatchOf returns what is wrong with a value that does not fit.
func (f *mapping) mismatchOf(v value) Mismatch {
	if f.items != nil {
		return Mismatch{"an array", v.typeName()}
	}
	_, fits := f.convert.write(nil, v, true)
	if fits || v.kind == null && f.hasPairs() || f.onlyPairs && v.kind != composite {
		return Mismatch{"", v.typeName()} // it would come back as another value
	}
	return Mismatch{f.convert.want(), f.convert.got(v)}
}

// comma appends a comma, unless the next member is the first of its object, or the next item the first of its list. dst
// ends with '{' or '[' only then: no value does.
func comma(dst []byte) []byte {
	if last := dst[len(dst)-1]; last != '{' && last != '[' {
		dst = append(dst, ',')
	}
	return dst
}
