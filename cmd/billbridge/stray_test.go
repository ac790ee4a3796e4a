package main

import (
	"bytes"
	"log"
	"strings"
	"testing"
)

// R35: what net/http says to the standard logger may quote an upstream's reply. The event is told, its words are not.
func TestR35_StrayWordsAreLeftOut(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := log.New(&redactedLog{newLogger(system{err: &out})}, "", 0)
	l.Printf("Unsolicited response received on idle HTTP channel starting with %q", "canary-key")
	if got := out.String(); strings.Contains(got, "canary") || !strings.Contains(got, `"level":"WARN"`) || strings.Count(got, "\n") != 1 {
		t.Error(got)
	}
}
