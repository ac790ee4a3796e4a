package translate

import (
	"fmt"
	"unsafe"
)

// Value is what the request says in the field with a role: of a string its content, of another single value its raw text, and
// "" if the request has no such field or has null, an object or an array there. It is valid until Release and as long as the
// request's bytes are.
func (c *Call) Value(role string) string {
	return valueAt(c.translation.request, role, c.request)
}

// ReplyValue is what the last reply says in the field with a role, as Value is for the request. A field whose values have a
// meaning says something only as text.
func (c *Call) ReplyValue(role string) string {
	return valueAt(c.translation.reply, role, c.reply)
}

// ReplyMeaning is what the value of the last reply means in the field with a role, by the means of its row; "" if it has no
// meaning.
func (c *Call) ReplyMeaning(role string) string {
	p := c.translation.reply
	slot, ok := p.roles[role]
	if !ok {
		return ""
	}
	return p.rows[slot].meaning(c.reply[slot], p.from)
}

func valueAt(p *plan, role string, slots []value) string {
	slot, ok := p.roles[role]
	if !ok || slots[slot].countsAsAbsent() || slots[slot].kind == composite || p.rows[slot].means != nil && slots[slot].kind != text {
		return ""
	}
	return slots[slot].text()
}

// StringValue is the string that the request has in the field with a role, and the path of the field. ok is false if the field
// is missing, null, empty or not a string.
func (c *Call) StringValue(role string) (content, path string, ok bool) {
	slot, ok := c.stringAt(role)
	if !ok {
		return "", "", false
	}
	p := c.translation.request
	return c.request[slot].text(), p.rows[slot].path[p.from], true
}

func (c *Call) stringAt(role string) (slot int, ok bool) {
	slot, ok = c.translation.request.roles[role]
	return slot, ok && c.request[slot].kind == text && !c.request[slot].countsAsAbsent()
}

// Replace appends the request to dst as Request made it, but with content as the string of the field with a role. A request
// without such a string is appended as it is. Between equal forms every other byte is the client's. Request must have
// succeeded before; otherwise nothing is appended.
func (c *Call) Replace(dst []byte, role, content string) []byte {
	if c.carriedBody == nil {
		return dst
	}
	p := c.translation.request
	slot, ok := c.stringAt(role)
	if c.translation.SameForm() {
		if !ok {
			return append(dst, c.carriedBody...)
		}
		begin := c.offset(c.request[slot])
		dst = appendString(append(dst, c.carriedBody[:begin]...), content)
		return append(dst, c.carriedBody[begin+len(c.request[slot].raw):]...)
	}
	report := c.Report // of Request, which holds for the other fields
	c.Report = Report{}
	if ok {
		// The slot is restored: the reply may echo what the client sent.
		defer func(own value) { c.request[slot] = own }(c.request[slot])
		c.request[slot].raw = string(appendString(nil, content))
	}
	dst, _ = c.emit(p, append(dst, '{'), c.request)
	c.Report = report
	return append(dst, '}')
}

// offset is where a value begins in the request. The raw text of a value is part of the request's bytes, so that its place is
// exact where a search could find another text of the same spelling.
func (c *Call) offset(v value) int {
	return int(uintptr(unsafe.Pointer(unsafe.StringData(v.raw))) - uintptr(unsafe.Pointer(unsafe.SliceData(c.carriedBody))))
}

// Compose appends a request of the operation in a form, as a client would make it that sends these values, by role, and nothing
// else. Empty values and roles that the request lacks are left out. It is an error if one of the forms lacks the operation.
func (o *Operation) Compose(dst []byte, f Form, values map[string]string) ([]byte, error) {
	to := o.table.formIndex(f)
	if to < 0 || o.translations[1-to][to] == nil {
		return nil, fmt.Errorf("%s cannot be composed in %s: both forms must have it", o.Name, f)
	}
	c := o.translations[1-to][to].Start()
	defer c.Release()
	p := c.translation.request
	clear(c.request)
	for role, content := range values {
		if slot, ok := p.roles[role]; ok && content != "" {
			c.request[slot] = value{string(appendString(nil, content)), text}
		}
	}
	dst, _ = c.emit(p, append(dst, '{'), c.request)
	return append(dst, '}'), nil
}
