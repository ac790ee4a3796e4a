package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

// newStackLink returns an address whose connections lead to another one, as over a network: everything, also an end,
// takes a time. So a stack can send on a connection that the gateway has closed already.
func newStackLink(t *testing.T, takes time.Duration, to string) (address string, connections *atomic.Int64) {
	t.Helper()
	connections = new(atomic.Int64)
	return proxytest.Listen(t, func(caller net.Conn) {
		connections.Add(1)
		gateway, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		var sending sync.WaitGroup
		sending.Go(func() { delay(gateway, caller, takes) })
		delay(caller, gateway, takes)
		sending.Wait()
	}), connections
}

// delay copies from a connection to another one until it ends, and ends both.
func delay(to, from net.Conn, takes time.Duration) {
	type part struct {
		data []byte
		due  time.Time
	}
	parts := make(chan part, 100)
	go func() {
		defer close(parts)
		for buffer := make([]byte, 32<<10); ; {
			n, err := from.Read(buffer)
			parts <- part{bytes.Clone(buffer[:n]), time.Now().Add(takes)}
			if err != nil {
				return
			}
		}
	}()
	for p := range parts {
		<-time.After(time.Until(p.due))
		_, _ = to.Write(p.data)
	}
	_ = to.Close()
	_ = from.Close()
}

// A countingBackend is a sandbox that counts the creates of each bill.
type countingBackend struct {
	*sandbox.Service
	url string

	mu      sync.Mutex
	creates map[string][]string // by bill: X-Request-Id, which the gateway gives to each request of a stack
	gate    chan struct{}       // creates wait until it is closed
	waiting atomic.Int64
	over    <-chan struct{} // the test has ended
}

func newCountingBackend(t *testing.T) *countingBackend {
	t.Helper()
	b := &countingBackend{
		Service: sandbox.New(sandbox.Options{}), creates: map[string][]string{},
		gate: make(chan struct{}), over: t.Context().Done(),
	}
	close(b.gate)
	server := httptest.NewServer(b)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close(); _ = b.Close() })
	b.url = server.URL
	return b
}

func (b *countingBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == operationPath("v2", "create") {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		bill := billRefOf(body).bill
		b.mu.Lock()
		b.creates[bill] = append(b.creates[bill], r.Header.Get("X-Request-Id"))
		gate := b.gate
		b.mu.Unlock()
		b.waiting.Add(1)
		select {
		case <-gate:
		case <-b.over:
		}
		b.waiting.Add(-1)
	}
	b.Service.ServeHTTP(w, r)
}

// hold makes creates wait at the backend until release is called.
func (b *countingBackend) hold() (release func()) {
	gate := make(chan struct{})
	b.mu.Lock()
	b.gate = gate
	b.mu.Unlock()
	return sync.OnceFunc(func() { close(gate) })
}

// judge counts what reached the backend of the bills of a row.
func (b *countingBackend) judge(r *stackRow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for bill, told := range r.bills {
		requests, all := map[string]bool{}, b.creates[bill]
		for _, id := range all {
			requests[id] = true
		}
		if len(requests) < len(all) {
			r.doubled++
		}
		if len(requests) > 1 {
			r.repeated++
		}
		if _, err := b.Bill(trialKey, bill); told && err != nil {
			r.lost++
		}
	}
}
