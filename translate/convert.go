package translate

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// A value is the raw JSON of one field of a message. It refers to the bytes of the message.
type value struct {
	raw  string
	kind kind
	ref  uint32 // of an array that the table looks into: its number in Call.lists, from 1
}

func valueOf(r gjson.Result) value {
	switch r.Type {
	case gjson.Null:
		return value{raw: r.Raw, kind: null}
	case gjson.True, gjson.False:
		return value{raw: r.Raw, kind: boolean}
	case gjson.Number:
		return value{raw: r.Raw, kind: number}
	case gjson.String:
		return value{raw: r.Raw, kind: text}
	}
	return value{raw: r.Raw, kind: composite}
}

// text returns the content of a string without quotes and escapes, and the raw text of any other value.
func (v value) text() string {
	if v.kind != text {
		return v.raw
	}
	if strings.IndexByte(v.raw, '\\') >= 0 {
		return gjson.Parse(v.raw).Str
	}
	return v.raw[1 : len(v.raw)-1]
}

// countsAsAbsent reports whether loss, default and bounds treat the value as absent, as they do null and "".
func (v value) countsAsAbsent() bool {
	return v.kind == absent || v.kind == null || v.raw == `""`
}

// isWord reports whether the value is text that begins with a letter, or "". Digits are never a word.
func (v value) isWord() bool {
	first, _ := utf8.DecodeRuneInString(v.text())
	return v.kind == text && (v.raw == `""` || unicode.IsLetter(first))
}

// appendValue appends a value, converted from form from to the form that writes digits as the given kind. It takes
// text and numbers from both forms. If the value does not fit, it is appended unchanged and fits is false: a reply
// then counts it, and a request is refused.
func (r *row) appendValue(dst []byte, v value, from int, digits kind, lenient bool) (out []byte, fits bool) {
	if v.kind == asIs {
		return append(dst, v.raw...), true
	}
	if r.special {
		return r.appendSpecial(dst, v, from, digits, lenient)
	}
	if v.kind == null {
		return append(dst, v.raw...), true
	}
	if r.hasPairs() && v.kind != composite {
		if paired, ok := r.Values.find(from, v.text()); ok {
			return append(dst, paired.json...), true
		}
		// A conversion to digits could produce the pair of another value.
		return append(dst, v.raw...), false
	}
	switch {
	case r.isEmpty(v) && digits == number:
		return append(dst, r.Empty.text...), true
	case r.isEmpty(v):
		return append(dst, `""`...), true
	case r.digits:
		return appendDigits(dst, v, digits)
	}
	// A field without a conversion is text in both forms. In a request the upstream checks its type.
	switch {
	case v.kind == number && lenient:
		return appendQuoted(dst, v.raw), true
	case v.kind == text || !lenient:
		return append(dst, v.raw...), true
	}
	return append(dst, v.raw...), false
}

// isEmpty reports whether the row's `empty` says that the value means "no value": "", or the number of `empty`. Both
// are taken from both forms, since some v2 backends write numbers as text.
func (r *row) isEmpty(v value) bool {
	return r.Empty.text != "" && (v.kind == number || v.kind == text) && (v.raw == `""` || v.text() == r.Empty.text)
}

// appendDigits appends a non-negative integer as a JSON number or as text, digit by digit. It takes both from the
// message.
func appendDigits(dst []byte, v value, as kind) (out []byte, exact bool) {
	digits := v.raw
	if v.kind == text {
		digits = v.raw[1 : len(v.raw)-1]
	}
	switch {
	case !isDigits(digits):
		return append(dst, v.raw...), false
	case as == number:
		return append(dst, digits...), true
	}
	return appendQuoted(dst, digits), true
}

// appendQuoted appends a number as a JSON string. A number needs no escapes.
func appendQuoted(dst []byte, number string) []byte {
	dst = append(dst, '"')
	dst = append(dst, number...)
	return append(dst, '"')
}
