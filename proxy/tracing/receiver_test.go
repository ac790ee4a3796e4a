package tracing

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/config"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A transport answers requests of a receiver.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, headers http.Header, body []byte) (*http.Response, error) {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: headers, Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}

type overdue struct{}

func (overdue) Error() string   { return "overdue" }
func (overdue) Timeout() bool   { return true }
func (overdue) Temporary() bool { return true }

// An export is repeated, with the same body, if the receiver is overloaded or too slow. It waits as long as the receiver asks for. All other
// failures lose the spans at once.
func TestExportIsRetried(t *testing.T) {
	t.Parallel()
	protobufAnswer := http.Header{"Content-Type": {protobuf}}
	partial := func(rejected uint64, reason string) []byte {
		inner := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), rejected)
		inner = protowire.AppendString(protowire.AppendTag(inner, 2, protowire.BytesType), reason)
		return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), inner)
	}
	for _, row := range []struct {
		name     string
		status   int
		headers  http.Header
		body     []byte
		err      error
		requests int           // the second one is answered with 200
		least    time.Duration // between the first and the second
		most     time.Duration
		log      string
	}{
		{name: "429", status: 429, requests: 2, least: firstPause / 2, most: 3 * firstPause / 2},
		{name: "502", status: 502, requests: 2, least: firstPause / 2, most: 3 * firstPause / 2},
		{name: "503", status: 503, requests: 2, least: firstPause / 2, most: 3 * firstPause / 2},
		{name: "504", status: 504, requests: 2, least: firstPause / 2, most: 3 * firstPause / 2},
		{name: "a time to wait", status: 503, headers: http.Header{"Retry-After": {"20"}}, requests: 2, least: 20 * time.Second, most: 20 * time.Second},
		{name: "a date to wait for", status: 429, headers: http.Header{"Retry-After": {"Sat, 01 Jan 2000 00:00:21 GMT"}}, requests: 2, least: 19 * time.Second, most: 21 * time.Second},
		{name: "a time to wait that is not one", status: 429, headers: http.Header{"Retry-After": {"-1"}}, requests: 2, least: firstPause / 2, most: 3 * firstPause / 2},
		{name: "longer than an export may take", status: 503, headers: http.Header{"Retry-After": {"10000000000"}}, body: []byte("later"), requests: 1, log: "Service Unavailable: later"},
		{name: "no answer in time", err: overdue{}, requests: 2, least: firstPause / 2, most: 3 * firstPause / 2},
		{name: "no connection", err: errors.New("refused"), requests: 1, log: "refused"},
		{name: "400", status: 400, body: []byte("no\n"), requests: 1, log: "Bad Request: no"},
		{name: "500", status: 500, requests: 1, log: "Internal Server Error"},
		{name: "200", status: 200, headers: protobufAnswer, requests: 1},
		{name: "202 with another text", status: 202, body: []byte("\x0a\x02\x08\x07"), requests: 1},
		{name: "an empty partial success", status: 200, headers: protobufAnswer, body: partial(0, ""), requests: 1},
		{name: "a partial success", status: 200, headers: protobufAnswer, body: partial(2, "too old"), requests: 1, log: "spans that the receiver rejected: 2: too old"},
		{name: "a warning", status: 200, headers: protobufAnswer, body: partial(0, "soon full"), requests: 1, log: "soon full"},
		{name: "bytes that are no message", status: 200, headers: protobufAnswer, body: []byte{10, 200, 1}, requests: 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tracing, log := newLogged(t)
				tracing.Use(section(t, nowhere, 1))
				var at []time.Time
				var bodies [][]byte
				tracing.queue.to.Load().client.Transport = transport(func(r *http.Request) (*http.Response, error) {
					body, err := io.ReadAll(r.Body)
					if err != nil {
						t.Error(err)
					}
					at, bodies = append(at, time.Now()), append(bodies, body)
					switch {
					case len(at) == 2:
						return answer(http.StatusOK, protobufAnswer, nil)
					case row.err != nil:
						return nil, row.err
					}
					return answer(row.status, row.headers, row.body)
				})
				tracing.end(3)
				time.Sleep(2 * exportWithin)
				tracing.Close(t.Context())
				if len(at) != row.requests {
					t.Fatalf("%d requests, want %d", len(at), row.requests)
				}
				if len(at) == 2 {
					if pause := at[1].Sub(at[0]); pause < row.least || pause > row.most {
						t.Errorf("the second request came %s after the first, want %s to %s", pause, row.least, row.most)
					}
					if !bytes.Equal(bodies[0], bodies[1]) {
						t.Error("the second request has another body")
					}
				}
				want := map[bool]float64{true: 3}[row.log != ""]
				if lost := testutil.ToFloat64(tracing.queue.lost); lost != want || !strings.Contains(log.String(), row.log) {
					t.Errorf("%v spans are lost, want %v; the log has %q", lost, want, log)
				}
			})
		})
	}
}

// Spans that are exported make room for others. A full batch does not wait for more spans.
func TestQueueHasRoomAfterAnExport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracing, log := newLogged(t)
		tracing.Use(section(t, nowhere, 1))
		tracing.queue.to.Load().client.Transport = transport(func(*http.Request) (*http.Response, error) { return answer(http.StatusOK, nil, nil) })
		for range 3 {
			tracing.end(maxWaiting - maxBatch)
			synctest.Wait()
		}
		tracing.Close(t.Context())
		if lost := testutil.ToFloat64(tracing.queue.lost); lost != 0 {
			t.Errorf("%v spans are lost: %s", lost, log)
		}
	})
}

// exports returns the spans that a receiver gets, as text, and the attributes of the resource.
func exports(t *testing.T, c *config.Tracing, do func(*Tracing)) (spans []*otlp.Span, resource []string) {
	t.Helper()
	var got otlp.TracesData
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		unzip, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		data, err := io.ReadAll(unzip)
		if err == nil {
			err = proto.UnmarshalOptions{Merge: true}.Unmarshal(data, &got)
		}
		if err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	tracing, err := New(Options{Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	c.OTLP = section(t, server.URL, 1).OTLP
	tracing.Use(c)
	do(tracing)
	tracing.Close(t.Context())
	for _, one := range got.ResourceSpans {
		for _, a := range one.Resource.Attributes {
			resource = append(resource, a.Key+"="+a.Value.GetStringValue())
		}
		for _, scope := range one.ScopeSpans {
			spans = append(spans, scope.Spans...)
		}
	}
	slices.Sort(resource)
	return spans, resource
}

// OTEL_RESOURCE_ATTRIBUTES adds to the resource. It cannot rename the service.
func TestResourceHasTheAttributesOfTheEnvironment(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]string{
		"": nil,
		" deployment.environment.name = staging ,a=b%2Cc, half, =x, b=%zz,service.name=other,c=\xff": {
			"a=b,c", "b=%zz", "c=\uFFFD", "deployment.environment.name=staging",
		},
	} {
		_, got := exports(t, &config.Tracing{Sample: 1, Resource: list}, func(tracing *Tracing) { tracing.end(1) })
		if diff := cmp.Diff(append(want, "service.name=billbridge", "service.version=1.2.3"), got); diff != "" {
			t.Errorf("%q: -want +got\n%s", list, diff)
		}
	}
}

// A span is exported once, as it was when it ended. Text that is not UTF-8 does not prevent the export.
func TestSpanIsExportedAsItEnded(t *testing.T) {
	t.Parallel()
	const remote, known = 0x200, 0x100
	h := http.Header{"Traceparent": {"00-" + id + "-" + parent + "-03"}}
	spans, _ := exports(t, &config.Tracing{Sample: 1}, func(tracing *Tracing) {
		call := tracing.Call(h, "call")
		call.String(Code, "a\xffb")
		child := call.Internal("child")
		child.Fail("refused")
		for _, span := range []*Span{child, call} {
			span.End()
			span.End()
			span.Int(Status, 500)
			span.Fail("late")
		}
		tracing.Callback("cb_"+id, h, "receipt", time.Now().Add(-time.Hour)).End()
	})
	if len(spans) != 3 {
		t.Fatalf("%d spans: %v", len(spans), spans)
	}
	child, call, receipt := spans[0], spans[1], spans[2]
	if len(call.Attributes) != 1 || call.Attributes[0].Value.GetStringValue() != "a\uFFFDb" || call.Status != nil || call.Flags != 3|known|remote {
		t.Errorf("the call is %v", call)
	}
	if len(child.Attributes) != 1 || child.Attributes[0].Key != "error.type" || child.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR || child.Flags != 3|known || !bytes.Equal(child.ParentSpanId, call.SpanId) {
		t.Errorf("the child is %v", child)
	}
	if receipt.ParentSpanId != nil || receipt.Flags != 1|known || receipt.Links[0].Flags != 3|known|remote || time.Duration(receipt.EndTimeUnixNano-receipt.StartTimeUnixNano).Round(time.Minute) != time.Hour {
		t.Errorf("the receipt is %v", receipt)
	}
}
