package proxy_test

import (
	"strings"
	"testing"
)

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
