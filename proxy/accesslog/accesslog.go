// Package accesslog writes the log of the gateway: one line for each request, and all other lines of log/slog.
//
//	h := accesslog.New(os.Stderr, func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) })
//	defer h.Close()
//	logger := slog.New(h)
//	accesslog.Use(logger, checked.Log) // at the start and after each reload
//
//	accesslog.Write(logger, now, slog.LevelInfo, []slog.Attr{slog.String("id", id)})
//
// Lines of requests below WARN are collected and written together: when half of the buffer is full, or Flush after
// the first of them. Every other line is written before the call that logs it returns, after all lines before it. So
// the lines are in the order of the events, and a process that is killed loses only lines of requests below WARN.
//
// While the destination does not take the lines, calls that log wait for patience at most, and lines without room are
// lost. If a write fails, its lines are lost, and calls do not wait. Lost lines are counted, and the log says how many
// they were when it can be written again.
package accesslog

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"time"

	"billbridge/config"

	"github.com/prometheus/client_golang/prometheus"
)

// A Handler is a [slog.Handler] that writes whole lines through a buffer. It is safe for concurrent use.
type Handler struct {
	format slog.Handler // writes its lines to out
	json   bool         // format writes JSON, without more attributes or groups
	level  *slog.LevelVar
	out    *writer
}

// New returns a handler with level INFO and without a buffer, until [Use] changes that. format returns the handler that
// formats the lines; its level does not matter.
func New(out io.Writer, format func(io.Writer) slog.Handler) *Handler {
	w := newWriter(out)
	h := &Handler{format: format(lineWriter{w}), level: new(slog.LevelVar), out: w}
	_, h.json = h.format.(*slog.JSONHandler)
	w.reportLoss = func(count int, err error) []byte {
		var line bytes.Buffer
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "lines of the log were lost because it could not be written", 0)
		r.AddAttrs(slog.Int("count", count), slog.String("error", err.Error()))
		_ = format(&line).Handle(context.Background(), r) // a buffer takes everything
		return line.Bytes()
	}
	return h
}

// lineWriter is the output of Handler.format.
type lineWriter struct{ *writer }

func (w lineWriter) Write(line []byte) (int, error) {
	w.add(line)
	return len(line), nil
}

// Enabled implements [slog.Handler].
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

// Handle implements [slog.Handler]. It returns when the line is written, or nobody reads the log. Wherever a panic is
// recovered, its line begins with the word.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "panic") {
		h.out.panics.Inc()
	}
	err := h.format.Handle(ctx, r)
	h.out.flush() // not within format.Handle, which holds a lock
	return err
}

// WithAttrs implements [slog.Handler].
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.format.WithAttrs(attrs), false, h.level, h.out}
}

// WithGroup implements [slog.Handler].
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.format.WithGroup(name), false, h.level, h.out}
}

// Close writes the lines of the buffer. Lines that follow are written at once.
func (h *Handler) Close() { h.out.configure(0, 0) }

// Use sets the level and the buffer of a logger. It has no effect on a logger whose handler is not a [Handler].
func Use(l *slog.Logger, c config.Log) {
	if h, ok := l.Handler().(*Handler); ok {
		h.level.Set(c.Level.Slog())
		h.out.configure(c.Flush, c.Buffer)
	}
}

// Unread reports whether nobody reads the log of a logger: its destination, such as a pipe, has not taken a write for
// so long that calls do not wait for it.
func Unread(l *slog.Logger) bool {
	h, ok := l.Handler().(*Handler)
	return ok && h.out.isUnread()
}

// Counters returns the counters of the lines that a logger could not write, and of its lines about panics.
func Counters(l *slog.Logger) (lost, panics prometheus.Counter) {
	if h, ok := l.Handler().(*Handler); ok {
		return h.out.lost, h.out.panics
	}
	return newCounters()
}

func newCounters() (lost, panics prometheus.Counter) {
	lost = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "billbridge_log_lines_lost_total",
		Help: "Lines of the log that were lost because it could not be written.",
	})
	panics = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "billbridge_panics_total",
		Help: "Panics, each with a line of the log that has the stack. They are faults of the gateway.",
	})
	return lost, panics
}
