package framing

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

const soon = time.Millisecond // IdleAfter of these tests

// admitted counts open connections. It fails the test if one is released twice.
func admitted(t *testing.T) (admit func(net.Addr) (func(), bool), open func() int64) {
	t.Helper()
	var n atomic.Int64
	return func(net.Addr) (func(), bool) {
		n.Add(1)
		var released atomic.Bool
		return func() {
			if released.Swap(true) {
				t.Error("a connection is released twice")
			}
			n.Add(-1)
		}, true
	}, n.Load
}

// Clients send requests whole, in pieces and several at once, with pauses around IdleAfter. Each request is seen once, its answer comes on its
// connection, and no connection is left.
func TestIdleConnectionsLoseNothing(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%t", secure), func(t *testing.T) {
			t.Parallel()
			const clients, rounds = 30, 40
			admit, open := admitted(t)
			o := Options{IdleAfter: soon, Admit: admit}
			if secure {
				o.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
			}
			s := serve(t, o)
			var calling sync.WaitGroup
			var resumed atomic.Int64
			for client := range clients {
				calling.Go(func() {
					c := dial(t, s.address, secure, "http/1.1")
					defer c.Close()
					_ = c.SetDeadline(time.Now().Add(20 * time.Second))
					in := bufio.NewReader(c)
					random := rand.New(rand.NewPCG(uint64(client), 1))
					for round := range rounds {
						together := 1 + random.IntN(3)
						sent := ""
						for i := range together {
							body := fmt.Sprintf("%d-%d-%d", client, round, i)
							sent += fmt.Sprintf("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
						}
						if random.IntN(2) == 0 { // the first byte ends a wait, and the others come later
							_, _ = io.WriteString(c, sent[:1])
							pause(t, time.Duration(random.IntN(2000))*time.Microsecond)
							sent = sent[1:]
						}
						if _, err := io.WriteString(c, sent); err != nil {
							t.Error(err)
							return
						}
						for range together {
							response, err := http.ReadResponse(in, nil)
							if err != nil || response.StatusCode != 200 {
								t.Errorf("client %d, round %d: %v %v", client, round, response, err)
								return
							}
							_, _ = io.Copy(io.Discard, response.Body)
						}
						if s.idle() > 0 {
							resumed.Add(1)
						}
						pause(t, time.Duration(random.IntN(3000))*time.Microsecond)
					}
				})
			}
			calling.Wait()
			requests, refused := s.saw()
			if len(refused) != 0 {
				t.Errorf("refused: %v", refused)
			}
			slices.Sort(requests)
			if got := len(slices.Compact(requests)); got != len(requests) {
				t.Errorf("%d requests were seen twice", len(requests)-got)
			}
			if resumed.Load() == 0 {
				t.Error("no connection was ever idle: the test shows nothing")
			}
			proxytest.Eventually(t, func() bool { return open() == 0 && s.idle() == 0 }, func() string { return "connections are left" })
			t.Logf("%d requests of %d clients", len(requests), clients)
		})
	}
}

// pause waits for a time, which the test varies around IdleAfter.
func pause(t *testing.T, d time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
}

// call makes one call on a connection.
func call(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || response.StatusCode != 200 {
		t.Fatal(response, err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
}

// The framing is checked on a connection that was idle as on a new one.
func TestIdleConnectionsAreChecked(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{IdleAfter: soon})
	c := dial(t, s.address, false, "")
	defer c.Close()
	call(t, c)
	proxytest.Eventually(t, func() bool { return s.idle() == 1 }, func() string { return "the connection is not idle" })
	if got := exchange(t, c, post+"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+next); !slices.Equal(got, []int{400}) {
		t.Errorf("answers %v", got)
	}
	if requests, refused := s.saw(); len(requests) != 1 || !slices.Equal(refused, []string{lengthAndEncoding}) {
		t.Errorf("requests %v, refused %v", requests, refused)
	}
}

// A client that closes an idle connection, the idle timeout, and the end of the listener close it.
func TestIdleConnectionsEnd(t *testing.T) {
	t.Parallel()
	admit, open := admitted(t)
	s := serve(t, Options{IdleAfter: soon, Admit: admit})
	left, closed := dial(t, s.address, false, ""), dial(t, s.address, false, "")
	defer closed.Close()
	call(t, left)
	call(t, closed)
	proxytest.Eventually(t, func() bool { return s.idle() == 2 }, func() string { return "the connections are not idle" })
	if open() != 2 {
		t.Errorf("%d connections count as open", open())
	}
	_ = left.Close()
	proxytest.Eventually(t, func() bool { return s.idle() == 1 && open() == 1 }, func() string { return "the connection that its client has closed is left" })
	_ = s.listener.Close()
	if _, err := closed.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the listener was closed: %v", err)
	}
	proxytest.Eventually(t, func() bool { return s.idle() == 0 && open() == 0 }, func() string { return "connections are left" })
}

// The idle timeout of the server counts from the end of the last answer.
func TestIdleTimeoutHolds(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer far.Close()
	l := Listen(nil, Options{IdleAfter: soon}).(*listener)
	c := l.newConn(near, nil, func() {})
	Idle(c)
	until := time.Now().Add(2 * time.Second) // longer than a busy machine takes to begin the read
	_ = c.SetReadDeadline(until)
	if _, err := c.Read(make([]byte, 10)); err != io.EOF {
		t.Fatalf("%v", err)
	}
	_ = c.Close()
	if _, err := far.Read(make([]byte, 1)); err != io.EOF || time.Now().Before(until) {
		t.Errorf("%v, %s before the idle timeout", err, time.Until(until))
	}

	near, far = net.Pipe()
	defer far.Close()
	c = l.newConn(near, nil, func() {})
	Idle(c)
	_ = c.SetReadDeadline(time.Now().Add(-time.Second)) // a server with an idle timeout below IdleAfter
	if _, err := c.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after its idle timeout: %v", err)
	}
}

// http.Server.Shutdown can close a connection whose goroutine has just closed it. By then the connection may have its next request.
func TestSecondCloseOfAnIdleConnection(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer far.Close()
	var released atomic.Bool
	l := Listen(nil, Options{IdleAfter: soon}).(*listener)
	c := l.newConn(near, nil, func() { released.Store(true) })
	Idle(c)
	_ = c.SetReadDeadline(time.Now().Add(idleTimeout))
	if _, err := c.Read(make([]byte, 10)); err != io.EOF {
		t.Fatal(err)
	}
	_ = c.Close()
	_ = c.Close()
	_ = far.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(far, "P"); err != nil || released.Load() {
		t.Fatalf("%v, released: %t", err, released.Load())
	}
	resumed := (<-l.accepted).conn
	defer resumed.Close()
	go func() { _, _ = io.WriteString(far, "OST") }()
	got := make([]byte, 4)
	if _, err := io.ReadFull(resumed, got); err != nil || string(got) != "POST" {
		t.Errorf("%q %v", got, err)
	}
}

// closing is a connection whose listener is closed while a byte of it arrives.
type closing struct {
	net.Conn
	listener *listener
}

func (c closing) Read(p []byte) (int, error) {
	_ = c.listener.Close()
	return copy(p, "P"), nil
}

// A TLS connection can hold the rest of a request. After Close the request would be served, and its answer lost.
func TestConnectionThatTheListenerClosedIsNotServed(t *testing.T) {
	t.Parallel()
	for range 1000 {
		below, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		near, far := net.Pipe()
		l := Listen(below, Options{IdleAfter: soon}).(*listener)
		c := l.newConn(closing{near, l}, nil, func() {})
		l.idle[c] = struct{}{}
		waited := make(chan struct{})
		var served net.Conn
		var accepting sync.WaitGroup
		accepting.Go(func() {
			select {
			case a := <-l.accepted:
				served = a.conn
			case <-waited:
			}
		})
		c.awaitRequest()
		close(waited)
		accepting.Wait()
		if served != nil {
			t.Fatal("Accept returns a connection that is closed")
		}
		if _, err := far.Read(make([]byte, 1)); err != io.EOF {
			t.Fatal(err)
		}
	}
}

// slow serves connections whose second request takes as long as the test wants. ended has the error of its context.
func slow(t *testing.T, idleAfter time.Duration) (address string, reached, release chan struct{}, ended chan error) {
	t.Helper()
	below, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	reached, release, ended = make(chan struct{}), make(chan struct{}), make(chan error, 1)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/slow" {
				if r.Method != http.MethodGet || r.Context().Err() != nil {
					w.WriteHeader(http.StatusInternalServerError)
				}
				return
			}
			close(reached)
			<-release
			ended <- r.Context().Err()
		}),
		IdleTimeout: idleTimeout,
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateIdle {
				Idle(c)
			}
		},
	}
	go func() { _ = server.Serve(Listen(below, Options{IdleAfter: idleAfter})) }()
	t.Cleanup(func() { _ = server.Close() })
	return below.Addr().String(), reached, release, ended
}

// While a request is answered, net/http reads from its connection to see whether the client leaves. This read is not that of an idle
// connection, also if the request came together with the one before.
func TestSlowRequestIsNotIdle(t *testing.T) {
	t.Parallel()
	address, reached, release, ended := slow(t, idleTimeout) // the last request comes on the same connection of net/http
	c := dial(t, address, false, "")
	defer c.Close()
	in := bufio.NewReader(c)
	_, _ = io.WriteString(c, "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
	<-reached
	pause(t, 50*soon)
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("the request was cancelled: %v", err)
	}
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	for i := range 3 {
		if i == 2 {
			_, _ = io.WriteString(c, "GET /b HTTP/1.1\r\nHost: x\r\n\r\n")
		}
		if response, err := http.ReadResponse(in, nil); err != nil || response.StatusCode != 200 {
			t.Errorf("answer %d: %v %v", i, response, err)
		}
	}
}

// net/http keeps the first byte of a next request that came while it answered.
func TestByteBeforeTheAnswerIsKept(t *testing.T) {
	t.Parallel()
	address, reached, release, _ := slow(t, soon)
	c := dial(t, address, false, "")
	defer c.Close()
	_, _ = io.WriteString(c, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
	<-reached
	_, _ = io.WriteString(c, "G")
	pause(t, 20*soon) // until net/http has read it
	close(release)
	in := bufio.NewReader(c)
	if response, err := http.ReadResponse(in, nil); err != nil || response.StatusCode != 200 {
		t.Fatal(response, err)
	}
	pause(t, 50*soon)
	_, _ = io.WriteString(c, "ET /a HTTP/1.1\r\nHost: x\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if response, err := http.ReadResponse(in, nil); err != nil || response.StatusCode != 200 {
		t.Error(response, err)
	}
}

// A connection with a part of a request is not idle: it has the deadline of the server.
func TestPartialRequestIsNotIdle(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{IdleAfter: soon})
	c := dial(t, s.address, false, "")
	defer c.Close()
	call(t, c)
	_, _ = io.WriteString(c, "POST /a HT")
	proxytest.Eventually(t, func() bool { return s.idle() == 0 }, func() string { return "it counts as idle" })
	_, _ = io.WriteString(c, strings.TrimPrefix(post, "POST /a HT")+"Connection: close\r\nContent-Length: 2\r\n\r\n")
	if got := exchange(t, c, "{}"); !slices.Equal(got, []int{200}) {
		t.Errorf("answers %v", got)
	}
}

func TestHTTP2ConnectionsStayWithTheServer(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{IdleAfter: soon, TLS: &tls.Config{Certificates: []tls.Certificate{certificate(t)}}})
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for range 20 {
		response, err := client.Post("https://"+s.address+"/a", "", strings.NewReader("{}"))
		if err != nil || response.ProtoMajor != 2 {
			t.Fatal(response, err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		pause(t, 2*soon)
		if s.idle() != 0 {
			t.Fatal("an HTTP/2 connection waits without the server")
		}
	}
}
