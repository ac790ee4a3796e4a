package translate

import "github.com/tidwall/gjson"

// Reply appends the upstream's reply to dst as the client's form has it. Between equal forms it returns src
// itself. status is the HTTP status of the reply. The error is a [*UnusableReply] where no code can be read: then
// nothing is known of the outcome. Request must have come first: a reply may echo from it, and a success may have to
// equal it.
func (c *Call) Reply(dst []byte, status int, src []byte) ([]byte, error) {
	p := c.translation.reply
	c.Report.reset()
	clear(c.reply)
	clear(c.passed)
	c.code, c.success, c.passed = "", false, c.passed[:0]
	if fault := checkJSON(src, p.table.depth); fault != nil {
		return nil, &UnusableReply{Reason: fault.reason}
	}
	doc := gjson.Parse(unsafeString(src))
	if !doc.IsObject() {
		return nil, &UnusableReply{Reason: "not a JSON object"}
	}
	c.walk(p, p.root, doc, c.reply)
	code := c.reply[p.codeSlot()]
	switch {
	case code.kind == text && code.raw != `""`:
		c.code = p.table.intern(code.text())
	case code.kind == absent && c.isSuccessWithoutEnvelope(status):
		c.code = p.table.success.code
	case code.kind == absent && c.translation.operation.noEnvelope == p.from:
		return nil, &UnusableReply{Reason: "no " + p.table.forms[p.from].code + " in it, and not the bare success that the request asks for"}
	case code.kind == absent:
		return nil, &UnusableReply{Reason: "no " + p.table.forms[p.from].code + " in it"}
	case code.kind == text:
		return nil, &UnusableReply{Reason: "its " + p.table.forms[p.from].code + " is empty"}
	default:
		return nil, &UnusableReply{Reason: "its " + p.table.forms[p.from].code + " is " + code.kind.String() + " where text is needed"}
	}
	c.success = c.code == p.table.success.code
	if path := c.unequalField(); c.success && path != "" {
		c.code, c.success = "", false
		return nil, &UnusableReply{"a success, but its " + path + " is not the one that was asked for", path}
	}
	if c.translation.SameForm() {
		return src, nil
	}
	if !c.success {
		return c.failure(dst), nil
	}
	if c.translation.operation.noEnvelope == p.from && !c.hasMustEqualFields() {
		c.code, c.success = "", false
		return nil, &UnusableReply{Reason: "a success that shows nothing of what was asked for"}
	}
	toBare := c.translation.operation.noEnvelope == p.to
	if toBare && !hasResult(c.reply, p) {
		// Without its envelope an empty result could not be told from no answer at all.
		c.code, c.success = "", false
		return nil, &UnusableReply{Reason: "a success without a result"}
	}
	dst = append(dst, '{')
	if !toBare {
		dst = c.envelope(dst, c.code)
		if result := p.table.forms[p.to].result; result != "" {
			dst = append(append(append(dst, `,"`...), result...), `":{`...)
			dst, _ = c.emit(p, dst, c.reply)
			c.reportDropped(p)
			return append(dst, "}}"...), nil
		}
	}
	dst, _ = c.emit(p, dst, c.reply)
	c.reportDropped(p)
	return append(dst, '}'), nil
}

// statusOK is HTTP 200. This package does not know net/http.
const statusOK = 200

// failure writes what a translated failure carries: its code and its text, and null for a result.
func (c *Call) failure(dst []byte) []byte {
	p := c.translation.reply
	c.Report.reset()
	dst = c.envelope(append(dst, '{'), c.code)
	if result := p.table.forms[p.to].result; result != "" {
		dst = append(append(append(dst, `,"`...), result...), `":null`...)
	}
	return append(dst, '}')
}

// envelope appends code and text in the client's form. The code is a pair's, or stands as it came.
func (c *Call) envelope(dst []byte, code string) []byte {
	p := c.translation.reply
	to := p.table.forms[p.to]
	dst = append(append(append(dst, '"'), to.code...), `":`...)
	raw := c.reply[p.codeSlot()]
	switch paired, ok := p.table.codes.find(p.from, code); {
	case c.success: // one code in both forms
		dst = append(dst, p.table.success.codeJSON...)
	case ok:
		dst = append(dst, paired.json...)
	default:
		dst = append(dst, raw.raw...)
	}
	v := c.reply[p.textSlot()]
	if v.kind == absent {
		if raw.kind != absent || p.table.success.text == "" {
			c.Report.Mismatched = append(c.Report.Mismatched, p.table.forms[p.from].text)
			return dst
		}
		c.Report.Defaulted = append(c.Report.Defaulted, to.text)
		dst = append(append(append(dst, `,"`...), to.text...), `":`...)
		return append(dst, p.table.success.textJSON...)
	}
	dst = append(append(append(dst, `,"`...), to.text...), `":`...)
	dst, fits := plain.appendValue(dst, v, p.from, text, true)
	if !fits {
		c.Report.Mismatched = append(c.Report.Mismatched, p.table.forms[p.from].text)
	}
	return dst
}

// plain is a field with nothing to convert.
var plain = &row{}

// reportDropped reports what the reply had and the client's form has no place for.
func (c *Call) reportDropped(p *plan) {
	for slot, r := range p.rows {
		if r.path[p.to] == "" && c.reply[slot].kind != absent {
			c.Report.Dropped = append(c.Report.Dropped, r.path[p.from])
		}
	}
}

// isSuccessWithoutEnvelope tells whether a reply without a code is the success of this call that its form sends without an envelope: with
// HTTP 200, every field that must equal the request, and a meaning for every value that can have one.
func (c *Call) isSuccessWithoutEnvelope(status int) bool {
	p := c.translation.reply
	if c.translation.operation.noEnvelope != p.from || status != statusOK {
		return false
	}
	for slot, r := range p.rows {
		v := c.reply[slot]
		if r.mustEqual == "" && r.means == nil || r.path[p.from] == "" {
			continue
		}
		if v.countsAsAbsent() || v.kind == composite {
			return false
		}
		content := v.text()
		if r.mustEqual != "" {
			asked := c.translation.equalSlots[slot]
			if asked < 0 || c.request[asked].countsAsAbsent() || c.request[asked].text() != content {
				return false
			}
		}
		if r.means != nil && r.meaning(v, p.from) == "" {
			return false
		}
	}
	return true
}

// hasMustEqualFields tells whether the reply has every field that must equal the request.
func (c *Call) hasMustEqualFields() bool {
	for slot, r := range c.translation.reply.rows {
		if r.mustEqual != "" && c.reply[slot].countsAsAbsent() {
			return false
		}
	}
	return true
}

// unequalField is the path of a field by which the reply names something else than the request asked for: then it
// belongs to unequalField call, whatever brought it here. A field that is missing names nothing.
func (c *Call) unequalField() string {
	p := c.translation.reply
	for slot, r := range p.rows {
		asked := c.translation.equalSlots[slot]
		if asked < 0 || c.reply[slot].countsAsAbsent() || c.request[asked].countsAsAbsent() {
			continue
		}
		if c.reply[slot].text() != c.request[asked].text() {
			return r.path[p.from]
		}
	}
	return ""
}

// hasResult tells whether any field of the result came that the client's form has a place for.
func hasResult(slots []value, p *plan) bool {
	for slot, r := range p.rows {
		if r.path[p.to] != "" && slots[slot].kind != absent {
			return true
		}
	}
	return false
}
