package translate

// emitAll appends the output of a plan as an object.
func (c *Call) emitAll(p *plan, dst []byte, slots []value) ([]byte, *Refusal) {
	dst, refused := c.emit(p, p.out, append(dst, '{'), slots)
	return append(dst, '}'), refused
}

// emit appends the members of an object of the output. If a value of a request does not fit, emit stops and returns
// why.
func (c *Call) emit(p *plan, n *node, dst []byte, slots []value) (out []byte, refused *Refusal) {
	lenient := p.message != Request
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
			if dst, v = c.emitAbsent(p, f, e.key, dst, lenient); v.kind == absent {
				continue
			}
		}
		switch {
		case !f.rare: // mostly
		case f.omits(v):
			continue
		case f.each != nil:
			if dst, refused = c.emitList(p, f, f.each, v, append(comma(dst), e.key...)); refused != nil {
				return dst, refused
			}
			continue
		}
		if p.noValue(f, v, slots) {
			dst = append(append(comma(dst), e.key...), noValueOf(f.digitsTo)...)
			continue
		}
		var fits bool
		dst = append(comma(dst), e.key...)
		begin := len(dst)
		if dst, fits = f.append(dst, v, lenient); fits {
			if v.kind == null && lenient && f.countsNull(dst[begin:]) {
				c.mismatch(f.report, f.mismatchOf(v))
			}
			continue
		}
		if f.Otherwise == "" || f.digitsTo != number || !v.isWord() {
			if refused = c.misfit(p, f, v); refused != nil {
				return dst, refused
			}
		} else if f.Otherwise == "drop" {
			dst = append(dst[:begin], "null"...)
			c.report(&c.Report.Dropped, f.report)
		}
	}
	if len(c.passed) > 0 {
		dst = c.emitPassed(p, n, dst, slots)
	}
	return dst, nil
}

// misfit returns the refusal of a value of a request that does not fit, or reports that of another message.
func (c *Call) misfit(p *plan, f *mapping, v value) *Refusal {
	if p.message != Request {
		c.mismatch(f.report, f.mismatchOf(v))
		return nil
	}
	reason, isNull := why("has a value without a counterpart in %v", p.toForm.name), v.kind == null
	switch as := f.convert.(type) {
	case pattern:
		if !isNull {
			reason = why(wantText, as.in, as.got(v))
		}
	case decimal:
		if !isNull {
			reason = why(wantNumber, as.got(v))
		}
	case digits:
		if !f.lacksPair(v) {
			reason = why(wantDigits, as.got(v))
		}
	}
	if f.each != nil {
		reason = why(wantList, v.typeName())
	}
	return &Refusal{f.malformed, c.at(f.source), reason}
}

// report adds a path to a list of the report.
func (c *Call) report(list *[]string, path string) {
	if len(c.within) == 0 || len(*list) < maxReported {
		*list = append(*list, c.at(path))
	}
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
func (c *Call) emitAbsent(
	p *plan, f *mapping, key string, dst []byte, lenient bool,
) (out []byte, echoed value) {
	switch {
	case f.class == Defaulted:
		c.defaulted(f.target)
		return append(append(comma(dst), key...), f.always.json...), value{}
	case f.Absent[p.to].kind != absent && f.Absent[p.from].kind == absent:
		return append(append(comma(dst), key...), f.Absent[p.to].json...), value{}
	case f.echo >= 0 && c.request[f.echo].kind != absent:
		c.Report.Echoed = append(c.Report.Echoed, f.target)
		return dst, c.request[f.echo]
	case lenient && !f.Optional && (f.source != "" || f.echo >= 0):
		c.mismatch(f.report, Mismatch{})
	}
	return dst, value{}
}

// countsNull reports whether a null is counted: it has passed, and the row converts values and says nothing of null.
func (f *mapping) countsNull(out []byte) bool { return f.nulls && string(out) == "null" }

// lacksPair reports whether a value does not fit since it has no pair, or stands for an absent field.
func (f *mapping) lacksPair(v value) bool {
	return f.hasPairs() && v.kind != composite && !f.onlyNullPairs() || f.rare && isDigits(v.text())
}

// mismatchOf returns what is wrong with a value that does not fit.
func (f *mapping) mismatchOf(v value) Mismatch {
	_, plain := f.convert.(asText)
	_, whole := f.convert.(digits)
	switch {
	case f.items != nil:
		return Mismatch{"an array", v.typeName()}
	case (plain || whole) && f.lacksPair(v), !plain && !whole && v.kind == null && f.hasPairs():
		return Mismatch{"", v.typeName()}
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
