package translate

// write translates a message that was read into the slots. Requests are strict: the first field that cannot be carried
// refuses them. Replies and callbacks are lenient, and never refused.
func (c *Call) write(p *plan, dst []byte, slots []value) ([]byte, *Refusal) {
	if refused := c.checkFields(p, slots, true); refused != nil {
		return nil, refused
	}
	return c.emitAll(p, dst, slots)
}

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
			f, v := p.written[e.slot], slots[e.slot]
			if f.plain && v.kind == text && c.trace == nil { // mostly
				dst = append(dst, v.raw...)
				continue
			}
			dst, refused = c.emitField(p, n, e, dst, slots)
		} else if dst, refused = c.emit(p, e.node, append(dst, '{'), slots); len(dst) > at+1 {
			dst = append(dst, '}')
		} else {
			if dst = append(dst[:at], e.empty...); e.empty == "null" {
				c.trace.wrote(c, p, n, e, value{}, e.empty)
			}
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
			c.trace.wrote(c, p, n, &entry{key: keyOf(one.name), node: n}, value{raw: one.value, kind: asIs}, one.value)
		}
	}
	return dst, nil
}

// emitField appends the value of a field: that of the input, or else what the table has for it. It appends nothing if
// the output does not get the field.
func (c *Call) emitField(p *plan, n *node, e *entry, dst []byte, slots []value) (out []byte, refused *Refusal) {
	f, v, begin, lenient := p.written[e.slot], slots[e.slot], len(dst), p.message != Request
	if v.kind == absent {
		switch {
		case f.target == itself: // the items that follow must keep their places
			if refused = c.misfit(p, f, v, why(IsMissing)); refused == nil {
				dst = append(dst, "null"...)
			}
		case f.filled.kind != absent:
			if dst = append(dst, f.filled.json...); f.class == Defaulted {
				c.report(OutcomeDefaulted, f.target, v, Detail{})
			}
		case f.class == Echoed && c.request[f.of].kind != absent:
			v = c.request[f.of]
			c.report(OutcomeEchoed, f.target, v, Detail{})
		case lenient && !f.optional && (f.source != "" || f.class == Echoed):
			refused = c.misfit(p, f, v, why(IsMissing))
		}
	}
	switch {
	case v.kind == absent:
	case v.is(f.omitted):
		c.trace.decide(v, OutcomeOmitted, "the other form leaves the field out instead")
	case f.each != nil:
		dst, refused = c.emitList(p, f, v, dst)
	case f.state >= 0 && p.noValue(f, v, slots):
		dst = append(dst, f.none...)
	default:
		fits := false
		dst, fits = f.append(dst, v, lenient)
		switch {
		case fits: // mostly
		case f.otherwise == "" || f.digitsTo != number || !v.isWord():
			refused = c.misfit(p, f, v, p.wrong(f, v))
		case f.otherwise == "drop":
			dst = append(dst[:begin], "null"...)
			c.report(OutcomeDropped, f.report, v, Detail{})
		case c.trace != nil: // the row says that a word is right
			c.trace.decide(v, OutcomePassed, p.wrong(f, v).String())
		}
	}
	if c.trace != nil && len(dst) > begin {
		c.trace.wrote(c, p, n, e, v, string(dst[begin:]))
	}
	return dst, refused
}

// misfit returns the refusal of a value of a request that does not fit, or reports that of another message.
func (c *Call) misfit(p *plan, f *mapping, v value, reason Detail) *Refusal {
	if p.message == Request {
		return &Refusal{f.malformed, c.at(f.source), reason, v}
	}
	c.report(OutcomePassed, f.report, v, reason)
	return nil
}

// comma appends a comma, unless the next member is the first of its object, or the next item the first of its list. dst
// ends with '{' or '[' only then: no value does.
func comma(dst []byte) []byte {
	if last := dst[len(dst)-1]; last != '{' && last != '[' {
		dst = append(dst, ',')
	}
	return dst
}
