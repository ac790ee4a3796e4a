package translate

import "github.com/tidwall/gjson"

// A value is what a message has under one mapped path: the raw JSON, which lives as long as the message.
type value struct {
	raw  string
	kind kind
}

func valueOf(r gjson.Result) value {
	switch r.Type {
	case gjson.Null:
		return value{r.Raw, null}
	case gjson.True, gjson.False:
		return value{r.Raw, boolean}
	case gjson.Number:
		return value{r.Raw, number}
	case gjson.String:
		return value{r.Raw, text}
	}
	return value{r.Raw, composite}
}

// text is the content of a scalar: of a string without its quotes and escapes, of all else the raw text.
func (v value) text() string {
	if v.kind != text {
		return v.raw
	}
	inner := v.raw[1 : len(v.raw)-1]
	for i := 0; i < len(inner); i++ {
		if inner[i] == '\\' {
			return gjson.Parse(v.raw).Str
		}
	}
	return inner
}

// countsAsAbsent tells whether the value counts as absent for losses, defaults and bounds: null and "" do.
func (v value) countsAsAbsent() bool {
	return v.kind == absent || v.kind == null || v.raw == `""`
}

// A conversion is written once for both directions: the form that the value goes to decides what is written,
// what was read may be either type. fits is false where the value cannot be carried exactly; then it is
// appended as it is, which a reply lets through and counts and a request does not.
func (r *row) appendValue(dst []byte, v value, from int, digits kind, lenient bool) (out []byte, fits bool) {
	if v.kind == null {
		return append(dst, v.raw...), true
	}
	if len(r.pairs) > 0 && v.kind != composite {
		if paired, ok := r.pairs.find(from, v.text()); ok {
			return append(dst, paired.json...), true
		}
		// Not converted either: as digits it could become the value that is paired with another one.
		return append(dst, v.raw...), false
	}
	switch {
	case r.isEmpty(v) && digits == number:
		return append(dst, r.empty...), true
	case r.isEmpty(v):
		return append(dst, `""`...), true
	case r.digits:
		return appendDigits(dst, v, digits)
	}
	// A field without a conversion is a string in both forms. In a request it is the upstream's to judge.
	switch {
	case v.kind == number && lenient:
		return appendQuoted(dst, v.raw), true
	case v.kind == text || !lenient:
		return append(dst, v.raw...), true
	}
	return append(dst, v.raw...), false
}

// isEmpty tells whether the row declares a value to stand for nothing: as "", or as the number that is "" in the other form.
// Either is taken from both forms: some v2 backends write their numbers as text, and "" for none.
func (r *row) isEmpty(v value) bool {
	return r.empty != "" && (v.kind == number || v.kind == text) && (v.raw == `""` || v.text() == r.empty)
}

// appendDigits writes a non-negative integer, from a JSON number or a string of digits, as the one or the
// other, character for character.
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

// appendQuoted quotes text that needs no escapes: a number.
func appendQuoted(dst []byte, number string) []byte {
	dst = append(dst, '"')
	dst = append(dst, number...)
	return append(dst, '"')
}
