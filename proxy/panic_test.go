package proxy_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"billbridge/proxy"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"

	"github.com/prometheus/client_golang/prometheus"
)

// A panic is answered for its own request: with an unknown outcome for a write that may have been sent, otherwise with
// ERROR. The value of the panic is not shown, and other requests continue.
func TestR40_Panics(t *testing.T) {
	t.Parallel()
	for name, wreck := range map[string]func(proxy.UpstreamCall, func()) error{
		"before it is sent": func(proxy.UpstreamCall, func()) error { panic(canaryKey) },
		"after it was sent": func(_ proxy.UpstreamCall, next func()) error { next(); panic(canaryKey) },
	} {
		for _, client := range forms {
			parallel(t, name+"/"+client, func(t *testing.T) {
				back := newBackend(t, newService())
				b := newGateway(t, "upstreams: {up: {form: v2, url: "+back.url+"}, other: {form: v2, url: "+back.url+"}}\nroute: {default: up}\nfailures: {status: always-200}\n")
				b.WrapCalls("up", wreck)
				for _, op := range operations {
					got := b.send(newCall(client, op))
					want := wantAnswer{500, "ERROR"} // also with always-200, since a read has no answer
					if isWrite(op) {
						want = unknown
					}
					got.check(t, client, want)
					checkText(t, b.logs.String()+got.body, "!"+canaryKey)
				}
				equal(t, strings.Count(b.logs.String(), `"msg":"panic"`), 5)
				equal(t, strings.Count(b.logs.String(), `"msg":"request"`), 5)
				// The gateway still works.
				b.DoNotWrapCalls("up")
				b.expect(newCall(client, "create").with("billId", "1234567890ABCDEFGHIK"), success)
				b.checkMetrics(`billbridge_requests_in_flight{upstream="up"} 0`)
			})
		}
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
		panic(canaryKey)
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
	panic(canaryKey)
}

// The connection is closed, so that the caller does not take a part of the answer for the whole. The request is
// counted and logged.
func TestR40_PanicWithinTheAnswerClosesTheConnection(t *testing.T) {
	t.Parallel()
	b := newGatewayTo(t, "v2", newBackend(t, newService()))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.ServeHTTP(panicOnWrite{w}, r)
	}))
	t.Cleanup(server.Close)
	q := legacy("create")
	if got, err := doRequest(b.client, http.MethodPost, server.URL+q.path(), q.body()); err == nil {
		t.Errorf("%d %s", got.status, got.body)
	}
	b.logs.Next(t) // the panic
	if line := fields(t, b.logs.Next(t)); line["msg"] != "request" || line["reason"] != "internal error" {
		t.Errorf("%v", line)
	}
	b.checkMetrics(`billbridge_requests_total{client="legacy",code="none",operation="bill.create",status="500",upstream="up"} 1`)
	b.expect(legacy("read"), success)
}

// The caller has its answer whatever becomes of the ledger, the metrics, the log and the console, and it is counted as the
// caller got it.
func TestR40_PanicAfterTheAnswerKeepsTheAnswer(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ ledger, console bool }{"ledger": {ledger: true}, "console": {console: true}} {
		parallel(t, name, func(t *testing.T) {
			back := newBackend(t, newService())
			c := parse(t, fmt.Sprintf("upstreams: {old: {form: v2, url: %[1]q}, new: {form: v2, url: %[1]q}}\nroute: {default: old}\nrollout: {old: old, new: new, bills: shared}\n", back.url))
			router, err := rollout.New(t.Context(), c, rollout.Options{})
			must(t, err)
			b := &gateway{caller: caller{t: t, client: newClient(t, nil)}, logs: &proxytest.Log{}, registry: prometheus.NewRegistry()}
			b.Gateway, err = proxy.New(c, proxy.Options{
				Registerer: b.registry, Logger: slog.New(slog.NewJSONHandler(b.logs, nil)), Rollout: router,
				Finished: func(*proxy.Finished) {
					if row.console {
						panic(canaryKey)
					}
				},
			})
			must(t, err)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				restore := func() {}
				b.ServeHTTP(flushedWriter{w, func() error {
					if row.ledger {
						restore = b.LoseRollout()
					}
					return nil
				}}, r)
				restore()
			}))
			t.Cleanup(func() { server.Close(); b.Close() })
			b.url = server.URL
			for _, client := range forms {
				b.expect(newCall(client, "create").with("billId", "1234567890ABCDEFGHI"+client[:1]), success)
				b.checkMetrics(fmt.Sprintf(`billbridge_requests_total{client=%q,code="0000",operation="bill.create",status="200",upstream="old"} 1`, client))
			}
			if log := b.logs.String(); strings.Count(log, `"msg":"panic"`) != 2 || strings.Contains(log, canaryKey) {
				t.Error(log)
			}
		})
	}
}

type flushedWriter struct {
	http.ResponseWriter
	flush func() error
}

func (w flushedWriter) FlushError() error { return w.flush() }
