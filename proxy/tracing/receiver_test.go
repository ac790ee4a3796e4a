package tracing

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/config"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
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
	for _, row := range rowsIn(t, "answers") {
		status, err := strconv.Atoi(row[1])
		must(t, err)
		headers, reply, logs := http.Header{}, strings.Join(quoted(t, row[3]), ""), strings.Join(quoted(t, row[5]), "")
		if row[2] == "protobuf" {
			headers = protobufAnswer
		} else if after := quoted(t, row[2]); after != nil {
			headers["Retry-After"] = after
		}
		times := strings.Fields(row[4])
		least, most := firstPause/2, 3*firstPause/2
		if len(times) > 1 {
			least, err = time.ParseDuration(times[1])
			must(t, err)
			most, err = time.ParseDuration(times[2])
			must(t, err)
		}
		t.Run(row[0], func(t *testing.T) {
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
					case status == 0:
						return nil, overdue{}
					case status < 0:
						return nil, errors.New("refused")
					}
					return answer(status, headers, []byte(reply))
				})
				tracing.end(3)
				time.Sleep(2 * exportWithin)
				tracing.Close(t.Context())
				if fmt.Sprint(len(at)) != times[0] {
					t.Fatalf("%d requests, want %s", len(at), times[0])
				}
				if len(at) == 2 {
					if pause := at[1].Sub(at[0]); pause < least || pause > most {
						t.Errorf("the second request came %s after the first, want %s to %s", pause, least, most)
					}
					if !bytes.Equal(bodies[0], bodies[1]) {
						t.Error("the second request has another body")
					}
				}
				want := map[bool]float64{true: 3}[logs != ""]
				if lost := testutil.ToFloat64(tracing.queue.lost); lost != want || !strings.Contains(log.String(), logs) {
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
