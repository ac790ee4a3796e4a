package translate

import (
	"cmp"
	"slices"
	"strings"
)

// A conversion is how the two forms write the same value. The set is closed: each is written here beside its inverse,
// which is the same one in the other direction.
type conversion uint8

const (
	untouched  conversion = iota // text stays, and the reply of a backend that writes a number becomes text
	rearranged                   // the digits of a text stand elsewhere
	decimal                      // a number with a fraction, of which the point may move
	digits                       // a whole number, as a number or as text
	itemByItem                   // a list
)

// conversionOf returns the conversion of a row if the point moves by so many places.
func (r *row) conversionOf(places int) conversion {
	switch {
	case r.items != nil:
		return itemByItem
	case r.pattern[0] != "":
		return rearranged
	case r.as == "decimal" || places != 0:
		return decimal
	case r.digits:
		return digits
	}
	return untouched
}

// write appends a value as the form of the output writes it: it moves digits, and copies them. What cannot come back as
// it was does not fit; then nothing is appended.
func (f *mapping) write(dst []byte, v value, lenient bool) (out []byte, fits bool) {
	content, to := v.raw, f.digitsTo
	if v.kind == text { // digits are taken from numbers and from text
		content = content[1 : len(content)-1]
	}
	switch from, width := f.width[f.from], f.width[f.to]; f.conversion {
	case rearranged:
		return f.rearrange(dst, v)
	case decimal:
		content, fits = f.move(content)
	case digits:
		if from > 0 && v.kind == text && len(content) == from && allDigits(content) {
			content = trimZeros(content)
		}
		fits = isDigits(content) && (width == 0 || len(content) <= width)
		for to == text && len(content) < width {
			content = "0" + content
		}
	default:
		if v.kind == text || !lenient { // the upstream checks the type of a field of a request
			return append(dst, v.raw...), true
		}
		fits, to = v.kind == number, text
	}
	switch {
	case !fits:
		return dst, false
	case to == number:
		return append(dst, content...), true
	}
	return append(append(append(dst, '"'), content...), '"'), true // without escapes
}

// trimZeros leaves out leading zeros of digits.
func trimZeros(digits string) string { return cmp.Or(strings.TrimLeft(digits, "0"), "0") }

// move moves the point of a decimal number. If it stays, the digits are copied one by one.
func (f *mapping) move(number string) (out string, fits bool) {
	if f.places == 0 || !isDecimal(number) {
		return number, isDecimal(number)
	}
	whole, fraction, _ := strings.Cut(number, ".")
	whole, negative := strings.CutPrefix(whole, "-")
	fraction = strings.TrimRight(fraction, "0")
	if f.digits && (negative || len(fraction) > max(0, f.places)) { // the greater number is a whole one
		return "", false
	}
	zeros := strings.Repeat("0", max(f.places, -f.places))
	all, point := zeros+whole+fraction+zeros, len(zeros)+len(whole)+f.places
	whole, fraction = trimZeros(all[:point]), strings.TrimRight(all[point:], "0")
	if fraction != "" {
		whole += "." + fraction
	}
	if negative && whole != "0" {
		whole = "-" + whole
	}
	return whole, true
}

// isDecimal reports whether s is a JSON number without exponent.
func isDecimal(s string) bool {
	whole, fraction, dot := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	return isDigits(whole) && (!dot || fraction != "" && allDigits(fraction))
}

// digitPlaces are the letters that stand for digits in a pattern.
const digitPlaces = "YMDhms"

// rearrange appends a text with the digits of a pattern, at the places that they have in the other form.
func (f *mapping) rearrange(dst []byte, v value) (out []byte, fits bool) {
	is, to, in := f.pattern[f.from], f.pattern[f.to], v.text()
	if v.kind != text || len(in) != len(is) {
		return dst, false
	}
	for i := range len(in) {
		place := strings.IndexByte(digitPlaces, is[i]) >= 0
		if place && !allDigits(in[i:i+1]) || !place && in[i] != is[i] {
			return dst, false
		}
	}
	var next [len(digitPlaces)]int // by letter: where to look for its next digit
	dst = append(dst, '"')
	for _, c := range []byte(to) {
		if letter := strings.IndexByte(digitPlaces, c); letter >= 0 {
			if at := strings.IndexByte(is[next[letter]:], c); at >= 0 {
				next[letter] += at + 1
				c = in[next[letter]-1]
			}
		}
		dst = append(dst, c)
	}
	return append(dst, '"'), true
}

// wrong says what is wrong with a value that does not fit.
func (p *plan) wrong(f *mapping, v value) Detail {
	_, written := f.write(nil, v, true)
	switch paired := written || v.kind == null && f.hasPairs() || f.onlyPairs && v.kind != composite; {
	case f.conversion == itemByItem:
		return why(wantList, v.typeName())
	case paired: // it would come back as another value
	case f.conversion == rearranged && v.kind == text:
		return why(wantText, f.pattern[f.from], "other text")
	case f.conversion == rearranged:
		return why(wantText, f.pattern[f.from], v.typeName())
	case f.conversion == decimal && isDecimal(v.text()) && v.text()[0] != '-':
		whole := p.fromForm // the form with the greater number
		if f.places > 0 {
			whole = p.toForm
		}
		return why(tooManyPlaces, whole.name)
	case f.conversion == decimal:
		return why(wantNumber, v.notDigits())
	case f.conversion == digits && isDigits(v.text()):
		return why(wantDigits, "more digits than the other form has")
	case f.conversion == digits:
		return why(wantDigits, v.notDigits())
	case p.message != Request:
		return Detail{wrongText, []any{v.typeName()}}
	}
	if p.message == Request {
		return why(noCounterpart, p.toForm.name)
	}
	return Detail{Format: noPair}
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
// numbers from both forms. If the value does not fit, it is appended unchanged: a reply then counts it, and a request
// is refused.
func (f *mapping) append(dst []byte, v value, lenient bool) (out []byte, fits bool) {
	if v.kind == asIs || f.plain && v.kind == text { // mostly
		return append(dst, v.raw...), true
	}
	begin, found := len(dst), false
	if f.hasPairs() && v.kind != composite {
		var paired constant
		if paired, found = f.Values.find(f.from, f.to, v.pairText()); found {
			dst, fits = append(dst, paired.json...), true
		}
	}
	switch {
	case found:
	case v.kind == null:
		dst, fits = append(dst, v.raw...), !f.nulls || !lenient
	case f.onlyPairs && v.kind != composite: // a conversion could produce the pair of another value
	case !f.isEmpty(v):
		dst, fits = f.write(dst, v, lenient)
	default:
		dst, fits, found = append(dst, f.emptied...), true, true
	}
	// The value of a pair is written also if it stands for an absent field.
	if !fits || !found && slices.Contains(f.taken, string(dst[begin:])) {
		return append(dst[:begin], v.raw...), false
	}
	return dst, true
}

// isMoved reports whether the point of a number may move, or it may have a fraction.
func (r *row) isMoved() bool {
	return r.as == "decimal" || slices.Max(r.Shift) > 0
}

// isEmpty reports whether a pair says that the value means "no value": "", or the number of the pair. Both are taken
// from both forms, since some v2 backends write numbers as text.
func (r *row) isEmpty(v value) bool {
	return r.empty.kind != absent && (v.raw == `""` || v.text() == r.empty.text)
}
