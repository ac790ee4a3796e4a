package httpconn

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// testTimeout is longer than anything that a test waits for.
const testTimeout = 2 * time.Minute

// A testServer reads requests and answers each with what answer writes. It counts its connections and their ends.
type testServer struct {
	pool        *Pool
	tls         *tls.Config // nil without TLS
	connections atomic.Int64
	requests    atomic.Int64
	extra       atomic.Int64  // replies, which the pool has seen
	ended       chan struct{} // one for each connection that the client has closed
}

// newTestServer starts a server, with TLS or without. If answer returns false, the server closes the connection.
func newTestServer(t testing.TB, secure bool, answer func(c net.Conn, body string) (keep bool)) *testServer {
	t.Helper()
	l := listenLocal(t)
	s := &testServer{pool: &Pool{Dial: new(net.Dialer).DialContext, Address: l.Addr().String()}, ended: make(chan struct{}, 10_000)}
	if secure {
		made, roots := proxytest.NewCertificate(t, "test", nil), x509.NewCertPool()
		roots.AppendCertsFromPEM(made.Cert)
		certificate, err := tls.X509KeyPair(made.Cert, made.Key)
		if err != nil {
			t.Fatal(err)
		}
		s.tls = &tls.Config{Certificates: []tls.Certificate{certificate}}
		l = tls.NewListener(l, s.tls)
		s.pool.TLS = func() *tls.Config { return &tls.Config{RootCAs: roots, ServerName: "gateway.example.com"} }
	}
	s.pool.Extra = func() { s.extra.Add(1) }
	proxytest.Serve(t, l, func(c net.Conn) {
		s.connections.Add(1)
		s.serve(c, answer)
	})
	t.Cleanup(s.pool.CloseIdle)
	return s
}

func listenLocal(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (s *testServer) serve(c net.Conn, answer func(net.Conn, string) bool) {
	defer c.Close()
	reader := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(reader)
		if err != nil {
			s.ended <- struct{}{}
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			s.ended <- struct{}{}
			return
		}
		s.requests.Add(1)
		if !answer(c, string(body)) {
			return
		}
	}
}

// head returns the head of a request.
func head(c *Conn, body string) []byte {
	return append(c.Buffer(), "POST /bill HTTP/1.1\r\nHost: example.com\r\nContent-Length: "+itoa(len(body))+"\r\n\r\n"...)
}

// A result is what a call has shown.
type result struct {
	status int
	body   string
	err    error
	sent   bool
}

// connect returns a connection of a pool.
func connect(t testing.TB, p *Pool) *Conn {
	t.Helper()
	if c := p.Idle(); c != nil {
		return c
	}
	c, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// callOn makes a call on a connection and releases it.
func callOn(c *Conn, body string) (r result) {
	defer c.Release()
	c.Begin(context.Background(), time.Now(), time.Now().Add(testTimeout))
	reply, err := c.RoundTrip(head(c, body), []byte(body))
	if err != nil {
		return result{err: err, sent: c.Sent()}
	}
	text, err := io.ReadAll(reply.Body)
	return result{reply.Status, string(text), err, c.Sent()}
}

// call makes a call.
func (s *testServer) call(t testing.TB, body string) result {
	t.Helper()
	return callOn(connect(t, s.pool), body)
}

func waitFor(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(testTimeout):
		t.Fatal("no " + what)
	}
}

func isTimeout(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

// listenFor has a pool connect to a new listener, with the TLS of its server.
func (s *testServer) listenFor(t testing.TB) net.Listener {
	t.Helper()
	l := listenLocal(t)
	s.pool.Address = l.Addr().String()
	if s.tls != nil {
		return tls.NewListener(l, s.tls)
	}
	return l
}
