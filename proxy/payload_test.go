package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/config"
)

// A call that is given up before it has a connection sends nothing. A call that has one is not cancelled: its outcome
// would be unknown.
func TestR27_GiveUpCancelsOnlyCallsWithoutConnection(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"given up", "connection"} {
		p := newPayload([]byte(`{}`))
		ours, theirs := net.Pipe()
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		if first == "given up" {
			p.giveUp(cancel, errGivenUp)
		}
		p.trace.GetConn("")
		p.trace.GotConn(httptrace.GotConnInfo{Conn: ours})
		if first == "connection" {
			p.giveUp(cancel, errGivenUp)
		}
		if p.sent() != (first == "connection") || (ctx.Err() == nil) != (first == "connection") || p.reusable() {
			t.Errorf("%s first: sent is %t, the context says %v, reusable is %t", first, p.sent(), ctx.Err(), p.reusable())
		}
		go func() { _, _ = ours.Write([]byte("{}")); _ = ours.Close() }()
		if got, _ := io.ReadAll(theirs); (len(got) > 0) != (first == "connection") {
			t.Errorf("%s first: %q was sent", first, got)
		}
	}
}

// A staleConn sends one request. Writing the second one fails, as on a connection that the server has just closed.
type staleConn struct {
	net.Conn
	writes        int
	reached, hold chan struct{}
}

func (c *staleConn) Write(p []byte) (int, error) {
	if c.writes++; c.writes > 1 {
		close(c.reached)
		<-c.hold
		return 0, errors.New("broken pipe")
	}
	return c.Conn.Write(p)
}

// When the server has closed the idle connection, the transport takes another one. The call is not sent on it if its
// caller has disconnected.
func TestR27_NoSecondConnectionForACallerThatHasGone(t *testing.T) {
	t.Parallel()
	for _, disconnects := range []bool{false, true} {
		var calls atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls.Add(1)
			_, _ = w.Write([]byte(`{"code":"0000"}`))
		}))
		t.Cleanup(s.Close)
		to, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		m, err := newMetrics(nil)
		if err != nil {
			t.Fatal(err)
		}
		u := newUpstream(&config.Upstream{
			Name: "up", Connections: 4, PartnerConnections: 4, Timeout: config.Duration(time.Minute), Wait: config.Duration(time.Minute),
		}, "test", m, slog.New(slog.DiscardHandler))
		stale := &staleConn{reached: make(chan struct{}), hold: make(chan struct{})}
		u.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			if stale.Conn == nil && err == nil {
				stale.Conn = c
				return stale, nil
			}
			return c, err
		}
		t.Cleanup(u.transport.CloseIdleConnections)
		if _, err := u.post(t.Context(), to, "first", newPayload([]byte("{}")), new(bytes.Buffer), 100); err != nil {
			t.Fatal(err)
		}
		p := newPayload([]byte("{}"))
		var disconnect context.CancelFunc
		p.sendCtx, disconnect = context.WithCancel(t.Context())
		defer disconnect()
		go func() {
			<-stale.reached
			if disconnects {
				disconnect()
			}
			close(stale.hold)
		}()
		_, err = u.post(t.Context(), to, "second", p, new(bytes.Buffer), 100)
		var failure *callError
		if disconnects && (!errors.As(err, &failure) || failure.reason != "given up" || failure.sent || calls.Load() != 1) {
			t.Errorf("%v, after %d calls", err, calls.Load())
		}
		if !disconnects && (err != nil || calls.Load() != 2) {
			t.Errorf("%v, after %d calls", err, calls.Load())
		}
	}
}
