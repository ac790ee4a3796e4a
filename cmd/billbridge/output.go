package main

import (
	"fmt"
	"time"
)

// formatTime formats a time in the local zone.
func formatTime(t time.Time) string { return t.Local().Format(time.RFC3339) }

// formatOptionalTime is formatTime, or "-" for nil.
func formatOptionalTime(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return formatTime(*t)
}

// quoted returns a text from a partner or a backend so that a terminal can show it: quoted if it is empty or has characters
// to escape.
func quoted(text string) string {
	if q := fmt.Sprintf("%q", text); text == "" || q != `"`+text+`"` {
		return q
	}
	return text
}

// forcedSuffix marks a change that was made with --force.
func forcedSuffix(forced bool) string {
	if forced {
		return ", forced"
	}
	return ""
}
