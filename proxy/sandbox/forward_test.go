package sandbox_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

// next makes a request of a forwarder of the demo partner.
func (r *rig) next(forwarder string) (next sandbox.Forwarded) {
	r.t.Helper()
	status, body := r.ctl(http.MethodPost, "/forwards", `{"partner":"`+demoKey+`","forwarder":"`+forwarder+`"}`)
	equal(r.t, status, http.StatusOK, body)
	must(r.t, json.Unmarshal([]byte(body), &next))
	return next
}

// The callbacks of a partner go to its connected forwarder and not to their URL. What it returns is the answer of the
// attempt; without one the attempt fails with a timeout. The callbacks of other partners go to their URL.
func TestForwardedCallback(t *testing.T) {
	t.Parallel()
	for _, row := range rowsIn(t, "forwards") {
		t.Run(row[0], func(t *testing.T) {
			t.Parallel()
			timeout := time.Minute
			if row[0] == "" {
				timeout = 300 * time.Millisecond
			}
			direct := newPartner(t, answerWith(200, successAnswer))
			r := start(t, sandbox.Options{CallbackTimeout: timeout})
			equal(t, r.next("f1").ID, "", "the first request does not wait")
			for _, key := range []string{demoKey, "demo-nourl-key"} {
				r.must(newCall("v2", "create").with("apiKey", key).with("callbackUrl", direct.url))
				must(t, r.Pay(key, billID))
			}
			got := r.next("f1")
			equal(t, got.Bill, billID)
			equal(t, got.URL, direct.url)
			equal(t, got.Header.Get("Content-Type"), "application/json; charset=utf-8")
			has(t, got.Body, `"apprState":"F"`)
			answer := func(id, fields string) int {
				status, _ := r.ctl(http.MethodPost, "/forwards/"+id, fields)
				return status
			}
			equal(t, answer("other", "{}"), http.StatusNotFound, "the answer to another callback")
			if row[0] != "" {
				equal(t, answer(got.ID, row[0]), http.StatusOK)
			}
			made := r.awaitOf(demoKey, row[1])
			if made.Wrong == "" != (row[2] == "") || !strings.Contains(made.Wrong, row[2]) {
				t.Errorf("the attempt: %+v, want %q", made, row[2])
			}
			equal(t, answer(got.ID, "{}"), http.StatusNotFound, "an answer after the end of the attempt")
			r.awaitOf("demo-nourl-key", "delivered")
			equal(t, len(direct.received()), 1, "callbacks to the URL: that of another partner")
		})
	}
}

// awaitOf waits for the first attempt of a partner's only callback.
func (r *rig) awaitOf(key, state string) (made sandbox.Attempt) {
	r.t.Helper()
	proxytest.Eventually(r.t, func() bool {
		for _, c := range r.Callbacks() {
			if c.Partner == key && len(c.Attempts) == 1 {
				made = c.Attempts[0]
				return c.State == state
			}
		}
		return false
	}, func() string { return encode(r.Callbacks()) })
	return made
}

// A forwarding test has a fake clock, and no socket.
type forwardTest struct {
	*sandbox.Service
	t      *testing.T
	direct *partner
}

func newForwardTest(t *testing.T) forwardTest {
	direct := &partner{answer: answerWith(200, successAnswer)}
	s := sandbox.New(sandbox.Options{Transport: direct})
	t.Cleanup(func() { _ = s.Close() })
	return forwardTest{s, t, direct}
}

// poll makes a request of a forwarder, which lose ends. ended has the body of the reply.
func (f forwardTest) poll(forwarder string) (ended chan string, lose func()) {
	ctx, lose := context.WithCancel(context.Background())
	q := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/forwards",
		strings.NewReader(`{"partner":"`+demoKey+`","forwarder":"`+forwarder+`"}`))
	ended = make(chan string, 1)
	go func() {
		w := httptest.NewRecorder()
		f.Control().ServeHTTP(w, q)
		ended <- w.Body.String()
	}()
	synctest.Wait()
	return ended, lose
}

// took returns how long a request took.
func took(ended chan string) (time.Duration, string) {
	began := time.Now()
	body := <-ended
	return time.Since(began), body
}

// A forwarder is connected for 15 s from the begin of its last request, or until it hangs up. Only one is connected.
func TestForwarderConnection(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		act  func(f forwardTest) // after f1 has connected
		free bool                // whether f2 can connect then
	}{
		"connected": {func(forwardTest) {}, false},
		"waits": {func(f forwardTest) {
			ended, _ := f.poll("f1")
			after, body := took(ended)
			equal(f.t, after, 10*time.Second, "the wait for a callback")
			has(f.t, body, `"id":""`)
		}, false},
		"within the lease": {func(forwardTest) { time.Sleep(14900 * time.Millisecond) }, false},
		"after the lease":  {func(forwardTest) { time.Sleep(15100 * time.Millisecond) }, true},
		"hung up": {func(f forwardTest) {
			ended, lose := f.poll("f1")
			lose()
			after, _ := took(ended)
			equal(f.t, after, 0*time.Second, "the end of a request whose client has ended")
			synctest.Wait()
		}, true},
		"hung up after another request": {func(f forwardTest) {
			_, lose := f.poll("f1")
			time.Sleep(time.Second)
			_, _ = f.poll("f1")
			lose()
			synctest.Wait()
		}, false},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newForwardTest(t)
				first, _ := f.poll("f1")
				after, _ := took(first)
				equal(t, after, 0*time.Second, "the request that connects")
				row.act(f)
				other, _ := f.poll("f2")
				_, body := took(other)
				equal(t, !strings.Contains(body, "another forwarder of the partner is connected"), row.free, body)
			})
		})
	}
}

// When a forwarder has hung up, the next callback goes to its URL. Close ends a request that waits.
func TestForwarderEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newForwardTest(t)
		pay := func(id string) {
			_, body := newCall("v2", "create").with("billId", id).encode()
			f.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/bill", strings.NewReader(body)))
			must(t, f.Pay(demoKey, id))
			synctest.Wait()
		}
		first, _ := f.poll("f1")
		<-first
		waits, hangUp := f.poll("f1")
		defer hangUp()
		pay("A1")
		has(t, <-waits, `"bill":"A1"`)
		equal(t, len(f.direct.received()), 0, "callbacks to the URL while the forwarder is connected")
		waits, hangUp = f.poll("f1")
		hangUp()
		<-waits
		synctest.Wait()
		pay("A2")
		equal(t, len(f.direct.received()), 1, "callbacks to the URL")
		first, _ = f.poll("f2")
		<-first
		waits, _ = f.poll("f2")
		must(t, f.Close())
		after, _ := took(waits)
		equal(t, after, 0*time.Second, "the end after Close")
	})
}
