package main

import (
	"fmt"
	"io"
	"log/slog"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// newLogger logs text to a terminal, and JSON otherwise.
func newLogger(s system) *slog.Logger {
	if s.terminal {
		return slog.New(slog.NewTextHandler(s.err, nil)) // which quotes and escapes every text that is not printable
	}
	return slog.New(slog.NewJSONHandler(&printableJSON{s.err}, nil))
}

// printableJSON writes lines of JSON in which every character that is not printable is escaped. The JSON handler leaves some as they
// are: DEL, the control characters of ISO 8859-1, and those that change the direction of text, by which a value can look like another
// when a terminal shows the log.
type printableJSON struct{ to io.Writer }

func (p *printableJSON) Write(line []byte) (int, error) {
	at := 0
	for at < len(line) && (line[at] == '\n' || line[at] >= ' ' && line[at] < 0x7f) {
		at++
	}
	if at == len(line) {
		return p.to.Write(line)
	}
	escaped := append(make([]byte, 0, len(line)+64), line[:at]...)
	for rest := line[at:]; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case r == '\n', r != utf8.RuneError && unicode.IsPrint(r):
			escaped = append(escaped, rest[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, high, low)
		default:
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		}
		rest = rest[size:]
	}
	if _, err := p.to.Write(escaped); err != nil {
		return 0, err
	}
	return len(line), nil
}
