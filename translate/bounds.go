package translate

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// checkBounds checks a value of a request against the bounds of its row. Without all it checks only those that the upstream cannot
// check: one_of, and required on a row of one form.
func (r *row) checkBounds(v value, path string, all bool) *Refusal {
	if v.countsAsAbsent() {
		if r.required && (all || r.onlyForm() >= 0) {
			return &Refusal{r.refuse, path, "is missing"}
		}
		return nil
	}
	if r.oneOf != nil && (v.kind != text || !slices.Contains(r.oneOf, v.text())) {
		return &Refusal{r.refuse, path, "must be " + strings.Join(r.oneOf, " or ") + ", but is " + display(v)}
	}
	if !all {
		return nil
	}
	if v.kind == composite {
		return &Refusal{r.malformed, path, "must be a single value, but is " + v.typeName()}
	}
	content := v.text()
	if r.digits {
		switch {
		case !isDigits(content):
			return &Refusal{r.malformed, path, "must be a whole number in digits, but is " + display(v)}
		case r.min > 0 && less(content, r.min):
			return &Refusal{r.refuse, path, "must be at least " + strconv.Itoa(r.min) + ", but is " + display(v)}
		case r.max > 0 && !less(content, r.max+1):
			return &Refusal{r.refuse, path, "must be at most " + strconv.Itoa(r.max) + ", but is " + display(v)}
		}
		return nil
	}
	length := utf8.RuneCountInString(content)
	switch {
	case r.exactDigits > 0 && (length != r.exactDigits || !allDigits(content)):
		return &Refusal{r.refuse, path, "must have exactly " + strconv.Itoa(r.exactDigits) + " digits"}
	case r.max > 0 && length > r.max:
		return &Refusal{r.refuse, path, "has " + strconv.Itoa(length) + " characters, at most " + strconv.Itoa(r.max) + " are allowed"}
	case r.min > 0 && length < r.min:
		return &Refusal{r.refuse, path, "has " + strconv.Itoa(length) + " characters, at least " + strconv.Itoa(r.min) + " are needed"}
	}
	return nil
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

// display returns a value for the text of a refusal. If only the type is wrong, use typeName instead: the value may be a secret.
func display(v value) string {
	if v.kind == composite {
		return v.typeName()
	}
	return shorten(v.raw)
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
