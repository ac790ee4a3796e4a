package framing

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

type connKey struct{}

// arrival starts a server that answers whether the request had been read when its handler began, with the body. If it had, the handler reads the
// body after the deadline of its connection. began gets the same before the body is read.
func arrival(t *testing.T, secure bool) (address string, l *listener, began chan bool) {
	t.Helper()
	below, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{IdleAfter: soon}
	if secure {
		o.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
	}
	l, began = Listen(below, o).(*listener), make(chan bool, 10)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			arrived := r.Context().Value(connKey{}).(*conn).RequestRead()
			if arrived {
				_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
			}
			began <- arrived
			body, err := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "%t %s %v", arrived, body, err)
		}),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateIdle {
				Idle(c)
			}
		},
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return below.Addr().String(), l, began
}

// RequestRead is true only if reading the body does not wait: also behind 100-continue, with another request behind it, and on a connection that
// was idle.
func TestRequestRead(t *testing.T) {
	t.Parallel()
	const request = post + "Content-Length: 5\r\n\r\nhello"
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%t", secure), func(t *testing.T) {
			t.Parallel()
			address, l, began := arrival(t, secure)
			c := dial(t, address, secure, "http/1.1")
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			in := bufio.NewReader(c)
			for _, row := range []struct {
				first, rest string // rest is sent when the handler has begun
				arrived     []bool // of each request
			}{
				{request, "", []bool{true}},
				{post + "Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhello", "", []bool{true}},
				{request + request, "", []bool{true, true}},
				{request[:len(request)-1], "o", []bool{false}},
				{request[:len(request)-5], "hello", []bool{false}},
				{request + request[:10], request[10:], []bool{false, true}},
				{post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", "\r\n", []bool{false}},
			} {
				for range 2 { // the second time on a connection that was idle
					_, _ = io.WriteString(c, row.first)
					for i, arrived := range row.arrived {
						if got := <-began; got != arrived {
							t.Errorf("request %d of %q: %t", i, row.first, got)
						}
						if i == 0 {
							_, _ = io.WriteString(c, row.rest)
						}
						response, err := http.ReadResponse(in, nil)
						for err == nil && response.StatusCode == http.StatusContinue {
							response, err = http.ReadResponse(in, nil)
						}
						if err != nil {
							t.Fatal(err)
						}
						answer, _ := io.ReadAll(response.Body)
						if want := fmt.Sprintf("%t hello <nil>", arrived); string(answer) != want {
							t.Errorf("request %d of %q: %s", i, row.first, answer)
						}
					}
					proxytest.Eventually(t, func() bool {
						l.mu.Lock()
						defer l.mu.Unlock()
						return len(l.idle) == 1
					}, func() string { return "the connection is not idle" })
				}
			}
		})
	}
}
