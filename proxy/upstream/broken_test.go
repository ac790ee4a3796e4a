package upstream

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"billbridge/config"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// replies are what upstreams send, as public bug reports have it, and how the call ends.
var replies = map[string]struct {
	reply  string
	kind   Kind // "" if the reply is read
	detail string
}{
	"nothing":             {"", Closed, ""},
	"a part of the head":  {"HTTP/1.1 200 OK\r\nContent-Le", Truncated, ""},
	"a short body":        {"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}", Truncated, ""},
	"a part of a chunk":   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", Truncated, ""},
	"chunked twice":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", Framing, "Transfer-Encoding, twice"},
	"another encoding":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", Framing, "Transfer-Encoding"},
	"two lengths":         {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", Framing, "Content-Length, twice"},
	"joined lengths":      {"HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\n{}", Framing, "Content-Length"},
	"equal lengths":       {"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\n{}", "", ""},
	"a line of no header": {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nApiKey k-1\r\n\r\n{}", Framing, "a header line without a colon"},
	"a wrong chunk":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", Framing, "its chunks"},
	"no HTTP":             {"+OK ready\r\n", Framing, "the status line"},
	"a large head":        {"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 70<<10) + "\r\nContent-Length: 2\r\n\r\n{}", Framing, "64 KiB"},
	"an unknown coding":   {"HTTP/1.1 200 OK\r\nContent-Encoding: UTF-8\r\nContent-Length: 2\r\n\r\n{}", "", ""},
	"over what is no JSON": {
		"HTTP/1.1 200 OK\r\nContent-Encoding: UTF-8\r\nContent-Length: 2\r\n\r\n{{", NotJSON, "unsupported Content-Encoding",
	},
	"a known coding among others": {
		"HTTP/1.1 200 OK\r\nContent-Encoding: UTF-8, br\r\nContent-Length: 2\r\n\r\n{}", NotJSON, "unsupported Content-Encoding",
	},
	"a known coding": {"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\n{}", NotJSON, "unsupported Content-Encoding"},
}

// A call without a whole reply says how its connection broke off, and nothing of what came.
func TestHowRepliesBreakOff(t *testing.T) {
	t.Parallel()
	for name, c := range replies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
						_, _ = io.Copy(io.Discard, r.Body)
						_, _ = io.WriteString(conn, c.reply)
					}
					_ = conn.(*net.TCPConn).CloseWrite()
					_, _ = io.Copy(io.Discard, conn)
					_ = conn.Close()
				}
			}()
			m := NewMetrics(nil)
			u := New(&config.Upstream{
				Name: "up", Address: config.Address{URL: &url.URL{Scheme: "http", Host: l.Addr().String()}}, Connections: 4, PartnerConnections: 4,
				Timeout: config.Duration(time.Minute), Wait: time.Minute,
			}, "test", m, slog.New(slog.DiscardHandler), nil)
			t.Cleanup(u.pool.CloseIdle)
			r := &Request{Head: u.Head("/bill"), ID: "1", Body: []byte("{}"), Write: true, Reply: new(bytes.Buffer), Limit: 100}
			r.SendCtx = t.Context()
			_, failure := u.Do(t.Context(), r)
			if c.kind == "" {
				if failure != nil || r.Reply.String() != "{}" {
					t.Errorf("%v %q", failure, r.Reply)
				}
				if got := testutil.ToFloat64(m.unknownCodings); got != map[bool]float64{true: 1}[name == "an unknown coding"] {
					t.Errorf("%v unknown codings", got)
				}
				return
			}
			if failure == nil || failure.Kind != c.kind || !failure.Sent || !strings.HasSuffix(failure.Detail, c.detail) || strings.Contains(failure.Detail, "k-1") {
				t.Errorf("%+v", failure)
			}
			if got := testutil.ToFloat64(m.errors.WithLabelValues("up", string(c.kind))); got != 1 {
				t.Errorf("%v are counted", got)
			}
		})
	}
}

// An alert of TLS is named.
func TestAlertIsNamed(t *testing.T) {
	t.Parallel()
	kind, detail := broken(&net.OpError{Op: "remote error", Err: tls.AlertError(80)}, true)
	if kind != TLS || detail != "tls: internal error" {
		t.Error(kind, detail)
	}
}
