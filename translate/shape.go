package translate

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// ShapeRequest returns a request with the fields and types of src and with invented values, so that people can try what became of a
// request without seeing it. Names without a row are invented too; words of the table, such as the values of one_of, stay. It returns nil
// if src is not a JSON object.
func (t *Translation) ShapeRequest(src []byte) []byte {
	return (&shaper{plan: t.request}).shape(src)
}

// ShapeReply is ShapeRequest for the upstream's reply to a request. Codes of the table stay. A field that must equal the request has the
// value of the request's shape if it does.
func (t *Translation) ShapeReply(request, src []byte) []byte {
	call := t.Start()
	defer call.Release()
	_, _ = call.Request(nil, request) // a request that is not JSON has no values
	return (&shaper{plan: t.reply, call: call}).shape(src)
}

// A shaper writes one shape.
type shaper struct {
	plan     *plan
	call     *Call // has read the request of a reply
	unknowns int
}

func (s *shaper) shape(src []byte) []byte {
	parsed := gjson.ParseBytes(src)
	if checkJSON(src, s.plan.table.depth) != nil || !parsed.IsObject() {
		return nil
	}
	return s.appendObject(nil, s.plan.root, parsed)
}

func (s *shaper) appendObject(dst []byte, n *node, object gjson.Result) []byte {
	dst = append(dst, '{')
	next := 0
	object.ForEach(func(key, v gjson.Result) bool {
		dst = comma(dst)
		e := n.find(key.Str, &next)
		switch {
		case e == nil:
			dst = append(append(appendString(dst, s.unknownName(n, key.Str)), ':'), invented(valueOf(v), "text")...)
		case e.node != nil && v.IsObject():
			dst = s.appendObject(append(dst, e.key...), e.node, v)
		default:
			dst = append(append(dst, e.key...), s.value(e, valueOf(v))...)
		}
		return true
	})
	return append(dst, '}')
}

// unknownName invents a name for a field without a row. A name that differs from one of the table in case only stays, since it is the
// reason of a refusal.
func (s *shaper) unknownName(n *node, name string) string {
	if _, ok := n.fold[fold(name)]; ok {
		return name
	}
	s.unknowns++
	return "unknown" + strconv.Itoa(s.unknowns)
}

// value returns the value of a field of the table: a word of the table, or an invented value.
func (s *shaper) value(e *entry, v value) string {
	p := s.plan
	switch {
	case e.node != nil, e.slot == p.textSlot():
		return invented(v, "text")
	case e.slot == p.codeSlot():
		if v.kind == text && p.table.knowsCode(p.from, v.text()) {
			return v.raw
		}
		return invented(v, "CODE")
	}
	r := p.rows[e.slot]
	_, paired := r.pairs.find(p.from, v.text())
	if paired || r.meaning(v, p.from) != "" || v.kind == text && slices.Contains(r.oneOf, v.text()) || r.isEmpty(v) {
		return v.raw
	}
	if s.call != nil {
		if i := s.call.translation.equalSlots[e.slot]; i >= 0 && !v.countsAsAbsent() && s.call.request[i].kind != absent && s.call.request[i].text() != v.text() {
			return `"other"`
		}
	}
	path := r.path[0]
	if path == "" {
		path = r.path[1]
	}
	return invented(v, path[strings.LastIndexByte(path, '.')+1:])
}

// knowsCode reports whether a code is in the catalogue or in another list of the table.
func (t *Table) knowsCode(form int, code string) bool {
	_, paired := t.codes.find(form, code)
	return paired || t.InCatalogue(code) || t.formMeanings[form][code] != ""
}

// invented returns a value that a row treats like v: of the same type, and with digits where v has digits.
func invented(v value, word string) string {
	switch {
	case v.kind == null, v.raw == `""`:
		return v.raw
	case v.kind == boolean:
		return "true"
	case v.kind == composite && v.raw[0] == '{':
		return "{}"
	case v.kind == composite:
		return "[]"
	}
	digits := map[string]string{
		"a number with an exponent": "1e3", "a number with a fraction": "1.5", "a negative number": "-1", "text with a leading zero": "01",
	}[v.notDigits()]
	switch {
	case v.kind == text && isDigits(v.text()) && v.raw != `"`+v.text()+`"`:
		return `"\u0031000"` // a conversion to a number refuses escapes
	case isDigits(v.text()):
		digits = "1000"
	case digits == "":
		digits = word
	}
	if v.kind == number {
		return digits
	}
	return string(appendString(nil, digits))
}
