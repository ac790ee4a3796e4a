package main

import (
	"bytes"
	"log"
	"log/slog"
	"strings"
	"testing"
)

// A message of net/http can quote an upstream's reply. The log must have the event without the text.
func TestR35_StandardLoggerOmitsTheText(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := log.New(&redactedLog{slog.New(newLog(system{err: &out}))}, "", 0)
	l.Printf("Unsolicited response received on idle HTTP channel starting with %q", "canary-key")
	if got := out.String(); strings.Contains(got, "canary") || !strings.Contains(got, `"level":"WARN"`) || strings.Count(got, "\n") != 1 {
		t.Error(got)
	}
}
