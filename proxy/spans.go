package proxy

import (
	"net"
	"net/http"
	"strconv"

	"billbridge/proxy/httpconn"
	"billbridge/proxy/tracing"
)

// spanMethods are the methods that a span shows. Others are shown as _OTHER, as in the conventions of OpenTelemetry.
var spanMethods = map[string]bool{
	http.MethodGet: true, http.MethodHead: true, http.MethodPost: true, http.MethodPut: true, http.MethodPatch: true,
	http.MethodDelete: true, http.MethodConnect: true, http.MethodOptions: true, http.MethodTrace: true,
}

// endSpan sets the attributes of the span of a call and ends it. No attribute is a value that a caller can choose
// freely, such as X-Request-Id (R35).
func (f *Finished) endSpan(span *tracing.Span, method string, tls bool, route *route) {
	if !spanMethods[method] {
		method = "_OTHER"
	}
	scheme := "http"
	if tls {
		scheme = "https"
	}
	span.String(tracing.Method, method)
	span.String(tracing.Scheme, scheme)
	span.Int(tracing.Status, f.Status)
	span.String(tracing.Client, string(f.Client))
	span.String(tracing.Partner, string(f.Partner))
	span.String(tracing.Reason, f.Route)
	if route != nil { // otherwise the call has no span
		span.String(tracing.Path, route.path)
		span.String(tracing.Route, route.path)
		span.String(tracing.Operation, f.Operation)
	}
	if f.Upstream != none {
		span.String(tracing.Upstream, f.Upstream)
	}
	if f.Code != none {
		span.String(tracing.Code, f.Code)
	}
	if f.Unknown {
		span.String(tracing.Outcome, "unknown")
	}
	if f.Status >= http.StatusInternalServerError {
		span.Fail(strconv.Itoa(f.Status))
	}
	span.End()
}

// startSpan starts the span of a request, if its call is sampled.
func (u *upstream) startSpan(r *upstreamRequest) {
	if !r.span.Sampled() {
		return
	}
	r.span = r.span.Request("POST " + r.path)
	r.span.String(tracing.Method, http.MethodPost)
	r.span.String(tracing.URL, u.config.Address.String()+r.path)
	r.span.String(tracing.ServerName, u.config.Address.Hostname())
	_, port, _ := net.SplitHostPort(u.pool.Address)
	n, _ := strconv.Atoi(port) // config has checked it
	r.span.Int(tracing.ServerPort, n)
	r.span.String(tracing.Upstream, u.config.Name)
}

// endSpan ends the span of a request.
func (r *upstreamRequest) endSpan(reply *httpconn.Reply, failure *callError) {
	if !r.span.Sampled() {
		return
	}
	switch {
	case failure != nil:
		r.span.Fail(failure.reason)
	case reply.Status >= http.StatusBadRequest:
		r.span.Fail(strconv.Itoa(reply.Status))
		fallthrough
	default:
		r.span.Int(tracing.Status, reply.Status)
	}
	r.span.End()
}
