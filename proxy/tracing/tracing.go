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
	"go.opentelemetry.io/otel/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
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

	mu      sync.Mutex
	config  *config.Tracing // of the last Use
	closed  bool
	version string
}

// settings are those of one config.
type settings struct {
	*queue
	sample float64
	below  uint64 // see draws
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
// new config. After Close it has no effect: a reload may outlast the drain.
func (t *Tracing) Use(c *config.Tracing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return
	case c == nil:
		t.current.Store(nil)
	default:
		if !reflect.DeepEqual(t.config, c) {
			t.queue.to.Store(newReceiver(c, t.version)) // an export to the previous one is completed
		}
		t.queue.begin.Do(func() { t.queue.running.Go(t.queue.run) })
		t.current.Store(&settings{
			queue: &t.queue, sample: float64(c.Sample), below: uint64(float64(c.Sample) * (1 << 63)),
		})
	}
	t.config = c
}

// Close exports the spans that have ended, until ctx ends. Spans that are not exported by then are lost. No further
// spans begin.
func (t *Tracing) Close(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	t.current.Store(nil)
	defer context.AfterFunc(ctx, t.queue.cancel)()
	close(t.queue.closing)
	t.queue.running.Wait()
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
		return s.begun(place, name, otlp.Span_SPAN_KIND_SERVER, time.Now())
	case rand.Float64() < s.sample || t.callers.Allow(): // not by the trace ID, which the caller has chosen
		return s.child(given, name, otlp.Span_SPAN_KIND_SERVER)
	}
	// With a span ID of its own, because only a participant that adds a span may clear the flag.
	return &Span{place: given.WithSpanID(newSpanID()).WithTraceFlags(given.TraceFlags() &^ trace.FlagsSampled)}
}

// draws reports whether the sampled fraction includes a trace. The result depends only on the trace ID, so it is the
// same in every process. It is that of OpenTelemetry's TraceIDRatioBased, but takes less time.
func (s *settings) draws(id trace.TraceID) bool { return binary.BigEndian.Uint64(id[8:])>>1 < s.below }

// begun returns a span that has no parent yet, with the IDs of place.
func (q *queue) begun(place trace.SpanContext, name string, kind otlp.Span_SpanKind, began time.Time) *Span {
	place = place.WithTraceFlags(place.TraceFlags() | trace.FlagsSampled)
	id, span := place.TraceID(), place.SpanID()
	return &Span{place: place, queue: q, began: began, export: &otlp.Span{
		TraceId: id[:], SpanId: span[:], Flags: flags(place), Name: name, Kind: kind, // no state: the caller has written it
		StartTimeUnixNano: uint64(max(began.UnixNano(), 0)),
	}}
}

// child begins a span below another one.
func (q *queue) child(parent trace.SpanContext, name string, kind otlp.Span_SpanKind) *Span {
	s := q.begun(parent.WithSpanID(newSpanID()), name, kind, time.Now())
	id := parent.SpanID()
	s.export.ParentSpanId = id[:]
	s.place = s.place.WithRemote(false)
	return s
}

// flags returns the flags of a span or a link. If place is remote, the parent of the span, or the target of the link,
// is in another process.
func flags(place trace.SpanContext) uint32 {
	f := uint32(place.TraceFlags()) | uint32(otlp.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	if place.IsRemote() {
		f |= uint32(otlp.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	return f
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
	span := s.begun(place, name, otlp.Span_SPAN_KIND_SERVER, since)
	if upstream := sent(h); upstream.IsValid() {
		id, above := upstream.TraceID(), upstream.SpanID()
		span.export.Links = []*otlp.Span_Link{{TraceId: id[:], SpanId: above[:], Flags: flags(upstream)}}
	}
	return span
}

// Attempt returns the span of one attempt to deliver a callback. It returns nil if the callback is not sampled.
func (t *Tracing) Attempt(id, name string) *Span {
	place, s := t.sampledCallback(id)
	if s == nil {
		return nil
	}
	return s.child(place.WithRemote(true), name, otlp.Span_SPAN_KIND_CLIENT)
}

// sampledCallback returns the trace context of the receipt of a callback. The settings are nil if the callback is not
// sampled, which is also so if its ID has another format.
func (t *Tracing) sampledCallback(id string) (place trace.SpanContext, s *settings) {
	digits, ok := strings.CutPrefix(strings.Replace(id, "cb_read_", "cb_", 1), "cb_")
	traceID, err := trace.TraceIDFromHex(digits)
	place = newPlace(traceID, trace.SpanID(traceID[:8]))
	if s = t.settings(); s == nil || !ok || err != nil || !place.IsValid() || !s.draws(traceID) {
		return place, nil
	}
	return place, s
}
