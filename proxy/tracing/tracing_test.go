package tracing

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unsafe"

	"billbridge/config"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
)

const (
	id       = "0af7651916cd43dd8448eb211c80319c"
	parent   = "b7ad6b7169203331"
	sampled  = "00-" + id + "-" + parent + "-01"
	declined = "00-" + id + "-" + parent + "-00"
)

// newTracing exports to a URL. With "" it is off.
func newTracing(t *testing.T, to string, sample config.Fraction) *Tracing {
	t.Helper()
	tracing, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if to != "" {
		tracing.Use(section(t, to, sample))
	}
	t.Cleanup(func() { tracing.Close(t.Context()) })
	return tracing
}

func section(t *testing.T, to string, sample config.Fraction) *config.Tracing {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	return &config.Tracing{OTLP: config.Address{URL: u}, Sample: sample}
}

// nowhere refuses every connection.
const nowhere = "http://127.0.0.2:9/v1/traces"

// headers returns the header lines that a span adds to a request.
func headers(s *Span) string { return strings.TrimPrefix(string(s.AppendHeaders(nil)), "\r\n") }

// Without tracing, a valid trace of a caller is passed on as it is, and nothing else is.
func TestTraceOfACallerIsPassedOn(t *testing.T) {
	t.Parallel()
	long := "a=" + strings.Repeat("x", 200) + ",b=" + strings.Repeat("x", 200) + ",c=" + strings.Repeat("x", 200)
	for _, row := range []struct {
		name          string
		parent, state []string
		want          string
	}{
		{"none", nil, nil, ""},
		{"sampled", []string{sampled}, nil, "traceparent: " + sampled},
		{"not sampled", []string{declined}, nil, "traceparent: " + declined},
		{"a random trace ID", []string{"00-" + id + "-" + parent + "-03"}, nil, "traceparent: 00-" + id + "-" + parent + "-03"},
		{"a later version", []string{"cc-" + id + "-" + parent + "-01-what-is\rthis"}, nil, "traceparent: " + sampled},
		{"a state", []string{sampled}, []string{"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"}, "traceparent: " + sampled + "\r\ntracestate: rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"},
		{"a state in two lines", []string{sampled}, []string{"a=1", "b=2"}, "traceparent: " + sampled + "\r\ntracestate: a=1,b=2"},
		{"an empty state", []string{sampled}, []string{""}, "traceparent: " + sampled},
		{"a long state", []string{sampled}, []string{long}, "traceparent: " + sampled},
		{"a line break in the state", []string{sampled}, []string{"a=1\r\nX-Evil: 1"}, "traceparent: " + sampled},
		{"control characters in the state", []string{sampled}, []string{"a=1\x00"}, "traceparent: " + sampled},
		{"text in the state that is not ASCII", []string{sampled}, []string{"a=카"}, "traceparent: " + sampled},
		{"a name twice in the state", []string{sampled}, []string{"a=1,a=2"}, "traceparent: " + sampled},
		{"33 entries in the state", []string{sampled}, []string{strings.Repeat("a=1,", 33)}, "traceparent: " + sampled},
		{"a state alone", nil, []string{"a=1"}, ""},
		{"two lines", []string{sampled, sampled}, nil, ""},
		{"empty", []string{""}, nil, ""},
		{"capital letters", []string{strings.ToUpper(sampled)}, nil, ""},
		{"a zero trace", []string{"00-" + strings.Repeat("0", 32) + "-" + parent + "-01"}, nil, ""},
		{"a zero parent", []string{"00-" + id + "-0000000000000000-01"}, nil, ""},
		{"version ff", []string{"ff-" + id + "-" + parent + "-01"}, nil, ""},
		{"more than version 00 has", []string{sampled + "-x"}, nil, ""},
		{"a line break at the end", []string{sampled + "\r\nX-Evil: 1"}, nil, ""},
		{"a line break inside", []string{"00-" + id + "-\r\n" + parent[2:] + "-01"}, nil, ""},
		{"blanks", []string{" " + sampled}, nil, ""},
		{"short", []string{sampled[:54]}, nil, ""},
		{"flags that are not hexadecimal", []string{sampled[:53] + "0g"}, nil, ""},
		{"two in one line", []string{sampled + "," + sampled}, nil, ""},
	} {
		h := http.Header{"Traceparent": row.parent, "Tracestate": row.state}
		for name, t2 := range map[string]*Tracing{"nil": nil, "off": newTracing(t, "", 0)} {
			span := t2.Call(h, "call")
			if got := headers(span); got != row.want || span.Sampled() {
				t.Errorf("%s, %s: %q, want %q", row.name, name, got, row.want)
			}
			if wantID := map[bool]string{true: id}[row.want != ""]; span.TraceID() != wantID {
				t.Errorf("%s: the trace is %q", row.name, span.TraceID())
			}
		}
	}
}

// A caller without a trace gets a new one while tracing is on, and the upstream gets the decision.
func TestNewTracesAreDrawn(t *testing.T) {
	t.Parallel()
	tracing := newTracing(t, nowhere, 0.25)
	drawn, seen := 0, map[string]bool{}
	const calls = 10_000
	for range calls {
		span := tracing.Call(nil, "call")
		if span.Sampled() {
			drawn++
		}
		if want := map[bool]string{true: "-01", false: "-00"}[span.Sampled()]; !strings.HasSuffix(headers(span), want) || seen[span.TraceID()] {
			t.Fatalf("sampled %v: %s", span.Sampled(), headers(span))
		}
		seen[span.TraceID()] = true
	}
	if drawn < calls/5 || drawn > calls*3/10 { // 10 standard deviations
		t.Errorf("%d of %d calls were drawn, want about a quarter", drawn, calls)
	}
}

// A caller can decide that its call is not sampled. If it wants all of its calls to be sampled, a bounded number is.
func TestCallersCannotHaveEveryCallSampled(t *testing.T) {
	t.Parallel()
	tracing := newTracing(t, nowhere, 0)
	h := http.Header{"Traceparent": {declined}, "Tracestate": {"a=1"}}
	if span := tracing.Call(h, "call"); span.Sampled() || headers(span) != "traceparent: "+declined+"\r\ntracestate: a=1" {
		t.Errorf("the caller has declined: %s", headers(span))
	}
	h.Set("Traceparent", sampled)
	taken, spans := 0, map[string]bool{}
	for range 1000 {
		span := tracing.Call(h, "call")
		want := "traceparent: 00-" + id + "-" + span.place.SpanID().String() + "-00\r\ntracestate: a=1"
		if span.Sampled() {
			want = strings.Replace(want, "-00\r", "-01\r", 1)
			taken++
		}
		if headers(span) != want || spans[span.place.SpanID().String()] {
			t.Fatalf("%s, want %s", headers(span), want)
		}
		spans[span.place.SpanID().String()] = true
		span.End()
	}
	if taken < callersPerSecond || taken > 10*callersPerSecond { // a slow machine takes some seconds
		t.Errorf("%d of 1000 were sampled, want %d a second", taken, callersPerSecond)
	}
	if span := newTracing(t, nowhere, 1).Call(http.Header{"Traceparent": {declined}}, "call"); span.Sampled() {
		t.Error("with sample 1 a call is sampled that its caller has declined")
	}
	all := newTracing(t, nowhere, 1)
	for range 100 {
		if span := all.Call(h, "call"); !span.Sampled() {
			t.Fatal("with sample 1 a call is not sampled that its caller wants to be")
		}
	}
}

// All spans of a callback are in one trace, also those of another process, and all are sampled or none.
func TestCallbacksHaveOneTrace(t *testing.T) {
	t.Parallel()
	const callback = "cb_" + id
	first, second, off := newTracing(t, nowhere, 1), newTracing(t, nowhere, 1), newTracing(t, "", 0)
	receipt := first.Callback(callback, http.Header{"Traceparent": {"00-11111111111111111111111111111111-2222222222222222-01"}}, "receipt", now())
	want := trace.NewSpanContext(trace.SpanContextConfig{TraceID: receipt.place.TraceID(), SpanID: receipt.place.SpanID()})
	if receipt.TraceID() != id || want.SpanID().String() != id[:16] {
		t.Fatalf("the receipt is at %s %s", receipt.TraceID(), want.SpanID())
	}
	for _, tracing := range []*Tracing{first, second} {
		span := tracing.Attempt(callback, "attempt")
		if !span.Sampled() || span.TraceID() != id || span.place.SpanID() == want.SpanID() {
			t.Errorf("an attempt is at %s %s", span.TraceID(), span.place.SpanID())
		}
	}
	for _, tracing := range []*Tracing{nil, off} {
		if span := tracing.Attempt(callback, "attempt"); span != nil { // a partner that got this trace would record nothing of it
			t.Errorf("an attempt without tracing: %s", headers(span))
		}
		if tracing.Callback(callback, nil, "receipt", now()) != nil {
			t.Error("a receipt without tracing")
		}
	}
	for _, other := range []string{"", "cb_", id, "cb_" + strings.Repeat("0", 32), "cb_" + id + "0", "cb_" + strings.ToUpper(id)} {
		if span := first.Attempt(other, "attempt"); span != nil {
			t.Errorf("the callback %q: %s", other, headers(span))
		}
	}
	some := newTracing(t, nowhere, 0.5)
	for range 100 {
		random := "cb_" + newTraceID().String()
		if a, b := some.Callback(random, nil, "receipt", now()).Sampled(), some.Attempt(random, "attempt") != nil; a != b {
			t.Fatalf("the receipt of %s is sampled: %v; an attempt: %v", random, a, b)
		}
	}
	h := http.Header{}
	second.Attempt(callback, "attempt").SetHeader(h)
	if diff := cmp.Diff([]string{"Traceparent"}, keys(h)); diff != "" {
		t.Error(diff)
	}
}

func keys(h http.Header) (list []string) {
	for name := range h {
		list = append(list, name)
	}
	return list
}

// A value may be a part of a buffer that is used for another call before the export.
func TestValuesAreCopied(t *testing.T) {
	t.Parallel()
	span, buffer := newTracing(t, nowhere, 1).Call(nil, "call"), []byte("0000")
	span.String(Code, unsafe.String(&buffer[0], len(buffer)))
	copy(buffer, "9999")
	if got := span.export.Attributes[0].Value.GetStringValue(); got != "0000" {
		t.Errorf("the code is %s", got)
	}
}

// A call without a trace allocates nothing.
func TestNothingIsAllocatedWithoutTracing(t *testing.T) {
	off, h, head := newTracing(t, "", 0), http.Header{"Content-Type": {"application/json"}}, make([]byte, 0, 100)
	if n := testing.AllocsPerRun(100, func() {
		span := off.Call(h, "call")
		child := span.Internal("translate")
		child.Fail("refused")
		child.End()
		request := span.Request("request")
		head = request.AppendHeaders(head[:0])
		request.String(Upstream, "new")
		request.Int(Status, 200)
		request.End()
		if span.Sampled() || span.TraceID() != "" || len(head) > 0 {
			t.Fatal("there is a trace")
		}
		span.End()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
