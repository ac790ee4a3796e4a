package proxy_test

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// TestMain fails if goroutines are left after all tests of the package.
func TestMain(m *testing.M) {
	code := proxytest.Tests{M: m}.Run()
	http.DefaultClient.CloseIdleConnections()
	if left := waitFor(func() bool { return len(runningGoroutines()) == 0 }, runningGoroutines); code == 0 && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines were left:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
		code = 1
	}
	os.Exit(code)
}

// runningGoroutines returns the stacks of the goroutines that neither the runtime nor the testing package started.
func runningGoroutines() []string {
	buf := make([]byte, 4<<20)
	stacks := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	return slices.DeleteFunc(stacks, func(s string) bool {
		return strings.Contains(s, "proxy_test.running") || strings.Contains(s, "testing.") || strings.Contains(s, "os/signal") ||
			strings.Contains(s, "runtime.goexit") && !strings.Contains(s, "net") && !strings.Contains(s, "billbridge")
	})
}

// waitFor polls done for at most 10 seconds and then returns left(). Goroutines of closed connections need a moment to
// end.
func waitFor[T any](done func() bool, left func() T) T {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(10 * time.Second); !done() && time.Now().Before(deadline); {
		<-ticker.C
	}
	return left()
}
