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

func valueOf(r gjson.Result) value { return value{raw: r.Raw, kind: kinds[r.Type]} }

var kinds = [...]kind{
	gjson.Null: null, gjson.False: boolean, gjson.True: boolean, gjson.Number: number, gjson.String: text,
	gjson.JSON: composite,
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
