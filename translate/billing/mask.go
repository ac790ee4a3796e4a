package billing

import (
	"slices"
	"strings"
	"time"

	"billbridge/translate"

	"github.com/tidwall/gjson"
)

// Hidden stands for a value that is not shown. It does not tell how long the value is.
const Hidden = "•••"

// unknownName stands for the name of a field without a row. The sender chose it, so it can be a value.
const unknownName = "(unknown field)"

// Mask returns the fields of an explanation as people who operate the gateway may see them. Shown are: bill ids,
// states, codes, amounts and dates, if they look like one, and null, true, false and empty values. Keys, phones,
// names, hashes, numbers of cards and accounts, addresses, texts and the names and values of fields without a row are
// hidden.
func Mask(e *translate.Explanation) []translate.ExplainedField {
	fields := slices.Clone(e.Fields)
	for i := range fields {
		f := &fields[i]
		if f.Unknown {
			f.Source, f.Target = maskName(f.Source), maskName(f.Target)
		}
		f.Before, f.After = mask(e, *f, f.Before), mask(e, *f, f.After)
	}
	return fields
}

// A Reported is the state of the bill that a callback reports.
type Reported struct {
	Word    string // of its form; "" if it has no state that the table knows
	Means   string
	Unknown bool // it has another one, or two
}

// StateIn returns the state of the bill in the body of a callback in a form: the field that has the state in the
// reply of read.
func StateIn(e *translate.Explanation, read *translate.Operation, form translate.Form) (is Reported) {
	path := read.PathOf(translate.Reply, State, form)
	for _, f := range e.Fields {
		if f.Unknown || path == "" || f.Source != path && !strings.HasSuffix(f.Source, "."+path) {
			continue
		}
		word := gjson.Parse(f.Before).String()
		if means := read.Table().Meaning(form, State, word); means != "" {
			return Reported{Word: strings.Clone(word), Means: means}
		}
		is.Unknown = is.Unknown || word != ""
	}
	return is
}

func maskName(name string) string {
	if name == "" {
		return ""
	}
	return unknownName
}

// mask returns a raw JSON value as it may be shown.
func mask(e *translate.Explanation, f translate.ExplainedField, raw string) string {
	switch raw {
	case "", "null", "true", "false", `""`, "{}", "[]":
		return raw
	}
	content := gjson.Parse(raw)
	if f.Secret || e.HasSecret(content.String()) || !looksRight(f, content) {
		switch raw[0] {
		case '"':
			return `"` + Hidden + `"`
		case '{':
			return "{" + Hidden + "}"
		case '[':
			return "[" + Hidden + "]"
		}
		return Hidden
	}
	return raw
}

// The longest values that are shown, in characters. Numbers of phones, cards and accounts have more digits than
// amounts and codes.
const (
	longestBill   = 20
	longestAmount = 9
	longestCode   = 6
)

// looksRight reports whether a value may be shown: its field holds such values, and it looks like one. An upstream
// that writes a phone into the field of a code must not put it on a page.
func looksRight(f translate.ExplainedField, v gjson.Result) bool {
	content := v.String()
	switch {
	case v.Type == gjson.Number:
		content = v.Raw
	case v.Type != gjson.String || v.Raw != `"`+content+`"`: // a spelling with escapes could hide what is in it
		return false
	}
	return Legible(f.Role, f.Public, content)
}

// Legible reports whether a value of a field with a role, which holds no personal data if it is public, looks like one
// of such fields, so that it may be shown.
func Legible(role string, public bool, content string) bool {
	switch role {
	case Bill:
		return isBillID(content)
	case Expiry:
		return isTime(content, "2006-01-02", "20060102", "20060102150405")
	case Amount:
		return isNumber(strings.Replace(content, ".", "", 1), longestAmount)
	case "", "approval": // with as: digits: an amount or a date
		return public && (isNumber(content, longestAmount) || isTime(content, "20060102150405"))
	}
	return public && (isCode(content) || isNumber(content, longestCode))
}

// MaskBill returns the id of a bill as people may see it: hidden if it does not look like one, since a caller can
// write anything there.
func MaskBill(id string) string {
	if id == "" || isBillID(id) {
		return id
	}
	return Hidden
}

// isBillID reports whether a text can be the id of a bill. Phones, cards and accounts have only digits, more than a
// code and fewer than the id of a bill in the interface document.
func isBillID(text string) bool {
	if len(text) > longestBill || strings.Trim(text, letters+digits+"-_") != "" {
		return false
	}
	return strings.ContainsAny(text, letters) || len(text) == longestBill || isNumber(text, longestCode)
}

const (
	capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	letters  = capitals + "abcdefghijklmnopqrstuvwxyz"
	digits   = "0123456789"
)

// isCode reports whether a text is a code such as F, CARD_VAN or BILL_002 and not a word, which can be a name: it has
// at most two letters, or a _ or a digit.
func isCode(text string) bool {
	if text == "" || len(text) > 20 || !strings.Contains(capitals, text[:1]) {
		return false
	}
	plain := strings.Trim(text, capitals+digits+"_") == ""
	return plain && (len(text) <= 2 || strings.ContainsAny(text, digits+"_"))
}

func isNumber(text string, longest int) bool {
	return text != "" && len(text) <= longest && strings.Trim(text, digits) == ""
}

func isTime(text string, layouts ...string) bool {
	return slices.ContainsFunc(layouts, func(layout string) bool {
		_, err := time.Parse(layout, text)
		return err == nil
	})
}
