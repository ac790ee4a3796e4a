// Package tracing reads the trace context of a call, passes it on to upstreams and partners, and exports the spans of
// sampled calls by OTLP.
//
//	t, err := tracing.New(tracing.Options{Registerer: registry, Logger: logger})
//	t.Use(config.Tracing)                        // nil: no spans are exported
//	call := t.Call(request.Header, "POST /bill/read")
//	defer call.End()
//	head = call.AppendHeaders(head)              // of the request to the upstream
//
// A nil [Span] is that of a call without a trace. Its methods do nothing, so such a call costs two comparisons.
//
// This is the only package that imports OpenTelemetry.
package tracing

import (
	"context"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/config"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

// Options are the options of New.
type Options struct {
	Registerer prometheus.Registerer // if nil, the metric is not exposed
	Logger     *slog.Logger          // if nil, nothing is logged
	Version    string                // of the service, in the spans
}

// A Tracing decides which calls are sampled, and exports their spans. It is safe for concurrent use. A nil *Tracing
// exports nothing.
type Tracing struct {
	current atomic.Pointer[settings] // nil: off
	callers *rate.Limiter            // of calls that are sampled only because traceparent has the sampled flag
	queue   queue

	mu       sync.Mutex
	provider *sdktrace.TracerProvider // nil until tracing is on for the first time
	config   *config.Tracing          // of the last Use
	closed   bool
	version  string
}

// settings are those of one config.
type settings struct {
	sample float64
	below  uint64 // see draws
	tracer trace.Tracer
}

// callersPerSecond is how many calls per second are sampled only because their traceparent has the sampled flag. A
// partner that sets the flag in every call must not fill the receiver.
const callersPerSecond = 10

// New returns a Tracing that is off until Use, and registers its metric.
func New(o Options) (*Tracing, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Tracing{callers: rate.NewLimiter(callersPerSecond, callersPerSecond), version: o.Version}
	t.queue.init(o.Logger)
	if o.Registerer == nil {
		return t, nil
	}
	return t, o.Registerer.Register(t.queue.lost)
}

// Use replaces the config. With nil no further spans begin. Spans that wait for their export go to the receiver of the
// new config. After Close it has no effect: a reload may outlast the drain, and the spans of an ended provider have no
// IDs.
func (t *Tracing) Use(c *config.Tracing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	if c == nil {
		t.config = nil
		t.current.Store(nil)
		return
	}
	if !reflect.DeepEqual(t.config, c) {
		t.queue.exportTo(c)
	}
	if t.provider == nil {
		t.provider = sdktrace.NewTracerProvider(
			sdktrace.WithResource(resource.NewWithAttributes(semconv.SchemaURL,
				semconv.ServiceName("billbridge"), semconv.ServiceVersion(t.version))),
			sdktrace.WithSampler(sdktrace.AlwaysSample()), // a span begins only if its call is sampled
			sdktrace.WithIDGenerator(generator{}),
			sdktrace.WithSpanProcessor(t.queue.begin()),
		)
	}
	t.config = c
	t.current.Store(&settings{
		sample: float64(c.Sample), below: uint64(float64(c.Sample) * (1 << 63)),
		tracer: t.provider.Tracer("billbridge/proxy", trace.WithSchemaURL(semconv.SchemaURL)),
	})
}

// Close exports the spans that have ended, until ctx ends. Spans that are not exported by then are lost. No further
// spans begin.
func (t *Tracing) Close(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current.Store(nil)
	t.closed = true
	if t.provider == nil {
		return
	}
	defer context.AfterFunc(ctx, t.queue.end)()
	_ = t.provider.Shutdown(context.WithoutCancel(ctx)) // the queue returns no errors
}

// Exports reports whether spans are exported.
func (t *Tracing) Exports() bool { return t.settings() != nil }

func (t *Tracing) settings() *settings {
	if t == nil {
		return nil
	}
	return t.current.Load()
}

// Call returns the span of a call: in the trace of its caller, or in a new trace. It returns nil if tracing is off and
// the caller has sent no valid traceparent.
//
// A call is never sampled if traceparent has the sampled flag 0. Otherwise it is sampled with the probability of the
// config. With the flag 1, callersPerSecond more calls are sampled.
func (t *Tracing) Call(h http.Header, name string) *Span {
	given, s := sent(h), t.settings()
	switch {
	case s == nil && !given.IsValid():
		return nil
	case s == nil, given.IsValid() && !given.IsSampled():
		return &Span{place: given}
	case !given.IsValid():
		place := newPlace(newTraceID(), newSpanID())
		if !s.draws(place.TraceID()) {
			return &Span{place: place}
		}
		return s.root(place, name, trace.SpanKindServer)
	case rand.Float64() < s.sample || t.callers.Allow(): // not by the trace ID, which the caller has chosen
		return s.child(given, name, trace.SpanKindServer)
	}
	// With a span ID of its own, because only a participant that adds a span may clear the flag.
	return &Span{place: given.WithSpanID(newSpanID()).WithTraceFlags(given.TraceFlags() &^ trace.FlagsSampled)}
}

// draws reports whether the sampled fraction includes a trace. The result depends only on the trace ID, so it is the
// same in every process. It is that of OpenTelemetry's TraceIDRatioBased, but takes less time.
func (s *settings) draws(id trace.TraceID) bool { return binary.BigEndian.Uint64(id[8:])>>1 < s.below }

// root begins the first span of a trace, with the IDs of place.
func (s *settings) root(place trace.SpanContext, name string, kind trace.SpanKind, o ...trace.SpanStartOption) *Span {
	ctx := context.WithValue(context.Background(), placeKey{}, place)
	_, span := s.tracer.Start(ctx, name, append(o, trace.WithSpanKind(kind))...)
	return &Span{place: span.SpanContext(), span: span, settings: s}
}

// child begins a span below another one.
func (s *settings) child(parent trace.SpanContext, name string, kind trace.SpanKind, o ...trace.SpanStartOption) *Span {
	state := parent.TraceState()
	parent = parent.WithTraceState(trace.TraceState{}) // passed on, but not exported: the caller has written it
	ctx := trace.ContextWithSpanContext(context.Background(), parent)
	_, span := s.tracer.Start(ctx, name, append(o, trace.WithSpanKind(kind))...)
	return &Span{place: span.SpanContext().WithTraceState(state), span: span, settings: s}
}

// maxState is the length of the longest tracestate that is passed on. Every participant should pass on so much (W3C
// Trace Context, 3.3.1.5).
const maxState = 512

// sent returns the trace context that a caller has sent. It is not valid if the headers are missing or break the rules
// of W3C Trace Context.
func sent(h http.Header) trace.SpanContext {
	parents := h["Traceparent"]
	if len(parents) != 1 {
		return trace.SpanContext{}
	}
	state := strings.Join(h["Tracestate"], ",") // the list may be in several lines
	if len(state) > maxState {
		state = ""
	}
	carrier := propagation.MapCarrier{"traceparent": parents[0], "tracestate": state}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// A generator gives a root span the IDs in its context, and other spans random IDs.
type generator struct{}

type placeKey struct{}

func (generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	place, _ := ctx.Value(placeKey{}).(trace.SpanContext)
	return place.TraceID(), place.SpanID()
}

func (generator) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return newSpanID() }

func newPlace(id trace.TraceID, span trace.SpanID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span})
}

func newTraceID() (id trace.TraceID) {
	binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(id[8:], rand.Uint64()|1) // zero is no ID
	return id
}

func newSpanID() (id trace.SpanID) {
	binary.NativeEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}

// Callback returns the first span of the trace of a callback: its receipt from an upstream, which began at since. The
// span has a link to the trace of the upstream, if h has one. Callback returns nil if the callback is not sampled.
//
// The trace ID is the random part of the callback's ID, and the span ID is its first half. So all attempts are in the
// trace of the receipt, also after a restart, and the store has no trace IDs.
func (t *Tracing) Callback(id string, h http.Header, name string, since time.Time) *Span {
	place, s := t.sampledCallback(id)
	if s == nil {
		return nil
	}
	o := []trace.SpanStartOption{trace.WithTimestamp(since)}
	if upstream := sent(h); upstream.IsValid() {
		o = append(o, trace.WithLinks(trace.Link{SpanContext: upstream.WithTraceState(trace.TraceState{})}))
	}
	return s.root(place, name, trace.SpanKindServer, o...)
}

// Attempt returns the span of one attempt to deliver a callback. It returns nil if the callback is not sampled.
func (t *Tracing) Attempt(id, name string) *Span {
	place, s := t.sampledCallback(id)
	if s == nil {
		return nil
	}
	return s.child(place.WithRemote(true), name, trace.SpanKindClient)
}

// sampledCallback returns the trace context of the receipt of a callback. The settings are nil if the callback is not
// sampled, which is also so if its ID has another format.
func (t *Tracing) sampledCallback(id string) (place trace.SpanContext, s *settings) {
	digits, ok := strings.CutPrefix(id, "cb_")
	traceID, err := trace.TraceIDFromHex(digits)
	place = newPlace(traceID, trace.SpanID(traceID[:8]))
	if s = t.settings(); s == nil || !ok || err != nil || !place.IsValid() || !s.draws(traceID) {
		return place, nil
	}
	return place, s
}
