package accesslog

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Limited returns a logger for what every call can repeat, such as an error of a store that is down. It writes a
// message at most once per interval, with the count of its repetitions since the line before.
func Limited(l *slog.Logger, every time.Duration) *slog.Logger {
	return slog.New(&limited{Handler: l.Handler(), every: every})
}

type limited struct {
	slog.Handler
	every time.Duration
	lines sync.Map // *limitedLine, by message
}

type limitedLine struct{ last, count atomic.Int64 }

// Handle implements [slog.Handler]. Only the caller whose line is written waits for it.
func (h *limited) Handle(ctx context.Context, r slog.Record) error {
	found, _ := h.lines.LoadOrStore(r.Message, new(limitedLine))
	line := found.(*limitedLine)
	line.count.Add(1)
	now, last := r.Time.UnixNano(), line.last.Load()
	if now-last < int64(h.every) || !line.last.CompareAndSwap(last, now) {
		return nil
	}
	r.AddAttrs(slog.Int64("count", line.count.Swap(0)))
	return h.Handler.Handle(ctx, r)
}
