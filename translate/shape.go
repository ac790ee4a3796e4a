package translate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// ShapeRequest returns a request with the fields and types of src and with invented values, so that people can try
// what became of a request without seeing it. Names without a row are invented too; words of the table, such as the
// values of one_of, stay. It returns nil if src is not a JSON object.
func (t *Translation) ShapeRequest(src []byte) []byte {
	return (&shaper{plan: t.request}).shape(src)
}

// ShapeReply is ShapeRequest for the upstream's reply to a request. Codes of the table stay. A field that must equal
// the request has the value of the request's shape if it does.
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
	if checkJSON(src, s.plan.table.depth) != nil || !gjson.ParseBytes(src).IsObject() {
		return nil
	}
	var compact bytes.Buffer
	_ = json.Compact(&compact, src) // without an error, since it is JSON
	doc, out, at := compact.Bytes(), []byte(nil), 0
	s.plan.visitLeaves(s.plan.root, doc, func(l leaf) {
		if l.entry == nil {
			out = append(appendString(append(out, doc[at:l.nameAt]...), s.unknownName(l.node, l.name)), ':')
			at = l.offset
		}
		out = append(append(out, doc[at:l.offset]...), s.value(l)...)
		at = l.offset + len(l.raw)
	})
	return append(out, doc[at:]...)
}

// unknownName invents a name for a field without a row. A name that differs from one of the table in case only stays,
// since it is the reason of a refusal.
func (s *shaper) unknownName(n *node, name string) string {
	if _, ok := n.fold[fold(name)]; ok {
		return name
	}
	s.unknowns++
	return "unknown" + strconv.Itoa(s.unknowns)
}

// value returns the value of a leaf in the shape: a word of the table, or an invented value.
func (s *shaper) value(l leaf) string {
	p, e, v := l.plan, l.entry, l.value
	switch {
	case e == nil, e.node != nil, e.slot == p.textSlot():
		return invented(v, "text")
	case e.slot == p.flagSlot():
		if is := p.fromForm.flagIs; v.is(is[0]) || v.is(is[1]) {
			return v.raw
		}
		return invented(v, "FLAG")
	case e.slot == p.codeSlot():
		if (v.kind == text || v.kind == number) && p.table.knowsCode(p.from, v.text()) {
			return v.raw
		}
		return invented(v, "CODE")
	}
	r := p.fields[e.slot]
	_, paired := r.Values.find(p.from, v.text())
	if r.Pattern[p.from] != "" {
		if _, fits := r.move(nil, v, p.from); fits {
			return string(appendString(nil, r.sample(p.from)))
		}
	} else if r.wants(p.from) != "" && !paired && v.kind == text {
		if number, fits := r.number(v, p.from); fits && !isDigits(v.text()) && number != "" {
			return `"1.5"`
		}
	}
	if paired || r.omits(v, p.from) || r.meaning(v, p.from) != "" || r.isEmpty(v) ||
		v.kind == text && slices.Contains(r.OneOf, v.text()) || r.state >= 0 && v.text() == "0" {
		return v.raw
	}
	if c := s.call; c != nil {
		switch {
		case c.differs(r, v) || c.repeatsAnother(r, v):
			return `"other"`
		case r.equalsSecret && v.kind == text && strings.Contains(v.text(), "*"):
			return `"***"`
		}
	}
	return invented(v, r.name())
}

// knowsCode reports whether a code is in the catalogue or in another list of the table.
func (t *Table) knowsCode(form int, code string) bool {
	_, paired := t.codes.find(form, code)
	return code == t.success.code[form] || paired || t.InCatalogue(code) || t.known[form][code].Means != ""
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
		"a number with an exponent": "1e3", "a number with a fraction": "1.5", "a negative number": "-1",
		"text with a leading zero": "01",
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

// Example returns a message of the translation with every field that it can carry, and invented values. A reply is
// one to the example of the request.
func (t *Translation) Example(m Message) []byte {
	p := t.request
	if m == Reply {
		p = t.reply
	}
	return p.schema(p.root, false).AppendExample(nil)
}

// Example returns a callback with every field, and invented values.
func (c *Callback) Example(from, to Form) []byte {
	p := c.plan(from, to)
	return p.schema(p.root, false).AppendExample(nil)
}

// example returns an invented value of a field, or "" if the other form would refuse the field. That of a list is in the
// schema of its items.
func (p *plan) example(r *mapping) string {
	word, most := cmp.Or(r.example, r.name()), r.Max.least(p.from, p.to)
	switch {
	case r.target == "" && r.Loss == "refuse" && r.Default.kind == absent:
		return ""
	case r.List:
		return "[]"
	case r.target == "" && r.Default.kind != absent:
		return r.Default.json
	case r.Pattern[0] != "":
		word = r.sample(p.from)
	case r.hasPairs():
		return r.Values.list[0].Values[p.from].json
	case len(r.Means) > 0 && r.Means[word] == "":
		word = slices.Min(slices.Collect(maps.Keys(r.Means)))
	case len(r.OneOf) > 0:
		word = r.OneOf[0]
	case r.As == "" && r.checkLength(word, most).Format != "":
		word = strings.Repeat("1", cmp.Or(r.ExactDigits, r.Min, most))
	case r.As != "":
		if !isDigits(word) && !(isDecimal(word) && r.As == "decimal") {
			word = "1000"
		}
		if r.digits && r.checkNumber(word, most).Format != "" {
			word = strconv.Itoa(cmp.Or(r.Min, most))
		}
		if p.fromForm.digits == number {
			return word
		}
	}
	if r.As == "" && word == r.example && r.exampleKind != text {
		return word
	}
	return string(appendString(nil, word))
}
