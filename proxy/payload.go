package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// A payload is the body of one call to an upstream, and what the transport tells of its way.
//
// It is handed over as one of the readers that net/http knows to be in memory: header and body then leave in one
// write. The price is that the transport may go on reading the bytes after its RoundTrip has returned, so they
// may be used again only once it has said that it wrote the request or gave it up.
type payload struct {
	body  []byte
	trace httptrace.ClientTrace
	begun atomic.Bool // a connection was found: from here on a byte may have left
	ended atomic.Bool // the transport does not read the body any more
}

func newPayload(body []byte) *payload {
	p := &payload{body: body}
	p.trace.GotConn = func(httptrace.GotConnInfo) {
		p.ended.Store(false)
		p.begun.Store(true)
	}
	p.trace.WroteRequest = func(httptrace.WroteRequestInfo) { p.ended.Store(true) }
	return p
}

// attach makes the payload the body of a request.
func (p *payload) attach(ctx context.Context, r *http.Request) *http.Request {
	r.ContentLength = int64(len(p.body))
	// The transport rewinds a POST in one case only: the idle connection that it took turned out to be closed and
	// not one byte had been written to it (R23). Then the call stands again where it began.
	r.GetBody = func() (io.ReadCloser, error) {
		p.begun.Store(false)
		return io.NopCloser(bytes.NewReader(p.body)), nil
	}
	r.Body, _ = r.GetBody()
	return r.WithContext(httptrace.WithClientTrace(ctx, &p.trace))
}

// sent tells, after RoundTrip has returned, whether a byte of the call may have left.
func (p *payload) sent() bool { return p.begun.Load() }

// reusable tells, after RoundTrip has returned, whether nobody reads the bytes any more.
func (p *payload) reusable() bool { return !p.begun.Load() || p.ended.Load() }
