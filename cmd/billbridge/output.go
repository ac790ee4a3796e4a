package main

import (
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"billbridge/proxy/rollout"
)

// printf prints to a terminal or a table. Each text among the arguments stays in its line and its column: texts of partners and backends
// are quoted if they have a character that is not printable. All output of the commands goes through printf, except JSON and progress.
func printf(w io.Writer, format string, args ...any) {
	_ = printfErr(w, format, args...) // as with fmt.Fprintf: a command cannot report that it cannot print
}

// printfErr is printf with its error.
func printfErr(w io.Writer, format string, args ...any) error {
	for i, arg := range args {
		kind := reflect.ValueOf(arg).Kind()
		if _, several := arg.(lines); !several && (kind < reflect.Bool || kind > reflect.Float64) { // a number stays one, for %d
			args[i] = printable(fmt.Sprint(arg))
		}
	}
	_, err := fmt.Fprintf(w, format, args...)
	return err
}

// lines is a text of this program that may have several lines.
type lines string

func linesOf(err error) lines { return lines(err.Error()) }

// printable returns a text that a terminal can show in one line: quoted if it has characters that are not printable.
func printable(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return text
	}
	return strconv.Quote(text)
}

// quoted is printable for a value that can be empty or look like a text of this program.
func quoted(text string) string {
	if q := strconv.Quote(text); text == "" || q != `"`+text+`"` {
		return q
	}
	return text
}

// A terminalWriter escapes what a terminal could obey: control characters besides newline and tab, directional formatting, invalid
// UTF-8. It is the last writer before the terminal, so that nothing is forgotten. The escapes are those of JSON, so JSON keeps its meaning.
// A Write must not end inside a character.
type terminalWriter struct{ io.Writer }

func (w terminalWriter) Write(text []byte) (int, error) {
	var out []byte
	done := 0 // text[:done] is in out
	for i := 0; i < len(text); {
		if b := text[i]; b >= ' ' && b < 0x7f || b == '\n' { // nearly all of a log
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if invalid := r == utf8.RuneError && size == 1; invalid || !unicode.IsGraphic(r) && r != '\n' && r != '\t' {
			out = append(out, text[done:i]...)
			switch high, low := utf16.EncodeRune(r); {
			case invalid:
				out = fmt.Appendf(out, `\x%02x`, text[i])
			case high != unicode.ReplacementChar:
				out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
			default:
				out = fmt.Appendf(out, `\u%04x`, r)
			}
			done = i + size
		}
		i += size
	}
	if done == 0 {
		return w.Writer.Write(text)
	}
	if _, err := w.Writer.Write(append(out, text[done:]...)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// formatTime formats a time in the local zone.
func formatTime(t time.Time) string { return t.Local().Format(time.RFC3339) }

// formatOptionalTime is formatTime, or "-" for nil.
func formatOptionalTime(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return formatTime(*t)
}

// forcedSuffix marks a change that was made with --force, with what it has overridden if that is known.
func forcedSuffix(forced bool, overridden ...rollout.ReasonKind) string {
	switch {
	case !forced:
		return ""
	case len(overridden) == 0:
		return ", forced"
	}
	return fmt.Sprintf(", forced %s", strings.Trim(fmt.Sprint(overridden), "[]"))
}
