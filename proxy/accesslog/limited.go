package accesslog

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Limited returns a logger for what every call can repeat, such as an error of a store that is down. It writes a message at most once per
// interval, with the count of its repetitions since the line before.
func Limited(l *slog.Logger, every time.Duration) *slog.Logger {
	return slog.New(&limited{Handler: l.Handler(), every: every})
}

type limited struct {
	slog.Handler
	every time.Duration
	lines sync.Map // *limitedLine, by message
}

type limitedLine struct {
	rate.Sometimes
	count atomic.Int64
}

// Handle implements [slog.Handler].
func (h *limited) Handle(ctx context.Context, r slog.Record) (err error) {
	found, _ := h.lines.LoadOrStore(r.Message, &limitedLine{Sometimes: rate.Sometimes{Interval: h.every}})
	line := found.(*limitedLine)
	line.count.Add(1)
	line.Do(func() {
		r.AddAttrs(slog.Int64("count", line.count.Swap(0)))
		err = h.Handler.Handle(ctx, r)
	})
	return err
}
