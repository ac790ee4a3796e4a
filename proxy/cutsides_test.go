package proxy_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// onCutStages runs a test for each of the fifteen requests and each form of an upstream that has its operation.
func onCutStages(t *testing.T, run func(t *testing.T, r wireRequest, upstream string)) {
	t.Parallel()
	for _, r := range wireRequests() {
		for _, upstream := range []string{"v2", "legacy"} {
			if upstream == "legacy" && !strings.Contains(r.path, "bill") {
				continue
			}
			t.Run(strings.ReplaceAll(r.path[1:], "/", " ")+"/"+upstream, func(t *testing.T) {
				t.Parallel()
				run(t, r, upstream)
			})
		}
	}
}

func cutConfig(form, url string) string {
	return anyPort + fmt.Sprintf("upstreams: {up: {form: %s, url: %q, timeout: 30s}}\nfailures: {explain: 0s}\n", form, url)
}

func (r wireRequest) isRead() bool {
	return strings.HasSuffix(r.path, "/bill/read") || strings.HasPrefix(r.path, "/read/") || r.path == "/auth/mapping/status"
}

// inLength and inChunks are the whole request.
func (r wireRequest) inLength() string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", r.path, len(r.body), r.body)
}

func (r wireRequest) inChunks() string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%s", r.path, wireChunks(r.body, 30))
}

// TestR10_RequestsAreCutAtEveryByte: the caller ends its side within the request. In the head it gets no
// answer or 400, in the body 400, and no upstream of either form gets a byte of it.
func TestR10_RequestsAreCutAtEveryByte(t *testing.T) {
	var cuts atomic.Int64
	t.Cleanup(func() { t.Logf("%d cuts", cuts.Load()) })
	onCutStages(t, func(t *testing.T, r wireRequest, form string) {
		u := newWireUpstream(t, form)
		g := newProcess(t, cutConfig(form, u.url))
		before := strings.Replace(r.inLength(), "Host: a\r\n", "Host: a\r\nX-Request-Id: before\r\n", 1) // so that the connection is accepted
		for _, whole := range []string{r.inLength(), r.inChunks()} {
			head := strings.Index(whole, "\r\n\r\n") + 4
			for cut := range proxytest.Places(len(whole)) {
				cuts.Add(1)
				answers, _ := wireAnswers(wireExchange(t, g.Address(), true, before, whole[:cut]))
				calls, violations := u.seen()
				if len(calls) != 1 || calls[0].id != "before" || len(violations) > 0 {
					t.Fatalf("cut at byte %d of %d: calls %v, violations %q", cut, len(whole), calls, violations)
				}
				if len(answers) == 0 || len(answers) > 2 || len(answers) == 2 && answers[1].status != 400 ||
					cut >= head && (len(answers) != 2 || !strings.Contains(answers[1].body, "VALIDATION_001")) {
					t.Fatalf("cut at byte %d of %d: %+v", cut, len(whole), answers)
				}
			}
		}
	})
}

// A cutUpstream reads so many bytes of each connection and closes it.
type cutUpstream struct {
	url   string
	at    atomic.Int64
	begun atomic.Int64 // connections of which at least a byte was wanted and came
	bytes atomic.Int64
}

func newCutUpstream(t *testing.T) *cutUpstream {
	u := &cutUpstream{}
	u.url = "http://" + proxytest.Listen(t, func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(wireTimeout))
		n, _ := io.ReadFull(c, make([]byte, u.at.Load()))
		u.begun.Add(1)
		u.bytes.Add(int64(n))
	})
	return u
}

// TestR23_R26_CallsAreCutAtEveryByteThatTheUpstreamReads: the upstream closes the connection within the call. The call is sent once. A
// read fails, and the outcome of a write is unknown.
func TestR23_R26_CallsAreCutAtEveryByteThatTheUpstreamReads(t *testing.T) {
	var cuts atomic.Int64
	t.Cleanup(func() { t.Logf("%d cuts", cuts.Load()) })
	onCutStages(t, func(t *testing.T, r wireRequest, form string) {
		measure := newWireUpstream(t, form) // of the call, which has the same length at each upstream of the form
		g := newProcess(t, cutConfig(form, measure.url))
		request := strings.Replace(r.inLength(), "Host: a\r\n", "Host: a\r\nX-Request-Id: first\r\nConnection: close\r\n", 1)
		wireExchange(t, g.Address(), false, request)
		calls, _ := measure.seen()
		if len(calls) != 1 {
			t.Fatal(calls)
		}
		length := len(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: billbridge/1.2.3\r\nContent-Length: %d\r\nAccept: application/json\r\nAccept-Encoding: identity\r\nContent-Type: application/json\r\nX-Request-Id: first\r\n\r\n",
			calls[0].path, measure.host, len(calls[0].body))) + len(calls[0].body)
		u := newCutUpstream(t)
		g = newProcess(t, cutConfig(form, u.url))
		for cut := range proxytest.Places(length + 1) {
			cuts.Add(1)
			u.at.Store(int64(cut))
			answers, _ := wireAnswers(wireExchange(t, g.Address(), false, request))
			if begun, bytes := u.begun.Swap(0), u.bytes.Swap(0); begun != 1 || bytes != int64(cut) {
				t.Fatalf("cut at byte %d of %d: %d connections, %d bytes", cut, length, begun, bytes)
			}
			code := `"code":null`
			if r.isRead() {
				code = `"code":"ERROR"`
			}
			if len(answers) != 1 || answers[0].status != 502 || !strings.Contains(answers[0].body, code) {
				t.Fatalf("cut at byte %d of %d: %+v", cut, length, answers)
			}
		}
	})
}

// TestR27_AnswersAreCutAtEveryByteThatTheCallerReads: the caller closes the connection within the answer. Its call was sent once, and the
// gateway goes on.
func TestR27_AnswersAreCutAtEveryByteThatTheCallerReads(t *testing.T) {
	var cuts atomic.Int64
	t.Cleanup(func() { t.Logf("%d cuts", cuts.Load()) })
	onCutStages(t, func(t *testing.T, r wireRequest, form string) {
		u := newWireUpstream(t, form)
		g := newProcess(t, cutConfig(form, u.url))
		request := strings.Replace(r.inLength(), "Host: a\r\n", "Host: a\r\nX-Request-Id: first\r\n", 1)
		whole := wireExchange(t, g.Address(), false, strings.Replace(request, "Host: a\r\n", "Host: a\r\nConnection: close\r\n", 1))
		if calls, violations := u.seen(); len(calls) != 1 || len(violations) > 0 {
			t.Fatalf("calls %v, violations %q", calls, violations)
		}
		for cut := range proxytest.Places(len(whole) - len("Connection: close\r\n")) {
			if cut == 0 {
				continue
			}
			cuts.Add(1)
			c := wireDial(t, g.Address())
			_, _ = io.WriteString(c, request)
			if _, err := io.ReadFull(c, make([]byte, cut)); err != nil {
				t.Fatalf("byte %d of %d: %v", cut, len(whole), err)
			}
			_ = c.SetLinger(0)
			_ = c.Close()
			if calls, violations := u.seen(); len(calls) != 1 || len(violations) > 0 {
				t.Fatalf("cut at byte %d of %d: calls %v, violations %q", cut, len(whole), calls, violations)
			}
		}
		answers, _ := wireAnswers(wireExchange(t, g.Address(), false, strings.Replace(request, "Host: a\r\n", "Host: a\r\nConnection: close\r\n", 1)))
		if len(answers) != 1 || answers[0].status != 200 || strings.Contains(g.logs.String(), `"msg":"panic"`) {
			t.Errorf("%+v\n%s", answers, g.logs)
		}
	})
}
