package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"billbridge/proxy/proxytest"
)

// A rawUpstream counts the complete requests that it reads and closes connections as a test wants. end gets the number
// of the request on its connection, from 1, and returns whether to answer it and whether to close the connection after
// it.
type rawUpstream struct {
	url      string
	requests atomic.Int64
	closed   chan struct{} // one for each connection that was closed
}

func newRawUpstream(t testing.TB, end func(n int) (answer, closes bool)) *rawUpstream {
	t.Helper()
	u := &rawUpstream{closed: make(chan struct{}, 1000)}
	u.url = "http://" + proxytest.Listen(t, func(conn net.Conn) {
		defer func() { _ = conn.Close(); u.closed <- struct{}{} }()
		reader := bufio.NewReader(conn)
		for n := 1; ; n++ {
			r, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			if _, err = io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			u.requests.Add(1)
			answer, closes := end(n)
			if answer {
				text := `{"code":"BILL_003","message":"x","data":null}`
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(len(text))+"\r\n\r\n"+text)
			}
			if closes {
				return
			}
		}
	})
	return u
}

// replayHeaders are headers with which Go's transport would send a POST a second time.
var replayHeaders = map[string][]string{
	"plain": nil, "Idempotency-Key": {"Idempotency-Key", "1"}, "X-Idempotency-Key": {"X-Idempotency-Key", "1"},
}

// An upstream reads a request and closes the connection without an answer, on a new connection and on a reused one. It
// gets each write and each read once, and the outcome of a write is unknown.
func TestR23_NoWriteIsSentTwice(t *testing.T) {
	t.Parallel()
	for name, headers := range replayHeaders {
		for _, op := range operations {
			for reused := range 3 {
				parallel(t, strings.Join([]string{name, op, strconv.Itoa(reused)}, "/"), func(t *testing.T) {
					var calls atomic.Int64 // of all connections: a write has one of its own
					up := newRawUpstream(t, func(int) (bool, bool) {
						n := calls.Add(1)
						return n <= int64(reused), n > int64(reused)
					})
					b := newGatewayTo(t, "v2", up)
					for range reused {
						b.expect(legacy(op), noSuchBill)
					}
					want := unknown
					if !isWrite(op) {
						want = brokenRead
					}
					b.send(legacy(op), headers...).check(t, "legacy", want)
					equal(t, up.requests.Load(), int64(reused+1), reused+1)
				})
			}
		}
	}
}

// An upstream closes connections after its answers without announcing it. It gets every call at most once; the answer
// may be an unknown outcome or a refusal.
func TestR23_ClosedIdleConnections(t *testing.T) {
	t.Parallel()
	for name, headers := range replayHeaders {
		parallel(t, name, func(t *testing.T) {
			up := newRawUpstream(t, func(int) (bool, bool) { return true, true })
			b := newGatewayTo(t, "v2", up)
			answered := int64(0)
			for range 50 {
				got := b.send(legacy("create"), headers...)
				switch code := codeOf(t, "legacy", got.body); {
				case got.status == 200 && code == "BILL_003":
					answered++
				case got.status == 502 && code == "null", got.status == 503 && code == "MAINTAINED_METHOD":
				default:
					t.Errorf("%d %s", got.status, got.body)
				}
			}
			if n := up.requests.Load(); n > 50 || n < answered {
				t.Errorf("the upstream read %d requests for 50 calls, %d of them answered", n, answered)
			}
		})
	}
}

// When its caller disconnects, a read is cancelled at the upstream. A write is completed, and the log has its outcome.
func TestR27_DisconnectCancelsReadsNotWrites(t *testing.T) {
	t.Parallel()
	for _, op := range operations {
		parallel(t, op, func(t *testing.T) {
			arrived, ended, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{})
			service := newService()
			prepareBill(t, service, stateBefore[op], demoBill)
			back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
				close(arrived)
				if isWrite(op) {
					<-goOn
					service.ServeHTTP(w, r)
					return
				}
				<-r.Context().Done()
				close(ended)
			})
			b := newGatewayTo(t, "v2", back)
			ctx, leave := context.WithCancel(context.Background())
			q := legacy(op)
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, b.url+q.path(), strings.NewReader(q.body()))
			gone := make(chan error, 1)
			go func() {
				res, err := b.client.Do(r)
				if err == nil {
					_ = res.Body.Close()
				}
				gone <- err
			}()
			receive(t, arrived, "call at the upstream")
			leave()
			if err := receive(t, gone, "end of the call"); err == nil {
				t.Fatal("the caller got an answer")
			}
			if isWrite(op) {
				close(goOn)
			} else {
				receive(t, ended, "end of the read at the upstream")
			}
			line := fields(t, b.logs.Next(t))
			want := "200 0000 <nil> <nil>"
			if !isWrite(op) {
				want = "499 ERROR the caller went away <nil>"
			}
			equal(t, fmt.Sprint(line["status"], " ", line["code"], " ", line["reason"], " ", line["outcome"]), want, line)
			back.expectCalls(t, 1)
			if !isWrite(op) { // not counted as an error of the upstream
				for line := range strings.Lines(b.scrape("billbridge_upstream_errors_total")) {
					if !strings.HasSuffix(line, " 0\n") {
						t.Error(line)
					}
				}
			}
		})
	}
}

// A caller that closes only its sending direction looks like one that has disconnected. It still gets an answer in its
// form: the read was cancelled, or the write was not sent.
func TestR27_HalfClosedCallerGetsAnAnswer(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"read", "create"} {
		hang := make(chan struct{})
		back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
			if op == "read" {
				select {
				case <-r.Context().Done():
				case <-hang:
				}
			}
			newService().ServeHTTP(w, r)
		})
		b := newGatewayTo(t, "v2", back)
		q := legacy(op)
		got := b.raw(true, head(q.path(), "Connection: close\r\nContent-Length: "+strconv.Itoa(len(q.body()))+"\r\n")+q.body())
		close(hang)
		if len(got) != 1 {
			t.Fatalf("%d answers", len(got))
		}
		if op == "read" {
			got[0].check(t, "legacy", brokenRead)
			continue
		}
		calls := 0 // the disconnect was noticed before the call was sent, or after it
		if strings.Contains(got[0].body, "Nothing was sent") {
			got[0].check(t, "legacy", refused)
		} else {
			got[0].check(t, "legacy", success)
			calls = 1
		}
		back.expectCalls(t, calls)
	}
}

// A reply that begins in time and does not end in time is a timeout, also if its beginning is compressed.
func TestR26_SlowReplyTimesOut(t *testing.T) {
	t.Parallel()
	for _, coding := range []string{"identity", "gzip"} {
		reply := []byte(`{"code":"0000",`)
		if coding == "gzip" {
			reply = gzipped(reply)[:12]
		}
		back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", coding)
			_, _ = w.Write(reply)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		b := newGateway(t, strings.Replace(oneUpstream("v2", back.url), "30s", "50ms", 1))
		b.expect(legacy("cancel"), unknownLate)
		b.expect(legacy("read"), lateRead)
		b.checkMetrics(`billbridge_upstream_errors_total{reason="timeout",upstream="up"} 2`, `billbridge_requests_in_flight{upstream="up"} 0`)
	}
}
