package translate

import (
	"slices"
	"strings"
)

// A conversion writes a value of one form as another form does. It moves digits, and copies them; what cannot come back
// as it was does not fit. It is immutable.
type conversion interface {
	// write appends the value. If it does not fit, nothing is appended.
	write(dst []byte, v value, lenient bool) (out []byte, fits bool)
	// want says what a value must be, and got what one is that does not fit; neither has the value.
	want() string
	got(v value) string
}

// conversion returns the conversion of a row from one form to another.
func (r *row) conversion(from, to *form) conversion {
	places := r.Shift[to.index] - r.Shift[from.index]
	switch {
	case r.pattern[0] != "":
		return newPattern(r.pattern[from.index], r.pattern[to.index])
	case r.as == "decimal" || places != 0:
		return decimal{r.digitsIn(to), places, r.as == "digits"}
	case r.as == "digits":
		return digits{r.digitsIn(to), r.width[from.index], r.width[to.index]}
	}
	return asText{}
}

// asText is no conversion: a text in both forms.
type asText struct{}

func (asText) write(dst []byte, v value, lenient bool) (out []byte, fits bool) {
	switch {
	case v.kind == text || !lenient: // the upstream checks the type of a field of a request
		return append(dst, v.raw...), true
	case v.kind == number:
		return appendQuoted(dst, v.raw), true
	}
	return dst, false
}

func (asText) want() string       { return "text" }
func (asText) got(v value) string { return v.typeName() }

// digits is a non-negative integer as a number or as text, digit by digit. It takes both from the message. A form with a
// width has a text of so many digits, with leading zeros.
type digits struct {
	to          kind
	from, width int
}

func (d digits) write(dst []byte, v value, _ bool) (out []byte, fits bool) {
	content := v.raw
	if v.kind == text {
		content = v.raw[1 : len(v.raw)-1]
	}
	if d.from > 0 && v.kind == text && len(content) == d.from && allDigits(content) {
		content = strings.TrimLeft(content[:d.from-1], "0") + content[d.from-1:]
	}
	switch {
	case !isDigits(content) || d.width > 0 && len(content) > d.width:
		return dst, false
	case d.to == number:
		return append(dst, content...), true
	case d.width > 0:
		return appendQuoted(dst, strings.Repeat("0", d.width-len(content))+content), true
	}
	return appendQuoted(dst, content), true
}

func (digits) want() string { return "a whole number in digits" }

func (digits) got(v value) string {
	if isDigits(v.text()) {
		return "more digits than the other form has"
	}
	return v.notDigits()
}

// appendQuoted appends a number as a JSON string. A number needs no escapes.
func appendQuoted(dst []byte, number string) []byte {
	return append(append(append(dst, '"'), number...), '"')
}

// decimal is a decimal number as a number or as text. Its point moves to the right by places. Without them the digits are
// copied one by one.
type decimal struct {
	to     kind
	places int
	whole  bool // in the form with the greater number it is a whole number
}

func (d decimal) write(dst []byte, v value, _ bool) (out []byte, fits bool) {
	content, ok := d.move(v)
	switch {
	case !ok:
		return dst, false
	case d.to == number:
		return append(dst, content...), true
	}
	return appendQuoted(dst, content), true
}

func (d decimal) move(v value) (out string, ok bool) {
	in := v.raw
	if v.kind == text {
		in = in[1 : len(in)-1]
	}
	if !isDecimal(in) || v.kind != text && v.kind != number {
		return "", false
	}
	if d.places == 0 {
		return in, true
	}
	whole, fraction, _ := strings.Cut(in, ".")
	whole, negative := strings.CutPrefix(whole, "-")
	fraction = strings.TrimRight(fraction, "0")
	switch {
	case d.whole && (negative || d.places < 0 && fraction != "" || d.places > 0 && len(fraction) > d.places):
		return "", false
	case d.places > 0:
		fraction += strings.Repeat("0", max(0, d.places-len(fraction)))
		whole, fraction = whole+fraction[:d.places], fraction[d.places:]
	default:
		whole = strings.Repeat("0", max(0, 1-d.places-len(whole))) + whole
		whole, fraction = whole[:len(whole)+d.places], whole[len(whole)+d.places:]+fraction
	}
	whole = strings.TrimLeft(whole[:len(whole)-1], "0") + whole[len(whole)-1:]
	if fraction = strings.TrimRight(fraction, "0"); fraction != "" {
		whole += "." + fraction
	}
	if negative && whole != "0" {
		whole = "-" + whole
	}
	return whole, true
}

func (decimal) want() string { return "a decimal number that the other form can hold" }

func (decimal) got(v value) string {
	if isDigits(v.text()) {
		return v.typeName()
	}
	return v.notDigits()
}

// isDecimal reports whether s is a JSON number without exponent.
func isDecimal(s string) bool {
	whole, fraction, dot := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	return isDigits(whole) && (!dot || fraction != "" && allDigits(fraction))
}

// A pattern is a text whose digits the other form has at other places.
type pattern struct {
	in, out string
	from    []int // by byte of out: where its digit is in the input; -1 for another character
}

// digitPlaces are the letters that stand for digits in a pattern.
const digitPlaces = "YMDhms"

func newPattern(in, out string) pattern {
	p, next := pattern{in, out, make([]int, len(out))}, map[byte]int{} // by letter: where to look for the next one
	for i := range p.from {
		c := out[i]
		at := strings.IndexByte(in[next[c]:], c)
		if p.from[i] = -1; at >= 0 && strings.IndexByte(digitPlaces, c) >= 0 {
			p.from[i] = next[c] + at
			next[c] = p.from[i] + 1
		}
	}
	return p
}

func (p pattern) write(dst []byte, v value, _ bool) (out []byte, fits bool) {
	in := v.text()
	if v.kind != text || len(in) != len(p.in) {
		return dst, false
	}
	for i := range len(in) {
		fits := in[i] == p.in[i]
		if strings.IndexByte(digitPlaces, p.in[i]) >= 0 {
			fits = in[i] >= '0' && in[i] <= '9'
		}
		if !fits {
			return dst, false
		}
	}
	dst = append(dst, '"')
	for i, at := range p.from {
		if at < 0 {
			dst = append(dst, p.out[i])
		} else {
			dst = append(dst, in[at])
		}
	}
	return append(dst, '"'), true
}

func (p pattern) want() string { return "text like " + p.in }

func (p pattern) got(v value) string {
	if v.kind == text {
		return "other text"
	}
	return v.typeName()
}

// nullText stands for null among the texts of pairs. No text of JSON is like it: it is not valid UTF-8.
const nullText = "\xff"

// pairText returns the text by which pairs find a value.
func (v value) pairText() string {
	if v.kind == null {
		return nullText
	}
	return v.text()
}

// append appends a value as the other form writes it: by its pair, as no value, or by the conversion. It takes text and
// numbers from both forms. If the value does not fit, it is appended unchanged: a reply then counts it, and a request is
// refused.
func (f *mapping) append(dst []byte, v value, lenient bool) (out []byte, fits bool) {
	if v.kind == asIs || f.plain && v.kind == text { // mostly
		return append(dst, v.raw...), true
	}
	begin := len(dst)
	if f.hasPairs() && v.kind != composite {
		if paired, ok := f.Values.find(f.from, f.to, v.pairText()); ok {
			if dst = append(dst, paired.json...); v.kind != null && f.rare && f.Absent[f.to].kind != absent && paired.json == f.Absent[f.to].json {
				return append(dst[:begin], v.raw...), false
			}
			return dst, true // the table says what null is, also if the other form has the same value for an absent field
		}
	}
	switch {
	case v.kind == null:
		return append(dst, v.raw...), !f.otherNull
	case f.onlyPairs && v.kind != composite: // a conversion could produce the pair of another value
	case f.isEmpty(v) && f.digitsTo == number:
		dst, fits = append(dst, f.Empty.text...), true
	case f.isEmpty(v):
		dst, fits = append(dst, `""`...), true
	default:
		dst, fits = f.convert.write(dst, v, lenient)
	}
	if !fits || f.rare && f.isTaken(string(dst[begin:])) { // it would come back as another value, or as an absent field
		return append(dst[:begin], v.raw...), false
	}
	return dst, true
}

// isTaken reports whether a value of the other form, as JSON, stands for an absent field or for null.
func (f *mapping) isTaken(json string) bool {
	if f.Absent[f.to].kind != absent && json == f.Absent[f.to].json {
		return true
	}
	paired := func(p pair) bool { return json == p.Values[f.to].json }
	return json != "null" && f.onlyNullPairs() && slices.ContainsFunc(f.Values.list, paired)
}

// omits reports whether the other form leaves out the field instead of this value.
func (f *mapping) omits(v value) bool {
	return f.rare && f.Absent[f.to].kind == absent && f.Absent[f.from].kind != absent && v.is(f.Absent[f.from])
}

func (r *row) hasAbsent() bool {
	return slices.ContainsFunc(r.Absent, func(c constant) bool { return c.kind != absent })
}

// isMoved reports whether the point of a number may move, or it may have a fraction.
func (r *row) isMoved() bool {
	return r.as == "decimal" || slices.Max(r.Shift) > 0
}

// isEmpty reports whether a pair says that the value means "no value": "", or the number of the pair. Both are taken from
// both forms, since some v2 backends write numbers as text.
func (r *row) isEmpty(v value) bool {
	return r.Empty.text != "" && (v.kind == number || v.kind == text) && (v.raw == `""` || v.text() == r.Empty.text)
}
