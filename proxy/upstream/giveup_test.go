package upstream

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"billbridge/config"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// newTestUpstream returns an upstream in front of a server that counts its calls.
func newTestUpstream(t *testing.T) (u *Upstream, calls *atomic.Int32) {
	t.Helper()
	calls = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		_, _ = w.Write([]byte(`{"code":"0000"}`))
	}))
	t.Cleanup(s.Close)
	address, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	m := NewMetrics(nil)
	u = New(&config.Upstream{
		Name: "up", Address: config.Address{URL: address}, Connections: 4, PartnerConnections: 4, Timeout: config.Duration(time.Minute), Wait: time.Minute,
	}, "test", m, slog.New(slog.DiscardHandler), nil)
	t.Cleanup(u.pool.CloseIdle)
	return u, calls
}

// testRequest returns a request to an upstream. Its sender can go away.
func testRequest(t *testing.T, u *Upstream) (r *Request, leave context.CancelFunc) {
	t.Helper()
	r = &Request{Head: u.Head("/bill"), ID: "1", Body: []byte("{}"), Write: true, Reply: new(bytes.Buffer), Limit: 100}
	r.SendCtx, leave = context.WithCancel(t.Context())
	t.Cleanup(leave)
	return r, leave
}

// checkGivenUp checks the result of a call that was given up before it was sent.
func checkGivenUp(t *testing.T, failure *Failure) {
	t.Helper()
	if failure == nil || failure.Kind != GivenUp || failure.Sent {
		t.Errorf("%+v", failure)
	}
}

// A write whose caller disconnects while it waits for a connection is not sent.
func TestR27_WriteIsGivenUpWhileItWaits(t *testing.T) {
	t.Parallel()
	for _, waitsFor := range []string{"slot", "connection"} {
		u, calls := newTestUpstream(t)
		r, leave := testRequest(t, u)
		switch waitsFor {
		case "slot":
			for u.connections.take(slot{uncounted: true}) {
			}
			time.AfterFunc(10*time.Millisecond, leave)
		case "connection":
			u.pool.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				leave()
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}
		_, err := u.Do(t.Context(), r)
		checkGivenUp(t, err)
		if n := calls.Load(); n != 0 {
			t.Errorf("%d calls", n)
		}
	}
}

// A write is not sent if its caller has disconnected when a connection is there.
func TestR27_NoWriteForACallerThatHasGone(t *testing.T) {
	t.Parallel()
	u, calls := newTestUpstream(t)
	for range 2 { // on a new connection, and on an idle one
		r, leave := testRequest(t, u)
		leave()
		_, err := u.Do(t.Context(), r)
		checkGivenUp(t, err)
		if r, _ = testRequest(t, u); calls.Load() == 0 {
			if _, err := u.Do(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

// A server that accepts no connection is reported by what has ended the wait for it: the upstream's wait, or the
// earlier end of a call that the gateway makes for itself. The dial may notice that end before the context does.
func TestEndOfADial(t *testing.T) {
	t.Parallel()
	u, _ := newTestUpstream(t)
	u.pool.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		end, _ := ctx.Deadline()
		for time.Now().Before(end) { // without a pause, so that it ends before the timer of ctx
		}
		return nil, os.ErrDeadlineExceeded
	}
	r, _ := testRequest(t, u)
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err := u.send(ctx, r)
		if cancel(); err.Kind != Timeout || !err.Early || err.Sent {
			t.Errorf("the gateway's own call: %+v", err)
		}
	}
	u.Config.Wait = time.Millisecond
	for range 20 {
		if _, err := u.send(t.Context(), r); err.Kind != Refused || !strings.Contains(err.Detail, "within 1ms") || err.Sent {
			t.Errorf("%+v", err)
		}
	}
}

// A lostConn fails its reads as when the host of the server has gone, which keep-alive probes find out.
type lostConn struct{ *net.TCPConn }

func (lostConn) Read([]byte) (int, error) {
	return 0, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ETIMEDOUT)}
}

// A lost connection is not a timeout of the upstream, although the system calls it one.
func TestLostConnectionIsNoTimeout(t *testing.T) {
	t.Parallel()
	u, _ := newTestUpstream(t)
	dial := u.pool.Dial
	u.pool.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return lostConn{c.(*net.TCPConn)}, nil
	}
	r, _ := testRequest(t, u)
	if _, err := u.send(t.Context(), r); err == nil || err.Kind != Reset || !err.Sent {
		t.Errorf("%+v", err)
	}
}

// A staleConn sends one request. Writing the second one fails, as on a connection that the server has just closed.
type staleConn struct {
	*net.TCPConn
	writes int
	second func()
}

func (c *staleConn) Write(p []byte) (int, error) {
	if c.writes++; c.writes > 1 {
		c.second()
		return 0, errors.New("broken pipe")
	}
	return c.TCPConn.Write(p)
}

// When the server has closed the idle connection and nothing was written to it, the call takes another one. It is
// not sent on that if its caller has disconnected.
func TestR27_NoSecondConnectionForACallerThatHasGone(t *testing.T) {
	t.Parallel()
	for _, disconnects := range []bool{false, true} {
		u, calls := newTestUpstream(t)
		first, _ := testRequest(t, u)
		second, leave := testRequest(t, u)
		dial := u.pool.Dial
		u.pool.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			if err == nil && calls.Load() == 0 {
				c = &staleConn{TCPConn: c.(*net.TCPConn), second: func() {
					if disconnects {
						leave()
					}
				}}
			}
			return c, err
		}
		if _, err := u.Do(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		_, err := u.Do(t.Context(), second)
		switch {
		case disconnects:
			checkGivenUp(t, err)
			if n := calls.Load(); n != 1 {
				t.Errorf("%d calls, want 1", n)
			}
		case err != nil || calls.Load() != 2:
			t.Errorf("%v, after %d calls", err, calls.Load())
		}
	}
}

// A panic gives back what the call has taken, and counts as a call that may have been sent.
func TestPanicEndsTheCall(t *testing.T) {
	t.Parallel()
	u, _ := newTestUpstream(t)
	dial := u.pool.Dial
	u.pool.Dial = func(context.Context, string, string) (net.Conn, error) { panic("dial") }
	for range breakerCalls {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			r, _ := testRequest(t, u)
			_, _ = u.Do(t.Context(), r)
		}()
	}
	if n := testutil.ToFloat64(u.inFlight) + testutil.ToFloat64(u.connections.waiting); n != 0 {
		t.Errorf("%v calls are in progress", n)
	}
	u.pool.Dial = dial
	r, _ := testRequest(t, u)
	if _, failed := u.Do(t.Context(), r); failed != nil {
		t.Errorf("%+v", failed)
	}
}
