package proxy_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"billbridge/proxy"
	"billbridge/proxy/admission"
	"billbridge/proxy/proxytest"

	"github.com/prometheus/client_golang/prometheus"
)

// A emptyWriter is a ResponseWriter that keeps nothing but the status.
type emptyWriter struct {
	header http.Header
	status int
}

func (w *emptyWriter) Header() http.Header         { return w.header }
func (w *emptyWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *emptyWriter) WriteHeader(status int)      { w.status = status }

// A rereadBody is a body that the benchmark reads again for each call.
type rereadBody struct{ strings.Reader }

func (*rereadBody) Close() error { return nil }

// A readConn is a connection from which the whole request has been read.
type readConn struct{ net.Conn }

func (readConn) RequestRead() bool { return true }

// BenchmarkRead measures what the gateway adds to net/http in one read, with log and metrics: the handler alone,
// with an upstream that costs nothing. Its allocations are those of the gateway and of the connection to the
// upstream.
func BenchmarkRead(b *testing.B) {
	for _, client := range forms {
		b.Run(client+" from v2", func(b *testing.B) { benchmarkRead(b, client) })
	}
}

func benchmarkRead(b *testing.B, client string) {
	service := newService()
	prepareBill(b, service, stateBefore["read"], demoBill)
	direct := httptest.NewRecorder()
	q := v2("read")
	service.ServeHTTP(direct, q.request())
	gateway, err := proxy.New(proxytest.Config(b, oneUpstream("v2", canned(b, direct.Body.String()))), proxy.Options{
		Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)),
	})
	must(b, err)
	defer gateway.Close()
	q = newCall(client, "read")
	text, body, w := q.body(), new(rereadBody), &emptyWriter{header: http.Header{}}
	ctx, cancel := context.WithCancel(admission.WithConn(b.Context(), readConn{})) // as net/http has one
	defer cancel()
	r := httptest.NewRequest("POST", q.path(), body).WithContext(ctx)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = int64(len(text))
	b.ReportAllocs()
	for b.Loop() {
		body.Reset(text)
		clear(w.header)
		gateway.ServeHTTP(w, r)
		if w.status != 200 {
			b.Fatal(w.status)
		}
	}
}

// canned returns the URL of an upstream that answers every request with the same JSON, and allocates nothing for it.
func canned(t testing.TB, body string) (url string) {
	t.Helper()
	reply := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", len(body), body)
	return "http://" + proxytest.Listen(t, func(c net.Conn) {
		request := make([]byte, 64<<10)
		for {
			if n, err := c.Read(request); err != nil || n == len(request) { // a small request arrives in one piece
				return
			}
			if _, err := c.Write(reply); err != nil {
				return
			}
		}
	})
}
