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

// TestR23_R26_CallsAreCutAtEveryByteThatTheUpstreamReads: the upstream closes the connection within the call. The
// call is sent once. A read fails, and the outcome of a write is unknown.
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

// TestR27_AnswersAreCutAtEveryByteThatTheCallerReads: the caller closes the connection within the answer. Its call
// was sent once, and the gateway goes on.
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

// reply is the success of an upstream of a form.
func (r wireRequest) reply(form string) string {
	const who, legacyWho = `"apiKey":"k","member":"m","merchant":"s"`, `"apikey":"k","member":"m","merchant":"s"`
	row := map[string][2]string{ // data in v2, and what stands behind code and msg in legacy
		"/bill":                  {`{` + who + `,"billId":"B1","hash":"h"}`, `,` + legacyWho + `,"bill_id":"B1","hash":"h"`},
		"/bill/resend":           {`{"apiKey":"k","billId":"B1"}`, ``},
		"/bill/read":             {`{"apiKey":"k","billId":"B1","apprState":"F","apprPrice":"1000"}`, `"apikey":"k","bill_id":"B1","appr_state":"F","appr_price":"1000"`},
		"/bill/destroy":          {`{"apiKey":"k","billId":"B1"}`, `,` + legacyWho + `,"bill_id":"B1","hash":"h"`},
		"/bill/cancel":           {`{` + who + `,"billId":"B1","hash":"h","apprNum":"1"}`, `,` + legacyWho + `,"bill_id":"B1","hash":"h","appr_num":"1"`},
		"/auth/mapping":          {`{"url":"https://x.example.com"}`},
		"/read/mapping":          {`[{"partnerMember":"m"}]`},
		"/auth/mapping/status":   {`{"apiKey":"k","reviewStatus":"P"}`},
		"/auth/merchant/mapping": {`null`},
		"/read/merchant":         {`[{"memberId":"m"}]`},
	}[strings.TrimSuffix(strings.TrimPrefix(r.path, "/if"), "/send")]
	switch {
	case form == "v2":
		return `{"code":"0000","message":"ok","data":` + row[0] + `}`
	case strings.HasSuffix(r.path, "/read"):
		return `{` + row[1] + `}`
	}
	return `{"code":"0000","msg":"ok"` + row[1] + `}`
}

// TestR24_R26_RepliesAreCutAtEveryByte: the upstream closes the connection within its reply, with a length and in
// chunks. No part of a reply is passed on: a read fails, a write has an unknown outcome. Each call is sent once.
func TestR24_R26_RepliesAreCutAtEveryByte(t *testing.T) {
	onCutStages(t, func(t *testing.T, r wireRequest, upstream string) {
		form := map[bool]string{false: "v2", true: "legacy"}[strings.HasPrefix(r.path, "/if/")]
		reply := r.reply(upstream)
		for _, whole := range []string{
			fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(reply), reply),
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + wireChunks(reply, len(reply)/2+1),
		} {
			sent, calls := whole, 0 // each call ends before the next one
			b := newGateway(t, oneUpstream(upstream, replyingUpstream(t, func() string { calls++; return sent })))
			for cut := range proxytest.Places(len(whole) + 1) {
				sent = whole[:cut]
				got := b.post(r.path, r.body)
				switch code := map[bool]string{true: "ERROR", false: "null"}[r.isRead()]; {
				case cut < len(whole):
					got.check(t, form, 502, code)
				case got.status != 200 || !strings.Contains(got.body, `"0000"`) && !strings.Contains(got.body, `"appr_state":"F"`):
					t.Errorf("whole: %d %s", got.status, got.body)
				}
				if calls != 1 || t.Failed() {
					t.Fatalf("cut at byte %d of %d: sent %d times", cut, len(whole), calls)
				}
				calls = 0
			}
		}
	})
}
