package tracing

import (
	"encoding/hex"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// A Span is a call, or a part of a call, in a trace. If the trace is not sampled, the Span only has the trace context
// that is passed on. The methods of a nil Span do nothing. A Span is safe for concurrent use.
type Span struct {
	place    trace.SpanContext
	span     trace.Span // nil if the trace is not sampled
	settings *settings  // nil if the trace is not sampled
}

// The names of attributes. Those of HTTP come from the semantic conventions of OpenTelemetry.
const (
	Method     = string(semconv.HTTPRequestMethodKey)
	Route      = string(semconv.HTTPRouteKey)
	Path       = string(semconv.URLPathKey)
	Scheme     = string(semconv.URLSchemeKey)
	URL        = string(semconv.URLFullKey)
	Status     = string(semconv.HTTPResponseStatusCodeKey)
	Resend     = string(semconv.HTTPRequestResendCountKey)
	ServerName = string(semconv.ServerAddressKey)
	ServerPort = string(semconv.ServerPortKey)

	Operation = "billbridge.operation"
	Partner   = "billbridge.partner" // the first 12 digits of the hash of the key
	Client    = "billbridge.client"  // the form
	Upstream  = "billbridge.upstream"
	Code      = "billbridge.code"
	Reason    = "billbridge.route" // why the rollout chose the upstream
	Outcome   = "billbridge.outcome"
)

// Sampled reports whether the span is exported.
func (s *Span) Sampled() bool { return s != nil && s.span != nil }

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
	return s.settings.child(s.place, name, trace.SpanKindInternal)
}

// Request begins a child span for a request that the gateway sends. It returns s if the trace is not sampled, so that
// the context of s is passed on.
func (s *Span) Request(name string) *Span {
	if !s.Sampled() {
		return s
	}
	return s.settings.child(s.place, name, trace.SpanKindClient)
}

// String sets an attribute. It ignores an empty value. It copies value, which can be a part of a buffer.
func (s *Span) String(name, value string) {
	if s.Sampled() && value != "" {
		s.span.SetAttributes(attribute.String(name, strings.Clone(value)))
	}
}

// Int sets an attribute.
func (s *Span) Int(name string, value int) {
	if s.Sampled() {
		s.span.SetAttributes(attribute.Int(name, value))
	}
}

// Fail marks the span as failed. kind is the attribute error.type, one of a bounded set.
func (s *Span) Fail(kind string) {
	if s.Sampled() {
		s.span.SetAttributes(semconv.ErrorTypeKey.String(kind))
		s.span.SetStatus(codes.Error, "")
	}
}

// End ends the span.
func (s *Span) End() {
	if s.Sampled() {
		s.span.End()
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
