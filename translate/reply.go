package translate

import (
	"cmp"
	"strings"
)

// Reply appends the upstream's reply to dst, in the client's form. Between equal forms it returns src itself. status
// is the HTTP status of the reply. If the error is an [*UnusableReply], the outcome of the call is unknown. Request
// must have been called before, unless the call is that of StartReply: a reply may echo from the request, and a success
// may have to equal it.
func (c *Call) Reply(dst []byte, status int, src []byte) ([]byte, error) {
	unusable := c.readReply(status, src)
	if unusable == nil && c.success && !c.translation.SameForm() {
		unusable = c.checkResult()
	}
	if unusable != nil {
		c.code, c.success = "", false
		return nil, unusable
	}
	if c.success {
		c.reportRepeats()
	}
	switch {
	case c.translation.SameForm():
		return src, nil
	case c.success:
		return c.appendSuccess(dst), nil
	}
	return c.appendFailure(dst), nil
}

// readReply reads a reply into the slots, and its code. It returns nil if the reply is usable.
func (c *Call) readReply(status int, src []byte) *UnusableReply {
	p := c.translation.reply
	c.code, c.status, c.success = "", status, false
	c.dropLists(c.asked)
	isObject, fault := c.scan(p, src, c.reply)
	if fault != nil {
		return &UnusableReply{Reason: fault.reason.String()}
	}
	if !isObject {
		return &UnusableReply{Reason: "not a JSON object"}
	}
	if c.overflow && !c.translation.SameForm() {
		return &UnusableReply{Reason: why(tooManyItems, maxItems).String()}
	}
	if unusable := c.readCode(status); unusable != nil {
		return unusable
	}
	codes := p.table.success.code
	switch c.success = c.code == codes[p.from]; {
	case c.success:
		c.code = codes[0]
	case c.code == codes[p.to] || c.code == codes[0]: // the client would take it for a success
		return &UnusableReply{Reason: "the code " + c.code + " is that of a success in another form"}
	}
	if path := c.unequalField(); c.success && path != "" {
		return &UnusableReply{"a success, but its " + path + " is not that of the request", path}
	}
	return nil
}

// readCode reads the code of the reply. A success without an envelope has the code of a success.
func (c *Call) readCode(status int) *UnusableReply {
	p := c.translation.reply
	found, missing, wrong := p.table.says(p.from, status, c.reply[p.flagSlot()], c.reply[p.codeSlot()], c.reply[p.textSlot()])
	switch {
	case wrong != "":
		return &UnusableReply{Reason: wrong}
	case !missing:
		c.code = p.table.intern(found)
		return nil
	case c.reply[p.codeSlot()].kind == absent && c.reply[p.flagSlot()].kind == absent &&
		c.isSuccessWithoutEnvelope(status):
		c.code = p.table.success.code[p.from]
		return nil
	}
	reason := p.fromForm.Code + " is missing"
	if c.translation.operation.bare[p.from] {
		reason += ", and the fields are not those of a success without an envelope"
	}
	return &UnusableReply{Reason: reason}
}

// checkResult returns nil if the result of a success has enough fields to be translated.
func (c *Call) checkResult() *UnusableReply {
	p, bare := c.translation.reply, c.translation.operation.bare
	if f := p.misleading(c.reply); f != nil {
		reason := why("has a value without a counterpart in %v", p.toForm.name)
		return &UnusableReply{Reason: f.source + " " + reason.String()}
	}
	if bare[p.from] && !c.hasMustEqualFields() {
		return &UnusableReply{Reason: "a success that does not name what the request is about"}
	}
	if bare[p.to] && !c.hasResult() {
		// Without an envelope the client could not see that this is a success.
		return &UnusableReply{Reason: "a success without a result"}
	}
	return nil
}

// statusOK is HTTP 200. This package does not import net/http.
const statusOK = 200

// appendSuccess appends the result in the client's form, in its envelope if it has one.
func (c *Call) appendSuccess(dst []byte) []byte {
	p := c.translation.reply
	dst = append(dst, '{')
	end := "}"
	if !c.translation.operation.bare[p.to] {
		dst = c.appendEnvelope(dst)
		if key := p.toForm.resultKey; key != "" {
			dst = append(append(dst, key...), '{')
			end = "}" + p.toForm.resultEnd + "}"
		}
	}
	dst, _ = c.emit(p, p.out, dst, c.reply)
	c.reportDropped(p, c.reply)
	return append(dst, end...)
}

// appendFailure appends code and text in the client's form. A failure has no result.
func (c *Call) appendFailure(dst []byte) []byte {
	c.Report.reset()
	return c.appendEnvelope(append(dst, '{'))
}

// appendEnvelope appends the fields of the envelope before the result, in the client's form. A code without a pair is
// not changed, unless the form has other_code.
func (c *Call) appendEnvelope(dst []byte) []byte {
	p := c.translation.reply
	t, code, v := p.table, c.reply[p.codeSlot()], c.reply[p.textSlot()]
	from, to := p.fromForm, p.toForm
	flag, json := to.flagIs[0].json, ""
	switch in, replaced := t.codeIn(p.from, p.to, c.code); {
	case c.success:
		flag, json = to.flagIs[1].json, t.success.codeJSON[p.to]
	case in == c.code && code.kind == text && !to.Numeric:
		json = code.raw
	default:
		if json = to.codeJSON(in); replaced {
			c.mismatch(from.Code, Mismatch{"", code.typeName()})
		}
	}
	content := ""
	switch {
	case v.kind == text:
		content = v.raw
	case v.kind != absent:
		out, fits := unconverted.append(nil, v, true)
		if content = string(out); !fits {
			c.mismatch(from.Text, unconverted.mismatchOf(v))
		}
	case t.success.text != "" && c.success && (code.kind == absent || from.textInside):
		if content = t.success.textJSON; !to.textInside {
			c.Report.Defaulted = append(c.Report.Defaulted, to.Text)
		}
	default:
		c.mismatch(from.Text, Mismatch{})
	}
	return to.appendOutcome(dst, flag, json, content, !c.success)
}

// unconverted is a field without a conversion.
var unconverted = &mapping{row: &row{Role: noRole}, convert: asText{}}

// reportDropped reports the fields of the reply that the client's form has no place for.
func (c *Call) reportDropped(p *plan, slots []value) {
	for slot, f := range p.fields {
		if v := slots[slot]; f.class == Lossy && v.kind != absent && !v.is(f.always) {
			c.report(&c.Report.Dropped, f.source)
		}
	}
}

// reportRepeats reports the fields that repeat the request that differ from the request. The reply passes in any case:
// no public document says what each backend writes there.
func (c *Call) reportRepeats() {
	for _, slot := range c.translation.reply.refers {
		if f := c.translation.reply.fields[slot]; c.repeatsAnother(f, c.reply[slot]) {
			c.mismatch(f.report, Mismatch{ofRequest, "another"})
		}
	}
}

// repeatsAnother reports whether the value of a field that repeats the request differs from the request.
func (c *Call) repeatsAnother(f *mapping, v value) bool {
	scalar := v.kind == number || v.kind == text && !v.countsAsAbsent() // the others do not have the documented type
	return f.repeat >= 0 && scalar && !c.request[f.repeat].countsAsAbsent() && v.text() != c.request[f.repeat].text()
}

// isSuccessWithoutEnvelope reports whether a reply without a code is a success of this call. It must have HTTP 200,
// the value of the request in every field that must equal the request that is not secret, and a meaning in every field
// with means.
func (c *Call) isSuccessWithoutEnvelope(status int) bool {
	p := c.translation.reply
	if !c.translation.operation.bare[p.from] || status != cmp.Or(c.translation.operation.status[p.from], statusOK) {
		return false
	}
	shows := false
	for slot, f := range p.fields {
		v := c.reply[slot]
		if !f.must && f.Means == nil || f.source == "" || f.equalsSecret {
			continue // unequalField compares secrets
		}
		if v.countsAsAbsent() || v.kind == composite || f.Means != nil && f.meaning(v, p.from) == "" {
			return false
		}
		missing := f.equal < 0 || c.request[f.equal].countsAsAbsent()
		if f.must && !c.alone && (missing || c.request[f.equal].text() != v.text()) {
			return false
		}
		shows = true
	}
	return shows
}

// hasMustEqualFields reports whether the reply has every field that must equal the request.
func (c *Call) hasMustEqualFields() bool {
	for slot, f := range c.translation.reply.fields {
		if f.must && c.reply[slot].countsAsAbsent() && !f.equalsSecret {
			return false
		}
	}
	return true
}

// unequalField returns the path of a field that must equal the request that differs from the request, or "". Then the
// reply belongs to another call.
func (c *Call) unequalField() string {
	for _, slot := range c.translation.reply.refers {
		if f := c.translation.reply.fields[slot]; c.differs(f, c.reply[slot]) {
			return f.source
		}
	}
	return ""
}

// differs reports whether a value is not that of the request. A missing field does not differ, and neither does a
// secret that is masked: it contains *.
func (c *Call) differs(f *mapping, v value) bool {
	if f.equal < 0 || v.countsAsAbsent() {
		return false
	}
	if asked := c.request[f.equal]; asked.countsAsAbsent() || v.text() == asked.text() {
		return false
	}
	masked := v.kind == text && strings.Contains(v.text(), "*") && f.equalsSecret
	return !masked
}

// hasResult reports whether the reply has any field that the client's form has a place for.
func (c *Call) hasResult() bool {
	for slot, f := range c.translation.reply.fields {
		if f.target != "" && c.reply[slot].kind != absent {
			return true
		}
	}
	return false
}
