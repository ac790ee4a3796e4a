package httpconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// fresh makes a call on a connection that has carried none, and says that it is the last one.
func (s *testServer) fresh(t testing.TB, body string) (r result, waited bool) {
	t.Helper()
	c := s.pool.Fresh()
	if c == nil {
		var err error
		if c, err = s.pool.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if c.Reused() {
		t.Error("the connection has carried a call")
	}
	c.Last()
	return callOn(c, body), c.Waited()
}

// answerOnce answers a request, and closes the connection.
func answerOnce(c net.Conn, _ string) (keep bool) {
	_, _ = io.WriteString(c, replies["length"].text)
	return false
}

// waitForSpares waits until n connections wait for their first call.
func waitForSpares(t testing.TB, p *Pool, n int) {
	t.Helper()
	proxytest.Eventually(t, func() bool { return p.Spares() == n }, func() string { return fmt.Sprint(p.Spares(), " spares") })
}

// The first call opens its connection. From the second one on, connections are opened before they are needed.
func TestConnectionsAreOpenedBeforeTheyAreNeeded(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		s := newTestServer(t, secure, answerOnce)
		for i := range 5 {
			got, waited := s.fresh(t, "{}")
			if got.err != nil || got.status != 200 || waited != (i > 1) {
				t.Errorf("TLS %t, call %d: %+v, on a connection opened before: %t", secure, i, got, waited)
			}
			if i > 0 {
				waitForSpares(t, s.pool, 1)
			}
		}
		if n := s.extra.Load(); n != 0 || s.requests.Load() != 5 {
			t.Errorf("%d extra replies, %d requests", n, s.requests.Load())
		}
	}
}

// A connection that the server has closed before its first call, or on which it has spoken, gets no call.
func TestSpareThatIsNotSilentGetsNoCall(t *testing.T) {
	t.Parallel()
	for name, does := range map[string]func(c net.Conn){
		"closed": func(c net.Conn) { _ = c.Close() },
		"spoke":  func(c net.Conn) { _, _ = io.WriteString(c, replies["length"].text) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestServer(t, false, answerOnce)
			client, server := tcpPair(t)
			s.pool.mu.Lock()
			c := newConn(s.pool, client)
			c.idleSince = time.Now()
			s.pool.spares.waiting = []*Conn{c}
			s.pool.mu.Unlock()
			does(server)
			waitUntilReadable(t, c)
			if got, waited := s.fresh(t, "{}"); got.status != 200 || waited {
				t.Errorf("%+v", got)
			}
			if n := s.extra.Load(); n != map[string]int64{"closed": 0, "spoke": 1}[name] {
				t.Errorf("%d extra replies", n)
			}
		})
	}
}

// tcpPair returns the two ends of a connection.
func tcpPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l := listenLocal(t)
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

// As many connections wait as the calls of the last seconds have used: 50 ms pass until one is open.
func TestNumberOfSpares(t *testing.T) {
	t.Parallel()
	s, now, opens := new(spares), time.Now(), []time.Time{}
	calls := func(n int, every time.Duration) (without int) {
		for range n {
			now = now.Add(every)
			for len(opens) > 0 && !opens[0].After(now) {
				opens, s.waiting, s.opening = opens[1:], append(s.waiting, new(Conn)), s.opening-1
			}
			c, open := s.take(now)
			for range open {
				opens = append(opens, now.Add(50*time.Millisecond))
			}
			if c == nil {
				without++
			}
		}
		return without
	}
	for _, row := range []struct {
		n       int
		every   time.Duration
		without int // calls that must open their connection, at most
		wanted  int // at the end, at most
	}{
		{5, 10 * time.Second, 5, 0}, // such calls need none
		{100, 10 * time.Millisecond, 10, 10},
		{1000, 10 * time.Millisecond, 50, 10},
		{3000, time.Millisecond, 400, 64},
		{100, time.Second / 2, 10, 3}, // fewer calls
	} {
		if without := calls(row.n, row.every); without > row.without || s.wanted > row.wanted {
			t.Errorf("%+v: %d calls had to open a connection, %d spares are wanted", row, without, s.wanted)
		}
	}
}

// Spares that no call has taken in time are closed, and a server that cannot be reached is not called in advance.
func TestSparesEnd(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, false, answerOnce)
	for range 2 {
		s.fresh(t, "{}")
	}
	waitForSpares(t, s.pool, 1)
	s.pool.mu.Lock()
	s.pool.spares.waiting[0].idleSince = time.Now().Add(-spareTimeout)
	s.pool.mu.Unlock()
	s.pool.closeOld()
	if n, wanted := s.pool.Spares(), s.pool.spares.wanted; n != 0 || wanted != 0 {
		t.Errorf("%d spares, %d are wanted", n, wanted)
	}
	var dials atomic.Int64
	s.pool.Dial = func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, errors.New("down")
	}
	for range 20 {
		if c := s.pool.Fresh(); c != nil {
			t.Error("there is a spare")
		} else if _, err := s.pool.Open(t.Context()); err == nil {
			t.Error("a connection was opened")
		}
	}
	proxytest.Eventually(t, func() bool { s.pool.mu.Lock(); defer s.pool.mu.Unlock(); return s.pool.spares.opening == 0 }, nil)
	if n := dials.Load(); n > 21 {
		t.Errorf("%d connections were tried for 20 calls", n)
	}
}

// After its last call the server closes the connection first, so that the port is free at once, and gets no reset. If it
// does not close it, it gets one.
func TestServerClosesTheConnectionOfAFinalCall(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		for _, polite := range []bool{true, false} {
			t.Run(fmt.Sprintf("TLS %t, polite %t", secure, polite), func(t *testing.T) {
				t.Parallel()
				ended, from := make(chan error, 1), make(chan string, 1)
				s := newTestServer(t, secure, func(c net.Conn, _ string) bool {
					_, _ = io.WriteString(c, replies["length"].text)
					from <- c.RemoteAddr().String()
					if closer, ok := c.(interface{ CloseWrite() error }); polite && ok {
						_ = closer.CloseWrite()
					}
					_, err := c.Read(make([]byte, 1))
					ended <- err
					return false
				})
				if got, _ := s.fresh(t, "{}"); got.status != 200 {
					t.Fatalf("%+v", got)
				}
				err := <-ended
				if reset := err != io.EOF; reset == polite && !secure {
					t.Errorf("the server got %v", err)
				}
				if state := stateOf(t, <-from, s.pool.Address); state == "06" {
					t.Errorf("the port of the client is in state %s", state)
				}
			})
		}
	}
}

// stateOf returns the state of a TCP connection on this machine, "06" for TIME_WAIT, or "".
func stateOf(t *testing.T, from, to string) string {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Skip("this system has no /proc/net/tcp: " + err.Error())
	}
	ends := make([]string, 2)
	for i, address := range []string{from, to} {
		at := netip.MustParseAddrPort(address)
		ip := at.Addr().As4()
		ends[i] = fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], at.Port())
	}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == ends[0] && f[2] == ends[1] {
			return f[3]
		}
	}
	return ""
}
