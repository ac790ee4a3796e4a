package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy"
)

// A slowCaller is the connection of a caller that sends a part of its body, one byte more after a time, and then nothing until the deadline.
type slowCaller struct {
	*httptest.ResponseRecorder
	io.Reader
	more     time.Time
	deadline atomic.Pointer[time.Time] // the drain sets it, too
}

func (c *slowCaller) SetReadDeadline(at time.Time) error { c.deadline.Store(&at); return nil }
func (c *slowCaller) Close() error                       { return nil }

func (c *slowCaller) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != io.EOF {
		return n, err
	}
	for time.Now().Before(*c.deadline.Load()) {
		time.Sleep(100 * time.Millisecond)
		if !c.more.IsZero() && time.Now().After(c.more) {
			c.more = time.Time{}
			p[0] = ' '
			return 1, nil
		}
	}
	return 0, os.ErrDeadlineExceeded
}

// A body that arrives with less than 1 KiB per second is refused long before timeouts.body. During the drain a
// caller gets 5 seconds for the rest, also of a body that is fast enough.
func TestR15_SlowBodies(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		bytes  int
		drains bool
		after  time.Duration
	}{
		"slow": {1024, false, 6 * time.Second}, "nothing": {0, false, 5 * time.Second}, "much": {600 << 10, false, 10 * time.Minute},
		"drained": {600 << 10, true, time.Minute + 5*time.Second},
	} {
		parallel(t, name, func(t *testing.T) {
			c := parse(t, oneUpstream("v2", refusedURL, "timeouts: {body: 10m}", "limits: {body: 2MiB}"))
			synctest.Test(t, func(t *testing.T) {
				g, err := proxy.New(c, proxy.Options{})
				must(t, err)
				if row.drains {
					time.AfterFunc(time.Minute, g.Drain)
				}
				began := time.Now()
				caller := &slowCaller{ResponseRecorder: httptest.NewRecorder(), Reader: strings.NewReader(strings.Repeat(" ", row.bytes))}
				if row.drains {
					caller.more = began.Add(time.Minute + 2*time.Second)
				}
				g.ServeHTTP(caller, httptest.NewRequest(http.MethodPost, "/bill/read", caller))
				answer{caller.Code, caller.Header(), caller.Body.String()}.check(t, "v2", refused)
				if after := time.Since(began).Round(time.Second); after != row.after || !strings.Contains(caller.Body.String(), "Nothing was sent: the body came too late.") {
					t.Errorf("refused after %s, want %s: %s", after, row.after, caller.Body)
				}
				equal(t, caller.Header().Get("Connection"), "close")
			})
		})
	}
}
