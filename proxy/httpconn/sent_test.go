package httpconn

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// The server answers while the body is still being sent, and reads no more of it. The call gets the reply, and nothing reads the body after that.
func TestEarlyReplyToALargeRequest(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		s := newTestServer(t, secure, nil)
		l, end := s.listenFor(t), make(chan struct{})
		go func() {
			in, err := l.Accept()
			if err != nil {
				return
			}
			defer in.Close()
			_, _ = in.Read(make([]byte, 100))
			_, _ = io.WriteString(in, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
			<-end
		}()
		body := []byte(strings.Repeat("a", 16<<20))
		c := connect(t, s.pool)
		c.Begin(t.Context(), time.Now(), time.Now().Add(time.Hour)) // the reply ends the call
		reply, err := c.RoundTrip(head(c, string(body)), body)
		if err != nil || reply.Status != 413 {
			t.Fatalf("%v %v", reply, err)
		}
		if text, err := io.ReadAll(reply.Body); err != nil || string(text) != "no" {
			t.Errorf("%q %v", text, err)
		}
		c.Release()
		clear(body) // the race detector sees a goroutine that still reads it
		if s.pool.Idle() != nil {
			t.Error("the connection is kept")
		}
		close(end)
	}
}

// A brokenConn fails its writes after some bytes.
type brokenConn struct {
	net.Conn
	left int
	open bool // it can still be read
}

func (c *brokenConn) Write(p []byte) (int, error) {
	n, _ := c.Conn.Write(p[:min(len(p), c.left)])
	c.left -= n
	if n < len(p) {
		if !c.open {
			_ = c.Conn.Close()
		}
		return n, errors.New("broken pipe")
	}
	return n, nil
}

// Sent is false only if no byte has left, for a small request and for one that is written in the background.
func TestR23_SentIsWhatTheWriteReturned(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 100 << 10} {
		for _, left := range []int{0, 1, 60} {
			s := newTestServer(t, false, func(net.Conn, string) bool { return false })
			c := connect(t, s.pool)
			c.socket.Conn = &brokenConn{Conn: c.socket.Conn, left: left}
			if got := callOn(c, strings.Repeat("a", size)); got.err == nil || got.sent != (left > 0) || s.requests.Load() != 0 {
				t.Errorf("%d bytes of %d: %+v", left, size, got)
			}
		}
	}
}

// The server answers a request of which it has got only a part. Its reply counts, but the connection cannot be used again.
func TestReplyToAPartOfARequest(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, false, nil)
	l, end := s.listenFor(t), make(chan struct{})
	defer close(end)
	go func() {
		in, err := l.Accept()
		if err != nil {
			return
		}
		defer in.Close()
		_, _ = in.Read(make([]byte, 1))
		_, _ = io.WriteString(in, replies["length"].text)
		<-end
	}()
	c := connect(t, s.pool)
	c.socket.Conn = &brokenConn{Conn: c.socket.Conn, left: 10, open: true}
	if got := callOn(c, "{}"); got.err != nil || got.status != 200 || got.body != "{}" {
		t.Errorf("%+v", got)
	}
	if s.pool.Idle() != nil {
		t.Error("the connection is kept")
	}
}
