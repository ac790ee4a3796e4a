package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"billbridge/proxy"
)

// A panic is answered for its own request: with an unknown outcome for a write that may have been sent, otherwise with
// ERROR. The value of the panic is not shown, and other requests continue.
func TestR40_Panics(t *testing.T) {
	t.Parallel()
	for name, wreck := range map[string]func(proxy.UpstreamCall, func()) error{
		"before it is sent": func(proxy.UpstreamCall, func()) error { panic(wireSecrets["key"]) },
		"after it was sent": func(_ proxy.UpstreamCall, next func()) error { next(); panic(wireSecrets["key"]) },
	} {
		eachForm(t, func(t *testing.T, client string) {
			back := newBackend(t, newService())
			b := newGateway(t, "upstreams: {up: {form: v2, url: "+back.url+"}, other: {form: v2, url: "+back.url+"}}\nroute: {default: up}\nfailures: {status: always-200}\n")
			b.WrapCalls("up", wreck)
			// 500 also with always-200, since a read has no answer
			play(b, "unknown CLIENT create,resend,destroy,cancel | !KEY\n500:ERROR CLIENT read | !KEY", "CLIENT", client, "KEY", wireSecrets["key"])
			checkText(t, b.logs.String(), "!"+wireSecrets["key"])
			equal(t, strings.Count(b.logs.String(), `"msg":"panic"`), 5, name)
			equal(t, strings.Count(b.logs.String(), `"msg":"request"`), 5, name)
			// The gateway still works.
			b.DoNotWrapCalls("up")
			play(b, "success "+client+" create billId=1234567890ABCDEFGHIK\nmetric billbridge_requests_in_flight{upstream=\"up\"} 0")
		})
	}
}

// A panicOnHeader panics at the first access to its header: with a reply that has Retry-After, that is between the
// upstream's reply and the gateway's answer.
type panicOnHeader struct {
	http.ResponseWriter
	panicked bool
}

func (w *panicOnHeader) Header() http.Header {
	if !w.panicked {
		w.panicked = true
		panic(wireSecrets["key"])
	}
	return w.ResponseWriter.Header()
}

// The upstream may have executed the write, so the failure must not look like a refusal.
func TestR40_PanicAfterTheReplyIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	back := newBackend(t, replyWith(200, `{"code":"0000","message":"x","data":{"apiKey":"`+demoKey+`","billId":"`+demoBill+`"}}`, "Retry-After", "1"))
	b := newGatewayTo(t, "v2", back)
	for _, client := range forms {
		for op, want := range map[string]wantAnswer{"create": unknown, "destroy": unknown, "read": {500, "ERROR"}} {
			q := newCall(client, op)
			w := httptest.NewRecorder()
			b.ServeHTTP(&panicOnHeader{ResponseWriter: w}, q.request())
			answer{w.Code, w.Header(), w.Body.String()}.check(t, client, want)
		}
	}
}

// A panicOnWrite panics within the answer.
type panicOnWrite struct{ http.ResponseWriter }

func (w panicOnWrite) Write(p []byte) (int, error) {
	_, _ = w.ResponseWriter.Write(p[:len(p)/2])
	panic(wireSecrets["key"])
}

// The connection is closed, so that the caller does not take a part of the answer for the whole. The request is
// counted and logged.
func TestR40_PanicWithinTheAnswerClosesTheConnection(t *testing.T) {
	t.Parallel()
	b := newBridge(t, "v2")
	b.wrap = func(w http.ResponseWriter) http.ResponseWriter { return panicOnWrite{w} }
	q := legacy("create")
	if got, err := doRequest(b.client, http.MethodPost, b.url+q.path(), q.body()); err == nil {
		t.Errorf("%d %s", got.status, got.body)
	}
	b.logs.Next(t) // the panic
	checkText(t, b.logs.Next(t), `"msg":"request"`, `"reason":"internal error"`)
	b.checkMetrics(`billbridge_requests_total{client="legacy",code="none",operation="bill.create",status="500",upstream="up"} 1`)
	b.wrap = nil
	b.expect(legacy("read"), success)
}

// The caller has its answer whatever becomes of the ledger, the metrics, the log and the console, and it is counted as the
// caller got it.
func TestR40_PanicAfterTheAnswerKeepsTheAnswer(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"ledger", "console"} {
		parallel(t, where, func(t *testing.T) {
			b := newGateway(t, sharedBills(newBackend(t, newService()).url))
			restore := func() {}
			b.wrap = func(w http.ResponseWriter) http.ResponseWriter {
				return callerWriter{w, nothing, func() error {
					if where == "ledger" {
						restore = b.LoseRollout()
					}
					return nil
				}}
			}
			b.finished = func(*proxy.Finished) {
				restore()
				if where == "console" {
					panic(wireSecrets["key"])
				}
			}
			for _, client := range forms {
				b.expect(newCall(client, "create").with("billId", "1234567890ABCDEFGHI"+client[:1]), success)
				b.checkMetrics(fmt.Sprintf(`billbridge_requests_total{client=%q,code="0000",operation="bill.create",status="200",upstream="old"} 1`, client))
			}
			checkText(t, b.logs.String(), "!"+wireSecrets["key"])
			equal(t, strings.Count(b.logs.String(), `"msg":"panic"`), 2)
		})
	}
}
