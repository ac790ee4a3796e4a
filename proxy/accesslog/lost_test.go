package accesslog_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"billbridge/proxy/accesslog"
	"billbridge/proxy/proxytest"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func lost(l *slog.Logger) float64 {
	lost, _ := accesslog.Counters(l)
	return testutil.ToFloat64(lost)
}

// Each line about a panic counts, also one of a logger with attributes.
func TestPanicsAreCounted(t *testing.T) {
	t.Parallel()
	l, _ := open(&writes{}, settings)
	l.Error("panic", "stack", "x")
	l.With("a", 1).WithGroup("b").Error("panic in a probe")
	l.Error("no panic")
	if _, panics := accesslog.Counters(l); testutil.ToFloat64(panics) != 2 {
		t.Errorf("%v panics", testutil.ToFloat64(panics))
	}
}

// Lines that cannot be written are lost and counted, and nobody waits. When the log can be written again, it says so, in a line of its own
// also if the last write ended within a line.
func TestLostLinesAreCountedAndReported(t *testing.T) {
	t.Parallel()
	out := &writes{failing: []int{20, 0, 0}}
	l, _ := open(out, settings)
	request(l, slog.LevelInfo, "1")
	l.Warn("two")
	proxytest.Equal(t, lost(l), 2)
	l.Warn("three")
	proxytest.Equal(t, lost(l), 3)
	l.Warn("four")
	l.Warn("five")
	cut, rest, _ := strings.Cut(out.String(), "\n")
	if len(cut) != 20 {
		t.Errorf("the line that was cut: %q", cut)
	}
	check(t, "the log", ids(t, rest), "lines of the log were lost because it could not be written", "four", "five")
	if !strings.Contains(rest, `"level":"WARN"`) || !strings.Contains(rest, `"count":3,"error":"no space left on device"`) {
		t.Error(rest)
	}
	proxytest.Equal(t, lost(l), 3)
}

// Of a write that fails in part, only the lines that are not in the log count as lost.
func TestLinesBeforeAFailureAreNotLost(t *testing.T) {
	t.Parallel()
	out := &writes{failing: []int{90, 0}} // more than a line, less than two
	l, _ := open(out, settings)
	request(l, slog.LevelInfo, "1")
	request(l, slog.LevelInfo, "2")
	l.Warn("three")
	proxytest.Equal(t, lost(l), 2, out)
	l.Warn("four")
	lines := strings.SplitAfter(out.String(), "\n")
	check(t, "the log", ids(t, lines[0]+strings.Join(lines[2:], "")), "1", "lines of the log were lost because it could not be written", "four")
}

// All requests that wait for a write continue after it, also if there is no other line.
func TestAllWaitingRequestsContinue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &writes{blocked: make(chan struct{})}
		l, _ := open(out, settings)
		var waiting sync.WaitGroup
		for i := range 5 {
			waiting.Go(func() { request(l, slog.LevelWarn, fmt.Sprint(i)) })
			synctest.Wait()
		}
		close(out.blocked)
		waiting.Wait()
		check(t, "the log", ids(t, out.String()), "0", "1", "2", "3", "4")
		proxytest.Equal(t, out.count(), 2)
	})
}
