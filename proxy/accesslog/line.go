package accesslog

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// A Line is a line about a request. Its methods add a field; End adds the line to the log. After End it must not be
// used. Names are constants with letters and _ only. In JSON a line is exactly as [slog.JSONHandler] writes it, with
// characters that are not printable escaped.
type Line struct {
	log   slog.Handler
	at    time.Time
	level slog.Level
	attrs []slog.Attr
	text  []byte
}

// message is the msg of the lines about requests.
const message = "request"

var lines = sync.Pool{New: func() any { return new(Line) }}

// Start starts a line, or returns nil if the logger does not log the level. With a logger whose handler is not a
// [Handler], or not JSON, the line is a record of log/slog.
func Start(l *slog.Logger, at time.Time, level slog.Level) *Line {
	handler := l.Handler()
	if !handler.Enabled(context.Background(), level) {
		return nil
	}
	line := lines.Get().(*Line)
	line.log, line.at, line.level = handler, at, level
	return line
}

// String adds a text.
func (l *Line) String(name, value string) { l.attrs = append(l.attrs, slog.String(name, value)) }

// Int adds a number.
func (l *Line) Int(name string, value int) { l.attrs = append(l.attrs, slog.Int(name, value)) }

// Milliseconds adds a time as a number of milliseconds with up to three decimals.
func (l *Line) Milliseconds(name string, value time.Duration) {
	l.attrs = append(l.attrs, slog.Float64(name, float64(value.Microseconds())/1000))
}

// Bool adds true or false.
func (l *Line) Bool(name string, value bool) { l.attrs = append(l.attrs, slog.Bool(name, value)) }

// End adds the line to the log. It returns when a line of WARN or above is written, or nobody reads the log.
func (l *Line) End() {
	if h, ok := l.log.(*Handler); ok && h.json {
		l.format()
		h.out.log(l.text, l.level >= slog.LevelWarn)
	} else {
		r := slog.NewRecord(l.at, l.level, message, 0)
		r.AddAttrs(l.attrs...)
		_ = l.log.Handle(context.Background(), r) // as with slog.Logger: there is no place to report an error
	}
	clear(l.attrs)
	l.log, l.attrs = nil, l.attrs[:0]
	if cap(l.text) <= 4<<10 {
		lines.Put(l)
	}
}

// format writes the line as JSON to text.
func (l *Line) format() {
	text := l.at.AppendFormat(append(l.text[:0], `{"time":"`...), time.RFC3339Nano)
	text = append(append(append(text, `","level":"`...), l.level.String()...), `","msg":"`+message+`"`...)
	for _, a := range l.attrs {
		text = append(append(append(text, `,"`...), a.Key...), `":`...)
		switch a.Value.Kind() {
		case slog.KindString:
			text = appendQuoted(text, a.Value.String())
		case slog.KindInt64:
			text = strconv.AppendInt(text, a.Value.Int64(), 10)
		case slog.KindFloat64:
			text = strconv.AppendFloat(text, a.Value.Float64(), 'f', -1, 64)
		case slog.KindBool:
			text = strconv.AppendBool(text, a.Value.Bool())
		}
	}
	l.text = append(text, "}\n"...)
}

// appendQuoted appends a JSON string without characters that are not printable.
func appendQuoted(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return append(appendEscaped(append(dst, text[:i]...), text[i:]), '"')
		}
	}
	dst = append(dst, text...)
	return append(dst, '"')
}

// appendEscaped appends text with the escapes of JSON. A character that is not printable gets one, and invalid UTF-8
// that of U+FFFD.
func appendEscaped(dst []byte, text string) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == utf8.RuneError && size == 1 || !unicode.IsGraphic(r) && r <= 0xffff:
			dst = appendEscape(dst, r)
		case !unicode.IsGraphic(r):
			high, low := utf16.EncodeRune(r)
			dst = appendEscape(appendEscape(dst, high), low)
		default:
			dst = append(dst, text[:size]...)
		}
		text = text[size:]
	}
	return dst
}

func appendEscape(dst []byte, unit rune) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[unit>>12], digits[unit>>8&15], digits[unit>>4&15], digits[unit&15])
}
