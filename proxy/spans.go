package proxy

import (
	"cmp"
	"net/http"
	"strconv"

	"billbridge/config"
	"billbridge/proxy/httpconn"
	"billbridge/proxy/tracing"
	"billbridge/translate"
)

// spanMethods are the methods that a span shows. Others are shown as _OTHER, as in the conventions of OpenTelemetry.
var spanMethods = map[string]bool{
	http.MethodGet: true, http.MethodHead: true, http.MethodPost: true, http.MethodPut: true, http.MethodPatch: true, http.MethodDelete: true,
	http.MethodConnect: true, http.MethodOptions: true, http.MethodTrace: true,
}

// endSpan sets the attributes of the span of a call and ends it. No attribute is a value that a caller can choose freely, such as X-Request-Id
// (R35).
func (x *exchange) endSpan() {
	span := x.span
	if !span.Sampled() {
		return
	}
	method, scheme := "_OTHER", "http"
	if spanMethods[x.r.Method] {
		method = x.r.Method
	}
	if x.state.config.TLS != nil {
		scheme = "https"
	}
	span.String(tracing.Method, method)
	span.String(tracing.Scheme, scheme)
	span.Int(tracing.Status, x.out.status)
	span.String(tracing.Client, string(x.client))
	span.String(tracing.Partner, x.shortPartner())
	span.String(tracing.Reason, string(x.decided.route.Reason))
	if x.route != nil {
		span.String(tracing.Path, x.route.path)
		span.String(tracing.Route, x.route.path)
		span.String(tracing.Operation, x.route.operation.Name)
		if x.target != nil {
			span.String(tracing.Upstream, x.target.upstream.config.Name)
		}
	}
	if code := x.codeLabel(); code != none {
		span.String(tracing.Code, code)
	}
	if x.sent.called && x.sent.unknown && x.route.operation.Effect == translate.Write {
		span.String(tracing.Outcome, "unknown")
	}
	if x.out.status >= http.StatusInternalServerError {
		span.Fail(strconv.Itoa(x.out.status))
	}
	span.End()
}

// startSpan begins the span of a request, if its call is sampled.
func (u *upstream) startSpan(r *upstreamRequest) {
	if !r.span.Sampled() {
		return
	}
	r.span = r.span.Request("POST " + r.path)
	r.span.String(tracing.Method, http.MethodPost)
	r.span.String(tracing.URL, u.config.Address.String()+r.path)
	r.span.String(tracing.ServerName, u.config.Address.Hostname())
	r.span.Int(tracing.ServerPort, portOf(u.config.Address))
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

// portOf returns the port of a base URL.
func portOf(a config.Address) int {
	port, _ := strconv.Atoi(cmp.Or(a.Port(), map[string]string{"http": "80", "https": "443"}[a.Scheme])) // config has checked it
	return port
}
