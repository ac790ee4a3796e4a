package proxy_test

import (
	"compress/gzip"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A span is one that the receiver got.
type span struct {
	trace, id, parent, name string
	kind                    string
	failed                  bool
	attributes              map[string]any
}

// A otlpReceiver is a receiver of OTLP over HTTP, as OpenTelemetry's collector is one.
type otlpReceiver struct {
	url     string
	mu      sync.Mutex
	spans   []span
	bytes   []byte // of all exports, decompressed
	headers http.Header
}

func newOTLPReceiver(t testing.TB) *otlpReceiver {
	t.Helper()
	r := &otlpReceiver{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := r.receive(req); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(nil) // an ExportTraceServiceResponse without a partial success
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *otlpReceiver) receive(req *http.Request) error {
	got := fmt.Sprint(req.Method, req.URL.Path, req.Header["Content-Type"], req.Header["Content-Encoding"])
	if got != "POST/v1/traces[application/x-protobuf] [gzip]" {
		return errors.New(got)
	}
	var data []byte
	unzip, err := gzip.NewReader(req.Body)
	if err == nil {
		data, err = io.ReadAll(unzip)
	}
	var export otlp.TracesData // the same on the wire as an ExportTraceServiceRequest, whose package needs gRPC
	if err := errors.Join(err, proto.Unmarshal(data, &export)); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.headers, r.bytes = req.Header, append(r.bytes, data...)
	for _, resource := range export.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				one := span{
					trace: hex.EncodeToString(s.TraceId), id: hex.EncodeToString(s.SpanId), parent: hex.EncodeToString(s.ParentSpanId), name: s.Name,
					kind: strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_"), failed: s.GetStatus().GetCode() == 2, attributes: map[string]any{},
				}
				for _, a := range s.Attributes {
					one.attributes[a.Key] = a.Value.GetStringValue()
					if one.attributes[a.Key] == "" {
						one.attributes[a.Key] = int(a.Value.GetIntValue())
					}
				}
				if s.EndTimeUnixNano < s.StartTimeUnixNano || s.TraceState != "" {
					return fmt.Errorf("a span from %d to %d with the state %q", s.StartTimeUnixNano, s.EndTimeUnixNano, s.TraceState)
				}
				r.spans = append(r.spans, one)
			}
		}
	}
	return nil
}

func (r *otlpReceiver) all() []span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// waitFor waits for n spans with a name.
func (r *otlpReceiver) waitFor(t testing.TB, n int, name string) (found []span) {
	t.Helper()
	proxytest.Eventually(t, func() bool {
		found = nil
		for _, s := range r.all() {
			if s.name == name {
				found = append(found, s)
			}
		}
		return len(found) >= n
	}, func() string { return fmt.Sprintf("%d spans %q among %+v", len(found), name, r.all()) })
	return found
}

// The trace of a caller, in the example of W3C Trace Context.
const (
	callerTrace  = "0af7651916cd43dd8448eb211c80319c"
	callerSpan   = "b7ad6b7169203331"
	callerParent = "00-" + callerTrace + "-" + callerSpan + "-01"
)

// newTracedGateway is a gateway with a rollout in stage new between two sandboxes, callbacks, and a receiver of spans.
func newTracedGateway(t *testing.T) (*callbackGateway, *otlpReceiver) {
	t.Helper()
	r, spans := newCallbackParties(t), newOTLPReceiver(t)
	s := proxytest.BeginRollout(t, "sqlite:"+r.file, partner.Of(demoKey))
	must(t, s.Change(t.Context(), store.Change{Action: store.Staged, To: "new", By: "test", At: time.Now()}))
	r.process = newProcess(t, anyPort+fmt.Sprintf(`
upstreams:
  old: {form: legacy, url: %q}
  new: {form: v2, url: %q}
route: {default: old}
rollout: {old: old, new: new}
store: {url: "sqlite:%s"}
tracing: {otlp: %q, sample: 1, headers: {api-key: s3cret}}
`, newBackend(t, newService()).url, r.back.url, r.file, spans.url)+callbacksOn)
	return r, spans
}

// A create in the legacy form, at a v2 backend during a rollout, and the callback of its payment.
func TestSpansOfACallAndItsCallback(t *testing.T) {
	t.Parallel()
	r, spans := newTracedGateway(t)
	create := legacy("create").with("callbackUrl", r.partner.url+"/paid")
	r.post(create.path()+"?secret=1", create.body(), "Traceparent", callerParent, "Tracestate", "vendor=1").check(t, "legacy", success)
	must(t, r.service.Pay("", demoBill))
	delivered := r.nthCallback(1)

	one := func(name string) span { return spans.waitFor(t, 1, name)[0] }
	exchange := one("POST /if/bill/send")
	address := strings.TrimPrefix(r.back.url, "http://")
	_, port, _ := strings.Cut(address, ":")
	words := strings.NewReplacer("ID", partner.Of(demoKey).Short(), "ADDRESS", address, "PORT", port)
	checkSpan := func(s span, trace, parent, rest string) {
		t.Helper()
		equal(t, fmt.Sprint([]string{s.trace, s.parent, s.kind}, s.attributes, s.failed), fmt.Sprint("[", trace, " ", parent, " ", words.Replace(rest), " false"))
	}
	checkSpan(exchange, callerTrace, callerSpan, "SERVER] map[billbridge.client:legacy billbridge.code:0000 "+
		"billbridge.operation:bill.create billbridge.partner:ID billbridge.route:stage billbridge.upstream:new http.request.method:POST "+
		"http.response.status_code:200 http.route:/if/bill/send url.path:/if/bill/send url.scheme:http]")
	for _, name := range []string{"ledger complete", "translate request", "translate reply", "store callback address", "ledger route"} {
		checkSpan(one(name), callerTrace, exchange.id, "INTERNAL] map[]")
	}
	probe, sent := one("POST /if/bill/read"), one("POST /bill")
	equal(t, fmt.Sprint(probe.parent, probe.kind, probe.attributes["billbridge.upstream"]), one("ledger route").id+"CLIENTold", probe)
	checkSpan(sent, callerTrace, exchange.id, "CLIENT] map[billbridge.upstream:new http.request.method:POST "+
		"http.response.status_code:200 server.address:127.0.0.1 server.port:PORT url.full:http://ADDRESS/bill]")
	got := r.back.first(t).header
	equal(t, got.Get("Traceparent"), "00-"+callerTrace+"-"+sent.id+"-01")
	equal(t, got.Get("Tracestate"), "vendor=1")

	receipt, attempt := one("POST /callback/{id}"), one("POST")
	trace := strings.TrimPrefix(delivered.header.Get("Webhook-Id"), "cb_")
	equal(t, receipt.trace+" "+receipt.parent, trace+" ")
	equal(t, delivered.header.Get("Traceparent"), "00-"+trace+"-"+attempt.id+"-01")
	checkSpan(attempt, trace, receipt.id, "CLIENT] map[billbridge.operation:callback.payment billbridge.partner:ID "+
		"billbridge.upstream:new http.request.method:POST http.request.resend_count:0 http.response.status_code:200]")
	equal(t, spans.headers.Get("Api-Key"), "s3cret", spans.headers)
	checkText(t, r.logs.String(), `"trace_id":"`+callerTrace+`"`)
}

// A caller writes secrets wherever it can. No exported byte has them, nor has an exemplar.
func TestR35_SpansShowNoSecrets(t *testing.T) {
	t.Parallel()
	r, spans := newTracedGateway(t)
	calls := 0
	ask := func(method, path, body string) {
		t.Helper()
		calls++
		_, err := doRequest(r.client, method, r.url+path, body,
			"Traceparent", callerParent, "Tracestate", "a="+canaryKey, "X-Request-Id", canaryKey, "User-Agent", canaryName, "Referer", canaryHash,
			"Baggage", "k="+canaryKey, "X-Forwarded-For", canaryPhone, "Authorization", "Bearer "+canaryKey)
		must(t, err)
	}
	for _, client := range forms {
		for _, op := range operations {
			for _, body := range canaryCalls(client, op) {
				ask("POST", newCall(client, op).path()+"?key="+canaryKey, body)
			}
		}
	}
	create := v2("create").with("billId", "CANARY0451").with("memberName", canaryName).with("phone", canaryPhone).with("callbackUrl", r.partner.url+"/"+canaryKey+"?token="+canaryHash)
	ask("POST", create.path(), create.body())
	ask("POST", "/"+canaryKey, "{}")
	ask("POST", "/bill/read/"+canaryKey, "{}")
	ask("CANARY0451", "/bill", "{}")
	must(t, r.service.Pay("", "CANARY0451"))
	r.nthCallback(1)
	metrics := r.admin("GET", "/metrics", "Accept", openMetrics).body
	r.stopAndWait()
	served := 0
	for _, s := range spans.all() {
		if s.kind == "SERVER" {
			served++
		}
	}
	equal(t, served, calls-1)
	for _, canary := range append([]string{"CANARY0451", "token="}, canaries...) {
		for what, text := range map[string]string{"spans": string(spans.bytes), "metrics": metrics} {
			if i := strings.Index(text, canary); i >= 0 {
				t.Errorf("%s in the %s: …%q", canary, what, text[max(0, i-200):min(len(text), i+80)])
			}
		}
	}
	equal(t, r.back.first(t).header.Get("Tracestate"), "a="+canaryKey)
}
