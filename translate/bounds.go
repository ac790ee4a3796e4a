package translate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// checkBounds checks a value of a request against the bounds of its row. Without all it checks only those that the
// upstream cannot check: one_of, and required on a row of one form.
func (r *mapping) checkBounds(v value, all bool) *Refusal {
	code, reason := r.Refuse, ""
	switch {
	case r.source == "":
	case v.countsAsAbsent():
		if r.Required && (all || r.onlyForm() >= 0) {
			reason = "is missing"
		}
	case r.OneOf != nil && v.kind != text:
		reason = wrongType(strings.Join(r.OneOf, " or "), v.typeName())
	case r.OneOf != nil && !slices.Contains(r.OneOf, v.text()):
		reason = "must be " + strings.Join(r.OneOf, " or ")
	case !all:
	case v.kind == composite:
		code, reason = r.Malformed, wrongType("a single value", v.typeName())
	case r.digits && !isDigits(v.text()):
		code, reason = r.Malformed, wrongType(wholeNumber, v.notDigits())
	case r.digits:
		reason = r.checkNumber(v.text())
	default:
		reason = r.checkLength(v.text())
	}
	if reason == "" {
		return nil
	}
	return &Refusal{code, r.source, reason, false}
}

func (r *row) checkNumber(digits string) string {
	switch {
	case r.Min > 0 && less(digits, r.Min):
		return "must be at least " + strconv.Itoa(r.Min)
	case r.Max > 0 && !less(digits, r.Max+1):
		return "must be at most " + strconv.Itoa(r.Max)
	}
	return ""
}

func (r *row) checkLength(content string) string {
	length := utf8.RuneCountInString(content)
	switch {
	case r.ExactDigits > 0 && (length != r.ExactDigits || !allDigits(content)):
		return fmt.Sprintf("must have exactly %d digits", r.ExactDigits)
	case r.Max > 0 && length > r.Max:
		return fmt.Sprintf("has %d characters, at most %d are allowed", length, r.Max)
	case r.Min > 0 && length < r.Min:
		return fmt.Sprintf("has %d characters, at least %d are needed", length, r.Min)
	}
	return ""
}

// less reports whether an integer of any length, without leading zeros, is less than n.
func less(digits string, n int) bool {
	other := strconv.Itoa(n)
	if len(digits) != len(other) {
		return len(digits) < len(other)
	}
	return digits < other
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

// A reason of a refusal never has the value of a field: it could be a key, a name or a phone, and it ends in logs of
// the caller. wrongType returns the reason for a value of another type. got is a type or a kind of value.
func wrongType(want, got string) string { return "has the wrong type: want " + want + ", got " + got }

// wholeNumber is what a field with as: digits wants.
const wholeNumber = "a whole number in digits"

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
