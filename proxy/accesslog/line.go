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

// message is the msg of the lines about requests.
const message = "request"

var lines = sync.Pool{New: func() any { return new([]byte) }}

// Write writes a line about a request. It returns when a line of WARN or above is written, or nobody reads the log.
// With a logger whose handler is not a [Handler], or not JSON, the line is a record of log/slog.
func Write(l *slog.Logger, at time.Time, level slog.Level, attrs []slog.Attr) {
	if h, ok := l.Handler().(*Handler); ok && h.json {
		line := lines.Get().(*[]byte)
		*line = append(Append((*line)[:0], at, level, attrs), '\n')
		h.out.log(*line, level >= slog.LevelWarn)
		if cap(*line) <= 4<<10 {
			lines.Put(line)
		}
		return
	}
	r := slog.NewRecord(at, level, message, 0)
	r.AddAttrs(attrs...)
	_ = l.Handler().Handle(context.Background(), r) // as with slog.Logger: there is no place to report an error
}

// Append appends a line about a request in JSON, as [slog.JSONHandler] writes it, with characters that are not
// printable escaped. The names of the attributes are constants with letters and _ only, and the values texts, integers,
// booleans and numbers of milliseconds.
func Append(dst []byte, at time.Time, level slog.Level, attrs []slog.Attr) []byte {
	dst = at.AppendFormat(append(dst, `{"time":"`...), time.RFC3339Nano)
	dst = append(append(append(dst, `","level":"`...), level.String()...), `","msg":"`+message+`"`...)
	for _, a := range attrs {
		dst = append(append(append(dst, `,"`...), a.Key...), `":`...)
		switch a.Value.Kind() {
		case slog.KindString:
			dst = appendQuoted(dst, a.Value.String())
		case slog.KindInt64:
			dst = strconv.AppendInt(dst, a.Value.Int64(), 10)
		case slog.KindFloat64:
			dst = strconv.AppendFloat(dst, a.Value.Float64(), 'f', -1, 64)
		case slog.KindBool:
			dst = strconv.AppendBool(dst, a.Value.Bool())
		}
	}
	return append(dst, '}')
}

// Milliseconds is a time as a number of milliseconds with up to three decimals.
func Milliseconds(name string, value time.Duration) slog.Attr {
	return slog.Float64(name, float64(value.Microseconds())/1000)
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
