package translate

import (
	"bytes"
	"slices"
	"strings"
)

// Reply appends the upstream's reply to dst, in the client's form. Between equal forms it returns src itself. status
// is the HTTP status of the reply. If the error is an [*UnusableReply], the outcome of the call is unknown. Request
// must have been called before, unless the call is that of StartReply: a reply may echo from the request, and a success
// may have to equal it.
func (c *Call) Reply(dst []byte, status int, src []byte) ([]byte, error) {
	p := c.translation.reply
	c.code, c.status, c.success = "", status, false
	c.dropLists(c.asked)
	no := c.readReply(p, status, src)
	switch {
	case no.Reason != "":
		c.code, c.success = "", false
		unusable := no // else each reply would take memory
		return nil, &unusable
	case p.from == p.to:
		return src, nil
	case !c.success: // it has no result
		c.Report.reset()
		c.convertEnvelope(p)
		dst, _ = c.emitAll(p.toForm.failed, dst, p.envelope(c.reply))
		return dst, nil
	case !c.translation.operation.bare[p.to]:
		c.convertEnvelope(p)
	}
	dst, _ = c.write(p, dst, c.reply)
	return dst, nil
}

// readReply reads a reply into the slots, and its code. The result has no reason if the reply is usable.
func (c *Call) readReply(p *plan, status int, src []byte) (no UnusableReply) {
	isObject, fault := c.scan(p, bytes.TrimPrefix(src, byteOrderMark), c.reply)
	switch {
	case fault != nil:
		no.Reason = fault.reason.String()
	case !isObject:
		no.Reason = "not a JSON object"
	case c.overflow && p.from != p.to:
		no.Reason = why(tooManyItems, maxItems).String()
	}
	if no.Reason != "" {
		return no
	}
	is, o, envelope := c.look(p, c.reply), c.translation.operation, p.envelope(c.reply)
	code, success, first := envelope[codeSlot], p.fromForm.code.text, p.table.forms[0].code.text
	found, missing, wrong := p.fromForm.says(status, envelope)
	if missing {
		wrong = p.fromForm.Code + " is missing"
		if p.bare {
			wrong += ", and the fields are not those of a success without an envelope"
		}
		alone := envelope[flagSlot].kind == absent && code.kind == absent
		want := o.status[p.from] // 0 for any 2xx
		if is.proven && alone && (want == 0 && status/100 == statusOK/100 || want != 0 && status == want) {
			found, wrong = success, ""
		}
	}
	c.code, c.success = p.table.intern(found), found == success
	switch {
	case wrong != "":
		if no.Reason = wrong; !p.fromForm.isCode(code) {
			no.of = code
		}
	case !c.success && (c.code == p.toForm.code.text || c.code == first): // the client would take it for a success
		no.Reason = "the code " + c.code + " is that of a success in another form"
	case !c.success:
	case is.another != nil:
		no.Field, no.of = is.another.source, is.of
		no.Reason = "a success, but its " + no.Field + " is not that of the request"
	case p.from == p.to:
	case is.misleads != nil:
		no.Reason = is.misleads.source + " " + why(noCounterpart, p.toForm.name).String()
	case is.lacks != nil:
		no.Reason = "a success without its " + is.lacks.source
	case is.nameless:
		no.Reason = "a success that does not name what the request is about"
	case o.bare[p.to] && !p.hasResult(c.reply): // without an envelope the client could not see that this is a success
		no.Reason = "a success without a result"
	}
	if c.success && no.Reason == "" {
		c.code = first
		for _, slot := range is.others { // it passes: no public document says what each backend writes there
			c.report(OutcomePassed, p.fields[slot].report, c.reply[slot], Detail{Format: notOfRequest})
		}
	}
	return no
}

// A look is what the values of a reply, or of a callback, say about it.
type look struct {
	another  *mapping // must equal the request, and differs: the reply belongs to another call
	of       value    // its value
	others   []int    // the slots of fields that repeat the request, and differ
	misleads *mapping // has a value that would have another meaning in the other form
	lacks    *mapping // is missing, and a success must have it
	// Of a form without envelope: a field that must equal the request is missing.
	nameless bool
	// Without a code the reply is a success of this call. It has the value of the request in every field that must
	// equal the request that is not secret, and a meaning in every field with means.
	proven bool
}

// look looks at the values that can make a reply unusable. A missing field does not differ, and neither does a secret
// that is masked.
func (c *Call) look(p *plan, slots []value) (is look) {
	shows, fails := false, false
	for _, slot := range p.checked {
		f, v, asked := p.fields[slot], slots[slot], value{}
		if f.of >= 0 {
			asked = c.request[f.of]
		}
		none, unasked, secret := v.countsAsAbsent(), asked.countsAsAbsent(), f.Role.Secret
		differs := !none && !unasked && v.text() != asked.text()
		switch {
		case !differs:
		case f.repeats && (v.kind == number || v.kind == text): // the documented types
			is.others = append(is.others, slot)
		case f.must && is.another == nil && (!secret || v.kind != text || !strings.Contains(v.text(), "*")):
			is.another, is.of = f, v
		}
		if f.class == Exact && is.misleads == nil && f.misleads(v) {
			is.misleads = f
		}
		if f.Required && none && f.source != "" && is.lacks == nil {
			is.lacks = f
		}
		if !p.bare || secret || !f.must && f.Means == nil {
			continue
		}
		is.nameless = is.nameless || f.must && none
		if f.source != "" {
			shows = true
			fails = fails || none || v.kind == composite || f.Means != nil && f.meaning(v, p.from) == "" ||
				f.must && !c.alone && (unasked || differs)
		}
	}
	is.proven = shows && !fails
	return is
}

// statusOK is HTTP 200. This package does not import net/http.
const statusOK = 200

// convertEnvelope converts the envelope to the client's form. A code without a pair is not changed, unless the form has
// other_code.
func (c *Call) convertEnvelope(p *plan) {
	from, to, envelope := p.fromForm, p.toForm, p.envelope(c.reply)
	if c.trace != nil {
		c.trace.envelope = slices.Clone(envelope)
	}
	set := func(part int, json string) { envelope[part] = value{raw: json, kind: text} } // what is text stays as it is
	code, message := envelope[codeSlot], envelope[textSlot]
	flag, json := to.flagIs[0].json, ""
	switch in, replaced := from.codeIn(to, c.code); {
	case c.success:
		flag, json = to.flagIs[1].json, to.code.json
	case in == c.code && code.kind == text && !to.numeric:
		json = code.raw
	default:
		if json = to.codeJSON(in); replaced {
			c.report(OutcomePassed, from.Code, code, Detail{Format: noPair})
		}
	}
	set(flagSlot, flag)
	set(codeSlot, json)
	switch message.kind {
	case text, null:
		set(textSlot, message.raw)
	case number:
		set(textSlot, `"`+message.raw+`"`)
	case absent:
		switch {
		case p.table.successText.text == "" || !c.success || code.kind != absent && !from.textInside:
			c.report(OutcomePassed, from.Text, message, why(IsMissing))
		case !to.textInside:
			c.report(OutcomeDefaulted, to.Text, message, Detail{})
			fallthrough
		default:
			set(textSlot, p.table.successText.json)
		}
	default:
		c.report(OutcomePassed, from.Text, message, Detail{wrongText, []any{message.typeName()}})
		set(textSlot, message.raw)
	}
}

// hasResult reports whether the reply has any field that the client's form has a place for.
func (p *plan) hasResult(reply []value) bool {
	for slot, f := range p.fields {
		if f.target != "" && reply[slot].kind != absent {
			return true
		}
	}
	return false
}
