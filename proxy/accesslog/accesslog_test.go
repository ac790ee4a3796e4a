package accesslog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/config"
	"billbridge/proxy/accesslog"
	"billbridge/proxy/proxytest"
)

// writes is a destination that keeps each write. With failing set, a write writes only that many bytes, and fails unless it
// can write at least one. With blocked set, a write waits until it can receive from it.
type writes struct {
	mu      sync.Mutex
	all     []string
	failing []int
	blocked chan struct{}
}

var errFull = errors.New("no space left on device")

func (w *writes) Write(p []byte) (n int, err error) {
	if w.blocked != nil {
		<-w.blocked
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n = len(p)
	if len(w.failing) > 0 {
		n, w.failing = min(n, w.failing[0]), w.failing[1:]
		if err = errFull; n == len(p) {
			err = nil
		}
	}
	if n > 0 {
		w.all = append(w.all, string(p[:n]))
	}
	return n, err
}

func (w *writes) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all)
}

func (w *writes) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.all, "")
}

var settings = config.Log{Flush: 100 * time.Millisecond, Buffer: 64 << 10, Level: "info"}

// open returns a logger that writes JSON to out.
func open(out io.Writer, c config.Log) (*slog.Logger, *accesslog.Handler) {
	h := accesslog.New(out, func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) })
	l := slog.New(h)
	accesslog.Use(l, c)
	return l, h
}

func request(l *slog.Logger, level slog.Level, id string) {
	if l.Enabled(context.Background(), level) {
		accesslog.Write(l, time.Now(), level, []slog.Attr{slog.String("id", id)})
	}
}

// ids returns the ids of the lines of requests and the messages of the others, in their order. A line that is not JSON is an error.
func ids(t *testing.T, log string) (got []string) {
	t.Helper()
	for line := range strings.Lines(log) {
		var record struct{ Msg, ID string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if record.Msg == "request" {
			record.Msg = record.ID
		}
		got = append(got, record.Msg)
	}
	return got
}

func check(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestLinesOfRequestsAreWrittenTogetherAfterFlush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &writes{}
		l, _ := open(out, settings)
		for round := range 3 { // the timer starts again
			request(l, slog.LevelInfo, "1")
			time.Sleep(60 * time.Millisecond)
			request(l, slog.LevelInfo, "2")
			time.Sleep(39 * time.Millisecond)
			if got := out.count(); got != round {
				t.Fatalf("%d writes before the time of flush, want %d", got, round)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if got := out.count(); got != round+1 {
				t.Fatalf("%d writes after the time of flush, want %d", got, round+1)
			}
		}
		check(t, "the log", ids(t, out.String()), "1", "2", "1", "2", "1", "2")
	})
}

func TestOtherLinesAreWrittenAtOnceInTheOrderOfTheEvents(t *testing.T) {
	t.Parallel()
	out := &writes{}
	c := settings
	c.Flush = 10 * time.Second
	l, h := open(out, c)
	request(l, slog.LevelInfo, "1")
	check(t, "an INFO line", ids(t, out.String()))
	request(l, slog.LevelWarn, "2")
	check(t, "a WARN line", ids(t, out.String()), "1", "2")
	request(l, slog.LevelInfo, "3")
	l.Info("started")
	check(t, "another INFO line", ids(t, out.String()), "1", "2", "3", "started")
	request(l, slog.LevelInfo, "4")
	l.With("a", 1).WithGroup("g").Error("failed", "b", 2)
	check(t, "an ERROR line", ids(t, out.String()), "1", "2", "3", "started", "4", "failed")
	request(l, slog.LevelInfo, "5")
	h.Close()
	request(l, slog.LevelInfo, "6")
	check(t, "after Close", ids(t, out.String()), "1", "2", "3", "started", "4", "failed", "5", "6")
	if !strings.Contains(out.String(), `"msg":"failed","a":1,"g":{"b":2}}`) {
		t.Errorf("attributes are lost: %s", out)
	}
}

func TestAWriteHasWholeLinesAndAtMostHalfOfTheBuffer(t *testing.T) {
	t.Parallel()
	out := &writes{}
	c := settings
	c.Flush, c.Buffer = 10*time.Second, 8<<10
	l, h := open(out, c)
	var want []string
	for i := range 1000 {
		id := fmt.Sprint(i)
		if i == 500 {
			id += strings.Repeat("x", 5000) // more than half of the buffer
		}
		want = append(want, id)
		request(l, slog.LevelInfo, id)
	}
	h.Close()
	check(t, "the log", ids(t, out.String()), want...)
	for _, w := range out.all {
		if !strings.HasSuffix(w, "}\n") || !strings.HasPrefix(w, "{") {
			t.Errorf("a write has a part of a line: %q", w)
		}
		if len(w) > 4<<10 && strings.Count(w, "\n") > 1 {
			t.Errorf("a write has %d bytes", len(w))
		}
	}
	if got := out.count(); got > 40 {
		t.Errorf("%d writes for 1000 lines", got)
	}
}

// While a write is blocked, requests continue until the buffer is full, and then wait for two seconds. Then nobody waits,
// lines of requests are lost, and those of WARN are kept. When the write ends, all is as before.
func TestRequestsWaitTwoSecondsForABlockedLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &writes{blocked: make(chan struct{})}
		c := settings
		c.Buffer = 8 << 10
		l, h := open(out, c)
		line := len(`{"time":"2000-01-01T00:00:00.0000001Z","level":"INFO","msg":"request","id":"000"}` + "\n")
		var want []string
		done := make(chan struct{})
		logged := 0
		go func() {
			defer close(done)
			for i := range 300 {
				request(l, slog.LevelInfo, fmt.Sprintf("%03d", i))
				logged++
			}
		}()
		time.Sleep(2*time.Second - 1)
		synctest.Wait() // all are blocked
		held := logged
		if bytes := held * line; bytes < 6<<10 || bytes > 8<<10+1000 || accesslog.Unread(l) {
			t.Errorf("%d bytes are held, want about 8 KiB; unread: %t", bytes, accesslog.Unread(l))
		}
		time.Sleep(time.Nanosecond)
		<-done
		began := time.Now()
		request(l, slog.LevelWarn, "unknown")
		l.Error("error")
		l.With("a", strings.Repeat("x", 2<<20)).Error("too long")
		time.Sleep(time.Hour) // the timer does not add a second write
		if took := time.Since(began) - time.Hour; took > 0 || !accesslog.Unread(l) {
			t.Errorf("calls waited for %s; unread: %t", took, accesslog.Unread(l))
		}
		for i := range held {
			want = append(want, fmt.Sprintf("%03d", i))
		}
		want = append(want, "unknown", "error", "lines of the log were lost because it could not be written")
		proxytest.Equal(t, lost(l), float64(300-held+1))
		close(out.blocked)
		synctest.Wait()
		check(t, "the log", ids(t, out.String()), want...)
		report := fmt.Sprintf(`"count":%d,"error":"nobody has read it for 1h0m2s"`, 300-held+1)
		if !strings.Contains(out.String(), report) || accesslog.Unread(l) {
			t.Errorf("no %s in %s; unread: %t", report, out, accesslog.Unread(l))
		}
		l.Warn("read")
		check(t, "the log", ids(t, out.String()), append(want, "read")...)
		h.Close()
	})
}

func TestAShortWriteIsContinued(t *testing.T) {
	t.Parallel()
	out := &writes{failing: []int{10, 1, 50}}
	l, h := open(out, settings)
	request(l, slog.LevelInfo, "1")
	request(l, slog.LevelInfo, "2")
	h.Close()
	check(t, "the log", ids(t, out.String()), "1", "2")
	proxytest.Equal(t, out.count(), 4)
	proxytest.Equal(t, lost(l), 0)
}

func TestUseChangesLevelAndBuffer(t *testing.T) {
	t.Parallel()
	out := &writes{}
	c := settings
	c.Flush = 10 * time.Second
	l, h := open(out, c)
	defer h.Close()
	request(l, slog.LevelInfo, "1")
	c.Flush = 0
	accesslog.Use(l, c)
	check(t, "what was in the buffer", ids(t, out.String()), "1")
	request(l, slog.LevelInfo, "2")
	check(t, "without a buffer", ids(t, out.String()), "1", "2")
	c.Level = "warn"
	accesslog.Use(l, c)
	request(l, slog.LevelInfo, "3")
	l.Info("info")
	l.Warn("warn")
	request(l, slog.LevelWarn, "4")
	c.Level = "error"
	accesslog.Use(l, c)
	request(l, slog.LevelWarn, "5")
	l.Error("error")
	check(t, "levels", ids(t, out.String()), "1", "2", "warn", "4", "error")
	other := slog.New(slog.NewTextHandler(io.Discard, nil))
	accesslog.Use(other, c) // without effect
	if !other.Enabled(t.Context(), slog.LevelInfo) || lost(other) != 0 {
		t.Error("another handler was changed")
	}
}

// A reload from a long time of flush to a short one holds from the next line on.
func TestAShorterFlushHoldsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &writes{}
		c := settings
		c.Flush = 10 * time.Second
		l, _ := open(out, c)
		request(l, slog.LevelInfo, "1")
		accesslog.Use(l, settings)
		request(l, slog.LevelInfo, "2")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		check(t, "the log", ids(t, out.String()), "1", "2")
	})
}

// Lines of many goroutines, with reloads: each is in the log once, in the order of its goroutine.
func TestConcurrentLines(t *testing.T) {
	t.Parallel()
	out := &writes{}
	c := settings
	c.Flush, c.Buffer = time.Millisecond, 8<<10
	l, h := open(out, c)
	const callers, each = 16, 500
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%d/%d", caller, i)
				switch rand.IntN(20) {
				case 0:
					request(l, slog.LevelWarn, id)
				case 1:
					l.Info(id)
				case 2:
					accesslog.Use(l, config.Log{Flush: time.Duration(rand.IntN(3)) * time.Millisecond, Buffer: 8 << 10 << rand.IntN(3), Level: "info"})
					fallthrough
				default:
					request(l, slog.LevelInfo, id)
				}
			}
		})
	}
	all.Wait()
	h.Close()
	next := make([]int, callers)
	for _, id := range ids(t, out.String()) {
		var caller, i int
		if _, err := fmt.Sscanf(id, "%d/%d", &caller, &i); err != nil || i != next[caller] {
			t.Fatalf("%s, want %d of this caller (%v)", id, next[caller], err)
		}
		next[caller]++
	}
	for caller, n := range next {
		if n != each {
			t.Errorf("%d lines of caller %d, want %d", n, caller, each)
		}
	}
}

// A line is the same in JSON of this package and as a record of log/slog.
func TestALineIsAsLogSlogWritesIt(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 9, 8, 7, 60_000, time.FixedZone("KST", 9*3600))
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		for _, took := range []time.Duration{0, time.Microsecond, 999 * time.Nanosecond, 120 * time.Microsecond, 12345678 * time.Microsecond, 30 * time.Hour} {
			var want, got bytes.Buffer
			l, h := open(&got, settings)
			for _, l := range []*slog.Logger{l, slog.New(slog.NewJSONHandler(&want, nil))} {
				accesslog.Write(l, at, level, []slog.Attr{
					slog.String("text", `a "text" with \ and <&> 결제 `+"\t\n\r\x01\xff"), slog.String("empty", ""), slog.Int("status", -200),
					accesslog.Milliseconds("ms", took), slog.Bool("gone", true), slog.Bool("here", false),
				})
			}
			h.Close()
			if got.String() != want.String() {
				t.Errorf("got\n%swant\n%s", got.String(), want.String())
			}
		}
	}
}
