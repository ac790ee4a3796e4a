package billing

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"billbridge/translate"

	"github.com/tidwall/gjson"
)

// Hidden stands for a value that is not shown. It does not tell how long the value is.
const Hidden = "•••"

// Mask returns the fields of an explanation as people who operate the gateway may see them. Shown are: bill ids,
// states, codes, amounts and dates, if they look like one, and null, true, false and empty values. Keys, phones,
// names, hashes, numbers of cards and accounts, addresses, texts and the names and values of fields without a row are
// hidden.
func Mask(e *translate.Explanation) []translate.ExplainedField {
	fields := slices.Clone(e.Fields)
	for i := range fields {
		f := &fields[i]
		for _, name := range []*string{&f.Source, &f.Target} {
			if f.Unknown && *name != "" {
				*name = "(unknown field)" // the sender chose it, so it can be a value
			}
		}
		f.Before, f.After = mask(e, f, f.Before), mask(e, f, f.After)
	}
	return fields
}

// mask returns a raw JSON value as it may be shown. An upstream that writes a phone into the field of a code must not
// put it on a page, and a spelling with escapes could hide what is in it.
func mask(e *translate.Explanation, f *translate.ExplainedField, raw string) string {
	content := strings.Trim(raw, `"`)
	isText, single := raw == `"`+content+`"`, gjson.Parse(raw)
	plain := isText && single.Str == content || single.Type == gjson.Number
	switch raw {
	case "", "null", "true", "false", `""`, "{}", "[]":
		return raw
	}
	if plain && !f.Secret && !e.HasSecret(content) && Legible(f.Role, f.Public, content) {
		return raw
	}
	if i := strings.IndexByte(`"{[`, raw[0]); i >= 0 {
		return raw[:1] + Hidden + `"}]`[i:i+1]
	}
	return Hidden
}

// A Reported is the state of the bill that a callback reports.
type Reported struct {
	Word    string // of its form; "" if it has no state that the table knows
	Means   string
	Unknown bool // it has another one
}

// StateIn returns the state of the bill in the body of a callback in a form: the field that has the state in the
// reply of read.
func StateIn(e *translate.Explanation, read *translate.Operation, form translate.Form) (is Reported) {
	path := read.PathOf(translate.Reply, State, form)
	for _, f := range e.Fields {
		if f.Unknown || path == "" || !strings.HasSuffix("."+f.Source, "."+path) {
			continue
		}
		word := gjson.Parse(f.Before).String()
		if means := read.Table().States(State).Of(word, form); means != "" {
			return Reported{Word: strings.Clone(word), Means: means}
		}
		is.Unknown = is.Unknown || word != ""
	}
	return is
}

// What values look like that are shown. Numbers of phones, cards and accounts have only digits, more than an amount or
// a code and fewer than the id of a bill in the interface document. A code is no word, which can be a name: it has at
// most two letters, or a _ or a digit.
var (
	amount = regexp.MustCompile(`^[0-9]{1,9}$`)
	code   = regexp.MustCompile(`^([A-Z][A-Z0-9_]?|[A-Z][A-Z0-9_]*[0-9_][A-Z0-9_]*|[0-9]{1,6})$`)
)

// longest is the number of characters of the longest id and code that is shown.
const longest = 20

// Legible reports whether a value of a field with a role, which holds no personal data if it is public, looks like one
// of such fields, so that it may be shown.
func Legible(role string, public bool, content string) bool {
	switch role {
	case Bill:
		return MaskBill(content) == content
	case Expiry:
		return isTime(content, "2006-01-02", "20060102", "20060102150405")
	case Amount:
		return amount.MatchString(strings.Replace(content, ".", "", 1))
	case "", "approval": // with as: digits: an amount or a date
		return public && (amount.MatchString(content) || isTime(content, "20060102150405"))
	}
	return public && len(content) <= longest && code.MatchString(content)
}

// MaskBill returns the id of a bill as people may see it: hidden if it does not look like one, since a caller can
// write anything there.
func MaskBill(id string) string {
	if id == "" || isBill(id) {
		return id
	}
	return Hidden
}

// isBill is without a regular expression, since each line of the access log has a bill.
func isBill(id string) bool {
	letters, digits := 0, 0
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			letters++
		case '0' <= c && c <= '9':
			digits++
		case c != '_' && c != '-':
			return false
		}
	}
	return len(id) <= longest && (letters > 0 || len(id) == longest || digits == len(id) && digits <= 6)
}

func isTime(text string, layouts ...string) bool {
	return slices.ContainsFunc(layouts, func(layout string) bool {
		_, err := time.Parse(layout, text)
		return err == nil
	})
}
