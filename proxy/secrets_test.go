package proxy_test

import (
	"strings"
	"testing"
)

// The canaries are values of a key, a phone, a name, a hash and a card number that occur nowhere else.
const (
	canaryKey   = "canary-key-5e0b1c"
	canaryPhone = "01000007777"
	canaryName  = "카나리아이름"
	canaryHash  = "ca9a41ca9a41ca9a41ca9a41ca9a41ca9a41ca9a41ca9a41ca9a41ca9a41ca9a"
	canaryCard  = "4518-4299-****-7731"
)

var canaries = []string{canaryKey, canaryPhone, canaryName, canaryHash, canaryCard}

// canaryCalls are calls with the canaries: a valid one, and ones that are refused for other parts of the call.
func canaryCalls(client, op string) []string {
	text := newCall(client, op).with("apiKey", canaryKey).with("memberName", canaryName).with("phone", canaryPhone).body()
	return []string{
		text, text[:len(text)-4], strings.Replace(text, "{", `{"`+canaryKey+`":1,"`+canaryKey+`":2,`, 1),
		strings.Replace(text, "{", `{"`+canaryPhone+`":"`+canaryName+`",`, 1),
		strings.Replace(text, `"`+canaryKey+`"`, `["`+canaryKey+`"]`, 1),
		`{"apiKey":"` + canaryKey + `","apikey":"` + canaryKey + `","bill":"` + canaryPhone + `"}`,
	}
}

// No value that a caller sends ends a line of the log or begins another one.
func TestR36_LogValuesAreEscaped(t *testing.T) {
	t.Parallel()
	b := newBridge(t, "v2")
	evil := "\n{\"msg\":\"request\",\"partner\":\"evil\"}\n\x1b[31m\u202e"
	calls := 0
	for _, op := range operations {
		for _, field := range []string{"apiKey", "member", "billId", "price"} {
			b.send(legacy(op).with(field, evil).with("hash", "x"))
			calls++
		}
		b.post(legacy(op).path(), `{"a\n\nb":1,"a\n\nb":2}`)
		calls++
	}
	equal(t, strings.Count(b.logs.String(), "\n"), calls)
	for line := range strings.Lines(b.logs.String()) {
		equal(t, fields(t, line)["partner"] == "evil" || strings.ContainsAny(line, "\x1b\u202e"), false, line)
	}
}
