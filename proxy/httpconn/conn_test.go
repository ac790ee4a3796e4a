package httpconn

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

func itoa(n int) string { return strconv.Itoa(n) }

// replies are what a server can answer. body is "" and fails is true if it is no reply.
var replies = map[string]struct {
	text   string
	behind string // comes with the last byte of text
	status int
	body   string
	fails  bool // the reply has no head that can be read
	broken bool // its body cannot be read to the end
	keep   bool // the connection is used for the next call
}{
	"length":               {text: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", status: 200, body: "{}", keep: true},
	"chunked":              {text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;a=b\r\n}\r\n0\r\n\r\n", status: 200, body: "{}", keep: true},
	"chunked, trailer":     {text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n2\r\n{}\r\n0\r\nA: b\r\n\r\n", status: 200, body: "{}"},
	"chunked, unannounced": {text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nA: b\r\n\r\n", status: 200, body: "{}"},
	"no content":           {text: "HTTP/1.1 204 No Content\r\n\r\n", status: 204, keep: true},
	"empty":                {text: "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", status: 400, keep: true},
	"interim":              {text: strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", 5) + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", status: 200, body: "{}"},
	"continue":             {text: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", status: 200, body: "{}"},
	"too many interim":     {text: strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 6) + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", fails: true},
	"switching":            {text: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", status: 101},
	"close":                {text: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", status: 200, body: "{}"},
	"bytes behind":         {text: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", behind: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"no\":\"1\"}", status: 200, body: "{}"},
	"one byte behind":      {text: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", behind: "\n", status: 200, body: "{}"},
	"behind the chunks":    {text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", behind: "x", status: 200, body: "{}"},
	"HTTP/1.0":             {text: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", status: 200, body: "{}"},
	"HTTP/1.0, keep-alive": {text: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}", status: 200, body: "{}"},
	"length and chunks":    {text: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", status: 200, body: "{}"},
	"HTTP/1.0, chunks":     {text: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}", status: 200, body: "{}"},
	"204 with a length":    {text: "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n", status: 204},
	"folded header":        {text: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\r\n c\r\n\r\n{}", status: 200, body: "{}"},
	"bare LF":              {text: "HTTP/1.1 200 OK\nContent-Length: 2\n\n{}", status: 200, body: "{}"},
	"one bare LF":          {text: "HTTP/1.1 200 OK\r\nA: b\nContent-Length: 2\r\n\r\n{}", status: 200, body: "{}"},
	"large head":           {text: "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+strings.Repeat("a", 1000)+"\r\n", 100) + "Content-Length: 2\r\n\r\n{}", fails: true},
	"large line":           {text: "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 100<<10) + "\r\nContent-Length: 2\r\n\r\n{}", fails: true},
	"large interim heads":  {text: strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: "+strings.Repeat("a", 30<<10)+"\r\n\r\n", 3) + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", fails: true},
	"two lengths":          {text: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", fails: true},
	"bad length":           {text: "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n{}", fails: true},
	"not HTTP":             {text: "+OK ready\r\n", fails: true},
	"bad chunk":            {text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", status: 200, broken: true},
}

// Each reply is read as it is meant, over TCP and TLS, in one piece and byte by byte. The next call uses the same connection only if nothing
// forbids it, and it gets its own reply.
func TestR24_Replies(t *testing.T) {
	t.Parallel()
	for name, row := range replies {
		for _, secure := range []bool{false, true} {
			for _, drip := range []bool{false, true} {
				if drip && len(row.text) > 10_000 {
					continue // the bytes of a flood need not come one by one
				}
				t.Run(fmt.Sprintf("%s/TLS %t/drip %t", name, secure, drip), func(t *testing.T) {
					t.Parallel()
					s := newTestServer(t, secure, func(c net.Conn, body string) bool {
						text, behind := row.text, row.behind
						if body == "next" {
							text, behind = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext", ""
						}
						for len(text) > 0 {
							n := len(text)
							if drip {
								n = 1
							}
							if n == len(text) {
								text += behind
								n = len(text)
							}
							if _, err := io.WriteString(c, text[:n]); err != nil {
								return false
							}
							text = text[n:]
						}
						return true
					})
					got := s.call(t, "first")
					switch {
					case row.fails != (got.err != nil && got.status == 0):
						t.Errorf("%+v", got)
					case row.broken != (got.err != nil && got.status != 0):
						t.Errorf("%+v", got)
					case !row.fails && (got.status != row.status || got.body != row.body):
						t.Errorf("%+v", got)
					}
					if !got.sent {
						t.Error("the call was not sent")
					}
					if got := s.call(t, "next"); got.body != "next" || got.err != nil {
						t.Errorf("the next call: %+v", got)
					}
					want := int64(2)
					if row.keep {
						want = 1
					}
					if n := s.connections.Load(); n != want {
						t.Errorf("%d connections, want %d", n, want)
					}
					if seen := s.extra.Load() > 0; seen != (row.behind != "") {
						t.Errorf("an extra reply was seen: %t", seen)
					}
				})
			}
		}
	}
}

// A reply that breaks off at any byte is an error, and never looks like a whole one.
func TestR24_RepliesThatBreakOff(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"length", "chunked", "chunked, trailer", "interim", "HTTP/1.0"} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/TLS %t", name, secure), func(t *testing.T) {
				t.Parallel()
				text := replies[name].text
				s := newTestServer(t, secure, func(c net.Conn, body string) bool {
					cut, _ := strconv.Atoi(body)
					_, _ = io.WriteString(c, text[:cut])
					return false
				})
				for cut := range len(text) {
					if got := s.call(t, itoa(cut)); got.err == nil || !got.sent {
						t.Errorf("after %d bytes: %+v", cut, got)
					}
				}
				if got := s.call(t, itoa(len(text))); got.err != nil || got.body != replies[name].body {
					t.Errorf("%+v", got)
				}
			})
		}
	}
}

// A call ends at its deadline, or when its context ends before or after that is watched, and its connection is closed.
func TestDeadlineAndContext(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		for _, part := range []string{"", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n0\r\nA: "} {
			for _, how := range []string{"deadline", "late deadline", "cancel", "late cancel", "deadline after a long call"} {
				s := newTestServer(t, secure, func(c net.Conn, _ string) bool {
					_, _ = io.WriteString(c, part)
					return true
				})
				after := unwatched / 2
				if strings.HasPrefix(how, "late") {
					after = 2 * unwatched
				}
				sent := false
				for try := 0; try < 20 && !sent; try++ { // again if the machine is so busy that the time was over before the request was written
					c := connect(t, s.pool)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if strings.HasSuffix(how, "long call") { // it has left its deadline
						c.Begin(ctx, time.Now(), time.Now().Add(time.Hour))
						c.watch()
						c.endWatch()
					}
					if strings.Contains(how, "deadline") {
						c.Begin(ctx, time.Now(), time.Now().Add(after))
					} else {
						c.Begin(ctx, time.Now(), time.Now().Add(time.Hour))
						time.AfterFunc(after, cancel)
					}
					reply, err := c.RoundTrip(head(c, "{}"), []byte("{}"))
					if err == nil {
						_, err = io.ReadAll(reply.Body)
					}
					if !isTimeout(err) {
						t.Errorf("%s after %q: %v", how, part, err)
					}
					sent = c.Sent()
					c.Release()
					waitFor(t, s.ended, "end of the connection")
				}
				if !sent {
					t.Errorf("%s after %q: the request was not sent", how, part)
				}
			}
		}
	}
}

// The server stops reading before the end of a request. The connection is closed at once: the alert that TLS sends at its end would wait for the
// server for 5 s.
func TestCloseDoesNotWaitForTheServer(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		for _, size := range []int{1000, 100_000} {
			for _, read := range []int{0, 10} {
				s := newTestServer(t, secure, nil)
				client, server := net.Pipe() // a write waits until it is read
				s.pool.Dial = func(context.Context, string, string) (net.Conn, error) { return client, nil }
				stuck := make(chan struct{})
				go func() {
					if secure {
						_ = tls.Server(server, s.tls).Handshake()
					}
					_, _ = io.ReadFull(server, make([]byte, read))
					close(stuck)
				}()
				c := connect(t, s.pool)
				ctx, cancel := context.WithCancel(t.Context())
				c.Begin(ctx, time.Now(), time.Now().Add(time.Hour))
				go func() {
					<-stuck
					cancel()
				}()
				_, err := c.RoundTrip(head(c, strings.Repeat("a", size)), []byte(strings.Repeat("a", size)))
				ended := time.Now()
				c.Release()
				if took := time.Since(ended); !isTimeout(err) || took > 4*time.Second {
					t.Errorf("TLS %t, %d of %d bytes: %v, and %s to close", secure, read, size, err, took)
				}
				if sent := c.Sent(); sent != (read > 0) {
					t.Errorf("TLS %t, %d of %d bytes: sent is %t", secure, read, size, sent)
				}
			}
		}
	}
}

// A call that takes so long that its context is watched gets its reply, and its connection is kept.
func TestSlowReply(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		for _, name := range []string{"length", "chunked"} {
			for _, size := range []int{2, 100_000} {
				t.Run(fmt.Sprintf("%s/TLS %t/%d bytes", name, secure, size), func(t *testing.T) {
					t.Parallel()
					text := replies[name].text
					s := newTestServer(t, secure, func(c net.Conn, _ string) bool {
						for _, part := range []string{text[:3], text[3 : len(text)-2], text[len(text)-2:]} {
							<-time.After(unwatched * 3 / 4)
							if _, err := io.WriteString(c, part); err != nil {
								return false
							}
						}
						return true
					})
					ctx, cancel := context.WithCancel(t.Context())
					for range 2 {
						c := connect(t, s.pool)
						c.Begin(ctx, time.Now(), time.Now().Add(testTimeout))
						body := strings.Repeat("a", size)
						reply, err := c.RoundTrip(head(c, body), []byte(body))
						if err != nil {
							t.Fatal(err)
						}
						if got, err := io.ReadAll(reply.Body); err != nil || string(got) != replies[name].body {
							t.Errorf("%q %v", got, err)
						}
						c.Release()
					}
					cancel() // has no effect any more
					if got := s.call(t, "{}"); got.err != nil || s.connections.Load() != 1 {
						t.Errorf("%+v, over %d connections", got, s.connections.Load())
					}
				})
			}
		}
	}
}

// The context of a large request is watched from its beginning: later, both the goroutine that writes and the one that reads could begin it.
func TestLargeRequestIsWatchedAtOnce(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, false, func(c net.Conn, _ string) bool {
		_, err := io.WriteString(c, replies["length"].text)
		return err == nil
	})
	for _, body := range []string{"{}", strings.Repeat("a", oneWrite)} {
		c := connect(t, s.pool)
		c.Begin(t.Context(), time.Now().Add(time.Hour), time.Now().Add(2*time.Hour))
		if _, err := c.RoundTrip(head(c, body), []byte(body)); err != nil {
			t.Fatal(err)
		}
		if watched := c.unwatch != nil; watched != (len(body) > 2) {
			t.Errorf("%d bytes: watched is %t", len(body), watched)
		}
		c.Close()
	}
}

// A reply that was not read to its end leaves nothing for the next call.
func TestUnreadRepliesCloseTheConnection(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, false, func(c net.Conn, body string) bool {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789")
		return true
	})
	c := connect(t, s.pool)
	c.Begin(t.Context(), time.Now(), time.Now().Add(testTimeout))
	reply, err := c.RoundTrip(head(c, "{}"), []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reply.Body.Read(make([]byte, 9)); err != nil {
		t.Fatal(err)
	}
	c.Release()
	waitFor(t, s.ended, "end of the connection")
	if s.pool.Idle() != nil {
		t.Error("the connection is kept")
	}
}

// Many callers share a pool whose server closes connections as it likes. Each gets the reply to its own request.
func TestR23_EachCallGetsItsOwnReply(t *testing.T) {
	t.Parallel()
	random := proxytest.Random(t)
	for _, secure := range []bool{false, true} {
		s := newTestServer(t, secure, func(c net.Conn, body string) bool {
			text := "HTTP/1.1 200 OK\r\nContent-Length: " + itoa(len(body)) + "\r\n\r\n" + body
			switch random(10) {
			case 0:
				return false
			case 1:
				_, _ = io.WriteString(c, text+text)
				return true
			case 2:
				_, _ = io.WriteString(c, text)
				return false
			}
			_, err := io.WriteString(c, text)
			return err == nil
		})
		var calling sync.WaitGroup
		for i := range 16 {
			calling.Go(func() {
				for j := range 50 {
					body := fmt.Sprintf("%d %d %s", i, j, strings.Repeat("x", random(40_000)))
					if got := s.call(t, body); got.err == nil && got.body != body {
						t.Errorf("the call %.20s got %.20s", body, got.body)
					}
				}
			})
		}
		calling.Wait()
	}
}

// Opening a connection ends with its context, also in the handshake.
func TestOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newTestServer(t, true, nil)
	s.pool.Address = l.Addr().String() // of the TLS server only the config is used
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if c, err := s.pool.Open(ctx); err == nil || ctx.Err() == nil {
		t.Errorf("%v %v", c, err)
	}
}
