package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// A cutCall is one operation in one form, with the reply of an upstream of each form.
type cutCall struct {
	form, path, body string
	write            bool
	replies          map[string]string // by the form of the upstream
}

// cutCalls returns all fifteen calls of the interface.
func cutCalls() map[string]cutCall {
	const who = `"apiKey":"k","member":"m","merchant":"s"`
	const legacyWho = `"apikey":"k","member":"m","merchant":"s"`
	v2 := func(data string) string { return `{"code":"0000","message":"ok","data":` + data + `}` }
	calls := map[string]cutCall{}
	for op, row := range map[string]struct{ v2, legacy, v2Reply, legacyReply string }{
		"create":  {`"bill":{"billId":"B1","sendType":"TALK","price":1000}`, `"bill":{"bill_id":"B1","price":"1000"}`, `{` + who + `,"billId":"B1","hash":"h"}`, `{"code":"0000","msg":"ok",` + legacyWho + `,"bill_id":"B1","hash":"h"}`},
		"resend":  {`"bill":{"billId":"B1"}`, `"bill_id":"B1"`, `{"apiKey":"k","billId":"B1"}`, `{"code":"0000","msg":"ok"}`},
		"read":    {`"bill":{"billId":"B1"}`, `"bill_id":"B1"`, `{"apiKey":"k","billId":"B1","apprState":"F","apprPrice":"1000"}`, `{"apikey":"k","bill_id":"B1","appr_state":"F","appr_price":"1000"}`},
		"destroy": {`"bill":{"billId":"B1","price":1000,"hash":"h"}`, `"bill_id":"B1","price":"1000","hash":"h"`, `{"apiKey":"k","billId":"B1"}`, `{"code":"0000","msg":"ok",` + legacyWho + `,"bill_id":"B1","hash":"h"}`},
		"cancel":  {`"bill":{"billId":"B1","price":1000,"hash":"h"}`, `"bill_id":"B1","price":"1000","hash":"h"`, `{` + who + `,"billId":"B1","hash":"h","apprNum":"1"}`, `{"code":"0000","msg":"ok",` + legacyWho + `,"bill_id":"B1","hash":"h","appr_num":"1"}`},
	} {
		replies := map[string]string{"v2": v2(row.v2Reply), "legacy": row.legacyReply}
		calls["v2 bill."+op] = cutCall{"v2", newCall("v2", op).path(), `{` + who + `,` + row.v2 + `}`, op != "read", replies}
		calls["legacy bill."+op] = cutCall{"legacy", newCall("legacy", op).path(), `{` + legacyWho + `,` + row.legacy + `}`, op != "read", replies}
	}
	for path, row := range map[string]struct {
		body, reply string
		write       bool
	}{
		"/auth/mapping":          {`{"apiKey":"k","memberId":"m","merchantId":"s","callbackUrl":"https://p.example.com"}`, v2(`{"url":"https://x.example.com"}`), true},
		"/read/mapping":          {`{"apiKey":"k"}`, v2(`[{"partnerMember":"m"}]`), false},
		"/auth/mapping/status":   {`{` + who + `}`, v2(`{"apiKey":"k","reviewStatus":"P"}`), false},
		"/auth/merchant/mapping": {`{"apiKey":"k","memberId":"m","merchantId":"s"}`, v2(`null`), true},
		"/read/merchant":         {`{"apiKey":"k"}`, v2(`[{"memberId":"m"}]`), false},
	} {
		calls["v2 "+path] = cutCall{"v2", path, row.body, row.write, map[string]string{"v2": row.reply}}
	}
	return calls
}

// truncatingUpstream answers each call with the first bytes of a reply and closes the connection.
func truncatingUpstream(t *testing.T, reply string, chunked bool) (url string, whole int, at *atomic.Int64, calls *atomic.Int64) {
	t.Helper()
	head, body := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(reply)), reply
	if chunked {
		half := len(reply) / 2
		head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		body = fmt.Sprintf("%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", half, reply[:half], len(reply)-half, reply[half:])
	}
	bytes := head + body
	at, calls = new(atomic.Int64), new(atomic.Int64)
	return "http://" + proxytest.Listen(t, func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(testTimeout))
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		calls.Add(1)
		_, _ = io.WriteString(c, bytes[:at.Load()])
	}), len(bytes), at, calls
}

// The replies of all operations are cut at every byte, with a length and in chunks. No part of a reply is passed on: a
// read fails, a write has an unknown outcome. Each call is sent once.
func TestR24_R26_RepliesAreCutAtEveryByte(t *testing.T) {
	t.Parallel()
	for name, q := range cutCalls() {
		for upstream, reply := range q.replies {
			for _, chunked := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/chunked=%v", name, upstream, chunked), func(t *testing.T) {
					t.Parallel()
					url, whole, at, calls := truncatingUpstream(t, reply, chunked)
					b := newGateway(t, oneUpstream(upstream, url, "failures: {explain: 0s}"))
					for cut := range proxytest.Places(whole + 1) {
						at.Store(int64(cut))
						got := b.post(q.path, q.body)
						if n := calls.Swap(0); n != 1 {
							t.Fatalf("cut at byte %d: sent %d times", cut, n)
						}
						switch {
						case cut == whole:
							if got.status != 200 || !strings.Contains(got.body, `"0000"`) && !strings.Contains(got.body, `"appr_state":"F"`) {
								t.Errorf("whole: %d %s", got.status, got.body)
							}
						case q.write:
							got.check(t, q.form, 502, "null")
						default:
							got.check(t, q.form, 502, "ERROR")
						}
						if t.Failed() {
							t.Fatalf("cut at byte %d of %d", cut, whole)
						}
					}
				})
			}
		}
	}
}
