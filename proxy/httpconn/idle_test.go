package httpconn

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// Before a call uses an idle connection, it looks whether the server has closed it or has sent something. It then takes another one, and
// nothing is sent on the first.
func TestR23_IdleConnectionsAreCheckedBeforeTheyAreUsed(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(net.Conn){
		"closed":  func(c net.Conn) { _ = c.Close() },
		"a byte":  func(c net.Conn) { _, _ = io.WriteString(c, "x") },
		"a reply": func(c net.Conn) { _, _ = io.WriteString(c, replies["length"].text) },
		"reset":   func(c net.Conn) { reset(c) },
	} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/TLS %t", name, secure), func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex
				var first net.Conn
				s := newTestServer(t, secure, func(c net.Conn, body string) bool {
					mu.Lock()
					defer mu.Unlock()
					if first == nil {
						first = c
					}
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: "+itoa(len(body))+"\r\n\r\n"+body)
					return true
				})
				if got := s.call(t, "one"); got.body != "one" {
					t.Fatalf("%+v", got)
				}
				mu.Lock()
				spoil(first)
				mu.Unlock()
				waitUntilReadable(t, s.pool.idle[0])
				if c := s.pool.Idle(); c != nil {
					t.Fatal("the connection is used")
				}
				want := int64(0)
				if strings.HasPrefix(name, "a ") {
					want = 1
				}
				if n := s.extra.Load(); n != want {
					t.Errorf("%d extra replies were seen, want %d", n, want)
				}
				if got := s.call(t, "two"); got.body != "two" || s.requests.Load() != 2 {
					t.Errorf("%+v, and the server got %d requests", got, s.requests.Load())
				}
			})
		}
	}
}

// What arrives on an idle connection is seen when it has been idle for too long.
func TestExtraRepliesAreSeenBeforeAConnectionIsClosed(t *testing.T) {
	t.Parallel()
	for name, closes := range map[string]func(*Pool){
		"too old": func(p *Pool) { p.idle[0].idleSince = time.Now().Add(-IdleTimeout); p.closeOld() },
		"too old, and popped": func(p *Pool) {
			if p.idle[0].idleSince = time.Now().Add(-IdleTimeout); p.Idle() != nil {
				t.Error("an old connection is used")
			}
		},
	} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/TLS %t", name, secure), func(t *testing.T) {
				t.Parallel()
				sent, readErr := make(chan struct{}), make(chan error, 1)
				s := newTestServer(t, secure, func(c net.Conn, body string) bool {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
					<-sent
					_, _ = io.WriteString(c, "x")
					_, err := c.Read(make([]byte, 1))
					readErr <- err
					return false
				})
				s.call(t, "{}")
				close(sent)
				waitUntilReadable(t, s.pool.idle[0])
				closes(s.pool)
				if n := s.extra.Load(); n != 1 || len(s.pool.idle) != 0 {
					t.Errorf("%d extra replies were seen, want 1; %d idle connections", n, len(s.pool.idle))
				}
				<-readErr
			})
		}
	}
}

// A heldConn keeps what is written to it while hold is set.
type heldConn struct {
	net.Conn
	hold bool
	held []byte
}

func (c *heldConn) Write(p []byte) (int, error) {
	if c.hold {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// The server sends a reply twice, and of the second TLS record only a part has arrived when the next call begins. That call must not get it.
func TestR23_IdleConnectionWithAPartOfARecord(t *testing.T) {
	t.Parallel()
	for _, part := range []int{1, 4, 5, 7} {
		s := newTestServer(t, true, nil)
		l := s.listenFor(t)
		go func() {
			for _, name := range []string{"first", "second"} {
				below, err := l.Accept()
				if err != nil {
					return
				}
				defer below.Close()
				held := &heldConn{Conn: below.(*tls.Conn).NetConn()}
				c := tls.Server(held, s.tls)
				if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
					return
				}
				reply := "HTTP/1.1 200 OK\r\nContent-Length: " + itoa(len(name)) + "\r\n\r\n" + name
				held.hold = true
				_, _ = io.WriteString(c, reply)
				whole := len(held.held)
				_, _ = io.WriteString(c, reply)
				_, _ = held.Conn.Write(held.held[:whole+part])
			}
		}()
		s.call(t, "{}")
		if got := s.call(t, "{}"); got.err != nil || got.body != "second" {
			t.Errorf("after %d bytes of a record: %+v", part, got)
		}
	}
}

// reset closes a connection so that the client gets a reset.
func reset(c net.Conn) {
	if outer, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = outer.NetConn()
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// A failingConn fails each read after its bytes, as TLS does if the record behind a reply breaks off.
type failingConn struct{ net.Conn }

func (c failingConn) Read(p []byte) (int, error) {
	n, _ := c.Conn.Read(p)
	return n, os.ErrDeadlineExceeded
}

// A read that fails behind a reply does not fail the next call.
func TestFailedReadBehindAReply(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, false, func(c net.Conn, _ string) bool {
		_, err := io.WriteString(c, replies["length"].text)
		return err == nil
	})
	c := connect(t, s.pool)
	c.socket.Conn = failingConn{c.socket.Conn}
	for range 2 {
		if got := callOn(c, "{}"); got.err != nil || got.body != "{}" {
			t.Fatalf("%+v", got)
		}
		c = connect(t, s.pool)
	}
	c.Close()
	if n := s.connections.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// The deadline of a call has no effect on the next one.
func TestOldDeadlineHasNoEffect(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		s := newTestServer(t, secure, func(c net.Conn, _ string) bool {
			_, err := io.WriteString(c, replies["length"].text)
			return err == nil
		})
		s.call(t, "{}")
		for _, until := range []time.Time{past, time.Now().Add(time.Hour)} {
			s.pool.idle[0].Begin(t.Context(), past, until)
			if got := s.call(t, "{}"); got.err != nil || s.connections.Load() != 1 {
				t.Errorf("%+v, over %d connections", got, s.connections.Load())
			}
		}
	}
}

// Connections that are idle for too long are closed, and newer ones stay.
func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, false, func(c net.Conn, _ string) bool {
		_, err := io.WriteString(c, replies["length"].text)
		return err == nil
	})
	first, second := connect(t, s.pool), connect(t, s.pool)
	callOn(first, "{}")
	callOn(second, "{}")
	first.idleSince = time.Now().Add(-IdleTimeout)
	s.pool.closeOld()
	waitFor(t, s.ended, "end of the connection")
	if c := s.pool.Idle(); c != second {
		t.Error("the newer connection is not kept")
	}
	second.Close()
}

// A server that speaks before the first call gets no call: what it has sent would be taken for the reply.
func TestServerThatSpeaksFirstGetsNoCall(t *testing.T) {
	t.Parallel()
	spoken := make(chan struct{})
	l := listenLocal(t)
	proxytest.Serve(t, l, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		close(spoken)
		_, _ = io.Copy(io.Discard, c)
	})
	extra := 0
	pool := &Pool{Dial: new(net.Dialer).DialContext, Address: l.Addr().String(), Extra: func() { extra++ }}
	pool.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		<-spoken
		return c, err
	}
	if c, err := pool.Open(t.Context()); !errors.Is(err, errSpoke) || extra != 1 {
		t.Errorf("%v, %v, %d extra replies", c, err, extra)
	}
}
