package notify_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// A receiver gets events.
type receiver struct {
	server   *httptest.Server
	requests chan received
	mu       sync.Mutex
	failures int // left
}

type received struct {
	path, body string
	header     http.Header
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{requests: make(chan received, 100)}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.failures--; r.failures >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		r.requests <- received{req.URL.Path, string(body), req.Header}
	}))
	t.Cleanup(r.server.Close)
	return r
}

func (r *receiver) fail(times int) { r.failures = times }

func (r *receiver) next(t testing.TB) received {
	t.Helper()
	select {
	case got := <-r.requests:
		return got
	case <-time.After(proxytest.Patience):
		t.Fatal("no event came")
		panic("unreachable")
	}
}
