package proxy_test

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMain holds the whole run to what TestR39 holds one gateway to: nothing runs on when all is closed.
func TestMain(m *testing.M) {
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if left := waitFor(func() bool { return len(runningGoroutines()) == 0 }, runningGoroutines); code == 0 && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines were left:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
		code = 1
	}
	os.Exit(code)
}

// running are the stacks of the goroutines that are neither the runtime's nor the test's own.
func runningGoroutines() []string {
	buf := make([]byte, 4<<20)
	stacks := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	return slices.DeleteFunc(stacks, func(s string) bool {
		return strings.Contains(s, "proxy_test.running") || strings.Contains(s, "testing.") || strings.Contains(s, "os/signal") ||
			strings.Contains(s, "runtime.goexit") && !strings.Contains(s, "net") && !strings.Contains(s, "billbridge")
	})
}

// settle waits until done, for some seconds at most: what was closed needs a moment to end. It returns what is left.
func waitFor[T any](done func() bool, left func() T) T {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(10 * time.Second); !done() && time.Now().Before(deadline); {
		<-ticker.C
	}
	return left()
}

// TestR39_Goroutines: a thousand calls over many connections leave as many goroutines behind as there were before. It
// runs alone: the tests that run side by side wait for it.
func TestR39_Goroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("calls", func(t *testing.T) {
		b := newGateway(t, oneUpstream("v2", newBackend(t, newService()).url))
		var calling sync.WaitGroup
		for c := range 20 {
			calling.Go(func() {
				for range 50 {
					q := newCall(forms[c%2], operations[c%5])
					if _, err := doRequest(b.client, http.MethodPost, b.url+q.path(), q.body()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		calling.Wait()
	})
	if after := waitFor(func() bool { return runtime.NumGoroutine() <= before }, runtime.NumGoroutine); after > before {
		t.Errorf("%d goroutines became %d:\n%s", before, after, strings.Join(runningGoroutines(), "\n\n"))
	}
}
