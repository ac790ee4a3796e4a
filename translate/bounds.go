package translate

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// checkBounds checks a value of a request against the bounds of its row. Without all it checks only those that the
// upstream cannot check: one_of, and required on a row of one form.
func (r *mapping) checkBounds(v value, all bool) *Refusal {
	code, reason := r.Code, Detail{}
	switch {
	case r.source == "":
	case v.countsAsAbsent() || r.isEmpty(v):
		if r.Required && (all || r.onlyForm() >= 0) {
			reason = why(IsMissing)
		}
	case r.oneOf != nil && (v.kind != text || !slices.Contains(r.oneOf, v.text())):
		reason = why("must be one of the texts %v", strings.Join(r.oneOf, ", "))
	case !all || r.items != nil || r.list:
	case v.kind == composite:
		code, reason = r.malformed, why(wantSingle, v.typeName())
	case r.digits && !isDigits(v.text()):
		code, reason = r.malformed, why(wantDigits, v.notDigits())
	case r.digits:
		reason = r.checkNumber(v.text())
	default:
		reason = r.checkLength(v.text())
	}
	if reason.Format == "" {
		return nil
	}
	return &Refusal{code, r.source, reason, v}
}

// checkSpelling refuses a number whose role has one spelling, in another one: 123.0 and 123e0 name what 123 names.
func (p *plan) checkSpelling(values []value) *Refusal {
	for _, slot := range p.checked {
		if v, r := values[slot], p.fields[slot]; v.kind == number && !isDigits(v.text()) {
			return &Refusal{r.malformed, r.source, why(wantDigits, v.notDigits()), v}
		}
	}
	return nil
}

func (r *row) checkNumber(digits string) Detail {
	n, _ := strconv.Atoi(digits) // the greatest one for one that is greater
	switch {
	case n < r.min:
		return why("must be at least %v", r.min)
	case r.max > 0 && n > r.max:
		return why("must be at most %v", r.max)
	}
	return Detail{}
}

func (r *row) checkLength(content string) Detail {
	length := utf8.RuneCountInString(content)
	switch {
	case r.exactDigits > 0 && (length != r.exactDigits || !allDigits(content)):
		return why("must have exactly %v digits", r.exactDigits)
	case r.max > 0 && length > r.max:
		return why("has %v characters, at most %v are allowed", length, r.max)
	case length < r.min:
		return why("has %v characters, at least %v are needed", length, r.min)
	}
	return Detail{}
}

// isDigits reports whether s is a JSON number without sign, fraction, exponent and leading zero.
func isDigits(s string) bool { return s != "" && allDigits(s) && (s[0] != '0' || s == "0") }

func allDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// Reasons for a value of another type, with its type or kind of value. A reason of a refusal never has the value of a
// field: it could be a key, a name or a phone, and it ends in logs of the caller.
const (
	wantObject = "has the wrong type: want an object, got %v"
	wantSingle = "has the wrong type: want a single value, got %v"
	wantList   = "has the wrong type: want an array, got %v"
	wantText   = "has the wrong type: want text like %v, got %v"
	wantNumber = "has the wrong type: want a decimal number that the other form can hold, got %v"
	wantDigits = "has the wrong type: want a whole number in digits, got %v"

	tooManyPlaces = "has more decimal places than %v can hold"
	noCounterpart = "has a value without a counterpart in %v"
)

// notDigits says why a value is not a whole number in digits, without the value.
func (v value) notDigits() string {
	content := v.text()
	switch {
	case v.kind == number && strings.ContainsAny(content, "eE"):
		return "a number with an exponent"
	case v.kind == number && strings.Contains(content, "."):
		return "a number with a fraction"
	case v.kind == number:
		return "a negative number"
	case v.kind == text && content == "":
		return "empty text"
	case v.kind == text && allDigits(content) && v.raw != `"`+content+`"`:
		return "text with escapes"
	case v.kind == text && allDigits(content):
		return "text with a leading zero"
	case v.kind == text:
		return "text with other characters than digits"
	}
	return v.typeName()
}

// typeName returns the JSON type of a value, for the text of a refusal.
func (v value) typeName() string {
	switch {
	case v.kind != composite:
		return v.kind.String()
	case v.raw[0] == '{':
		return "an object"
	}
	return "an array"
}
