package tracing

import (
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
)

// A Span is a call, or a part of a call, in a trace. If the trace is not sampled, the Span only has the trace context
// that is passed on. The methods of a nil Span do nothing. A Span is safe for concurrent use.
type Span struct {
	place trace.SpanContext
	queue *queue // nil if the trace is not sampled
	began time.Time

	mu     sync.Mutex
	export *otlp.Span // nil if the trace is not sampled or the span has ended
}

// schemaURL is the version of the semantic conventions of OpenTelemetry that the names of attributes of HTTP come from.
const schemaURL = "https://opentelemetry.io/schemas/1.43.0"

// The names of attributes.
const (
	Method     = "http.request.method"
	Route      = "http.route"
	Path       = "url.path"
	Scheme     = "url.scheme"
	URL        = "url.full"
	Status     = "http.response.status_code"
	Resend     = "http.request.resend_count"
	ServerName = "server.address"
	ServerPort = "server.port"
	errorType  = "error.type"

	Operation = "billbridge.operation"
	Partner   = "billbridge.partner" // the first 12 digits of the hash of the key
	Client    = "billbridge.client"  // the form
	Upstream  = "billbridge.upstream"
	Code      = "billbridge.code"
	Reason    = "billbridge.route" // why the rollout chose the upstream
	Outcome   = "billbridge.outcome"
)

// Sampled reports whether the span is exported.
func (s *Span) Sampled() bool { return s != nil && s.queue != nil }

// TraceID returns the ID of the trace, or "".
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	id, text := s.place.TraceID(), [32]byte{}
	return string(hex.AppendEncode(text[:0], id[:]))
}

// Internal begins a child span for work inside the gateway. It returns s if the trace is not sampled.
func (s *Span) Internal(name string) *Span {
	if !s.Sampled() {
		return s
	}
	return s.queue.child(s.place, name, otlp.Span_SPAN_KIND_INTERNAL)
}

// Request begins a child span for a request that the gateway sends. It returns s if the trace is not sampled, so that
// the context of s is passed on.
func (s *Span) Request(name string) *Span {
	if !s.Sampled() {
		return s
	}
	return s.queue.child(s.place, name, otlp.Span_SPAN_KIND_CLIENT)
}

// String sets an attribute, which must not be set yet. It ignores an empty value. It copies value, which can be a part
// of a buffer.
func (s *Span) String(name, value string) {
	if s.Sampled() && value != "" {
		s.set(stringAttribute(name, strings.Clone(value)))
	}
}

// Int sets an attribute, which must not be set yet.
func (s *Span) Int(name string, value int) {
	if s.Sampled() {
		s.set(&common.KeyValue{
			Key: name, Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: int64(value)}},
		})
	}
}

func (s *Span) set(attribute *common.KeyValue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.export != nil {
		s.export.Attributes = append(s.export.Attributes, attribute)
	}
}

// stringAttribute returns an attribute. A value that is not UTF-8 would prevent the export of the whole batch.
func stringAttribute(name, value string) *common.KeyValue {
	value = strings.ToValidUTF8(value, "\uFFFD")
	return &common.KeyValue{
		Key: name, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}},
	}
}

// Fail marks the span as failed. kind is the attribute error.type, one of a bounded set.
func (s *Span) Fail(kind string) {
	if !s.Sampled() {
		return
	}
	s.String(errorType, kind)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.export != nil {
		s.export.Status = &otlp.Status{Code: otlp.Status_STATUS_CODE_ERROR}
	}
}

// End ends the span.
func (s *Span) End() {
	if !s.Sampled() {
		return
	}
	s.mu.Lock()
	export := s.export
	s.export = nil
	s.mu.Unlock()
	if export != nil {
		took := time.Since(s.began) // of the monotonic clock
		export.EndTimeUnixNano = export.StartTimeUnixNano + uint64(max(took, 0))
		s.queue.add(export)
	}
}

// EndWith ends the span. If err is not nil, it marks the span as failed, as Fail does.
func (s *Span) EndWith(err error, kind string) {
	if err != nil {
		s.Fail(kind)
	}
	s.End()
}

// AppendHeaders appends traceparent and tracestate to the head of a request, each after a line break.
func (s *Span) AppendHeaders(head []byte) []byte {
	if s == nil {
		return head
	}
	head = s.appendParent(append(head, "\r\ntraceparent: "...))
	if s.place.TraceState().Len() > 0 {
		head = append(append(head, "\r\ntracestate: "...), s.place.TraceState().String()...)
	}
	return head
}

// SetHeader sets traceparent and tracestate.
func (s *Span) SetHeader(h http.Header) {
	if s == nil {
		return
	}
	h.Set("Traceparent", string(s.appendParent(nil)))
	if s.place.TraceState().Len() > 0 {
		h.Set("Tracestate", s.place.TraceState().String())
	}
}

// appendParent appends the value of traceparent, in version 00.
func (s *Span) appendParent(dst []byte) []byte {
	id, span := s.place.TraceID(), s.place.SpanID()
	dst = append(hex.AppendEncode(append(dst, "00-"...), id[:]), '-')
	dst = append(hex.AppendEncode(dst, span[:]), '-')
	return hex.AppendEncode(dst, []byte{byte(s.place.TraceFlags())})
}
