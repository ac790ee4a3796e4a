package translate

import (
	"fmt"
	"unsafe"
)

// Value returns the value of the request's field with a role: the content of a string, or the raw text of a number or
// a boolean. It returns "" if the field is missing, null, an object or an array. The result is valid until Release,
// and only as long as the bytes of the request are not modified.
func (c *Call) Value(role string) string {
	return c.translation.request.valueOf(role, c.request)
}

// ReplyValue is Value for the last reply. If the values of the field have a meaning, it returns "" for a value that
// is not text.
func (c *Call) ReplyValue(role string) string {
	return c.translation.reply.valueOf(role, c.reply)
}

// ReplyMeaning returns what the value of the field with a role means in the last reply, or "" if it has no meaning.
func (c *Call) ReplyMeaning(role string) string {
	f, v := c.translation.reply.find(role, c.reply)
	return f.meaning(*v, c.translation.reply.from)
}

// find returns the field with a role and its value. Without one the field has no row.
func (p *plan) find(role string, slots []value) (*mapping, *value) {
	if slot, ok := p.roles[role]; ok {
		return p.fields[slot], &slots[slot]
	}
	return noField, &value{}
}

var noField = &mapping{row: &row{}}

func (p *plan) valueOf(role string, slots []value) string {
	f, v := p.find(role, slots)
	if v.countsAsAbsent() || v.kind == composite || v.kind != text && f.Means != nil {
		return ""
	}
	return v.text()
}

// StringValue returns the string in the request's field with a role, and the path of the field. ok is false if the
// field is missing, null, empty or not a string.
func (c *Call) StringValue(role string) (content, path string, ok bool) {
	f, v := c.translation.request.find(role, c.request)
	if v.kind != text || v.countsAsAbsent() {
		return "", "", false
	}
	return v.text(), f.source, true
}

// Replace appends the translated request to dst, with content in place of the string in the field with a role. If the
// field has no string, nothing is replaced. Between equal forms all other bytes are unchanged. If Request has not
// succeeded, Replace appends nothing.
func (c *Call) Replace(dst []byte, role, content string) []byte {
	if !c.translated {
		return dst
	}
	p, same := c.translation.request, c.translation.SameForm()
	_, v := p.find(role, c.request)
	switch sent, ok := v.raw, v.kind == text && !v.countsAsAbsent(); {
	case same && !ok:
		return append(dst, c.body...)
	case same:
		begin := offsetIn(c.body, *v)
		dst = appendString(append(dst, c.body[:begin]...), content)
		return append(dst, c.body[begin+len(sent):]...)
	case ok:
		v.raw = string(appendString(nil, content))
		defer func() { v.raw = sent }()
	}
	report := c.Report // emit reports every field a second time
	dst, _ = c.emitAll(p, dst, c.request)
	c.Report = report
	return dst
}

// offsetIn returns where a value begins in its document. It compares addresses, since the raw text of a value is part
// of the document. A search could find the same text in another place.
func offsetIn(doc []byte, v value) int {
	return int(uintptr(unsafe.Pointer(unsafe.StringData(v.raw))) - uintptr(unsafe.Pointer(unsafe.SliceData(doc))))
}

// Compose appends a request of the operation in a form, with the given values by role. Empty values, and roles that
// the request does not have, are left out. Both forms must have the operation.
func (o *Operation) Compose(dst []byte, f Form, values map[string]string) ([]byte, error) {
	to := o.table.formIndex(f)
	if to < 0 || o.translations[otherOf(to)][to] == nil {
		return nil, fmt.Errorf("%s cannot be composed in %s: both forms must have the operation", o.Name, f)
	}
	c := o.translations[otherOf(to)][to].Start()
	defer c.Release()
	p := c.translation.request
	clear(c.request)
	for role, content := range values {
		if _, v := p.find(role, c.request); content != "" {
			*v = value{raw: string(appendString(nil, content)), kind: text}
		}
	}
	dst, _ = c.emitAll(p, dst, c.request)
	return dst, nil
}
