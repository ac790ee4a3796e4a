package tracing

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"billbridge/config"
	"billbridge/proxy/proxytest"

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

// rowsIn returns the cells of the rows of a file of testdata, between |.
func rowsIn(t *testing.T, name string) (rows [][]string) {
	t.Helper()
	_, text, _ := strings.Cut(string(proxytest.ReadFile(t, "testdata/"+name+".txt")), "\n")
	for line := range strings.Lines(text) {
		rows = append(rows, strings.Split(strings.TrimSpace(line), " | "))
	}
	return rows
}

// quoted returns the quoted texts between & of a cell; none for -.
func quoted(t *testing.T, cell string) (list []string) {
	t.Helper()
	for part := range strings.SplitSeq(cell, " & ") {
		if text, err := strconv.Unquote(part); err == nil {
			list = append(list, text)
		} else if part != "-" {
			t.Fatalf("%s: %v", cell, err)
		}
	}
	return list
}

// Without tracing, a valid trace of a caller is passed on as it is, and nothing else is.
func TestTraceOfACallerIsPassedOn(t *testing.T) {
	t.Parallel()
	for _, row := range rowsIn(t, "callers") {
		parents, states, want := quoted(t, row[1]), quoted(t, row[2]), quoted(t, row[3])[0]
		h := http.Header{"Traceparent": parents, "Tracestate": states}
		for name, t2 := range map[string]*Tracing{"nil": nil, "off": newTracing(t, "", 0)} {
			span := t2.Call(h, "call")
			if got := headers(span); got != want || span.Sampled() {
				t.Errorf("%s, %s: %q, want %q", row[0], name, got, want)
			}
			if wantID := map[bool]string{true: id}[want != ""]; span.TraceID() != wantID {
				t.Errorf("%s: the trace is %q", row[0], span.TraceID())
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

var must = proxytest.Must
