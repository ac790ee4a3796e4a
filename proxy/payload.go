package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// A payload is the body of one call to an upstream, and the state of its transmission.
//
// net/http sends header and body in one write because it recognises the reader's type. Its transport may still read the
// body after RoundTrip has returned: the bytes must not be reused before reusable reports true.
type payload struct {
	body           []byte
	partner        string          // the partner's key, for the connection limit of the partner
	noPartnerLimit bool            // the gateway makes this call for itself
	write          bool            // the call is a write
	sendCtx        context.Context // the call is not sent if this ends before it has a connection; if nil, only the call's context counts
	trace          httptrace.ClientTrace
	reading        atomic.Bool // the transport may be reading the body

	connected   time.Time // when the call got its connection; zero if it has none
	onConnected func()    // if not nil, called when the call gets a connection
	onLost      func()    // if not nil, called when the connection failed before a byte was written and the transport takes another

	mu      sync.Mutex
	sending bool // the call has a connection: a byte of it may have left
	givenUp bool // the call must not be sent
}

// The causes with which the context of a call is cancelled.
var (
	errGivenUp      = errors.New("the call was given up before it was sent")
	errNoConnection = errors.New("no connection was available in time")
	errTimeout      = errors.New("no answer arrived in time")
)

func newPayload(body []byte) *payload {
	p := &payload{body: body}
	p.trace.GetConn = func(string) {
		p.setSending(false)
		if lost := !p.connected.IsZero(); lost && p.onLost != nil {
			p.onLost()
		}
		p.connected = time.Time{}
	}
	p.trace.GotConn = func(got httptrace.GotConnInfo) {
		p.reading.Store(true)
		if !p.setSending(true) {
			_ = got.Conn.Close() // the transport writes to it even if the context has ended
			return
		}
		p.connected = time.Now()
		if p.onConnected != nil {
			p.onConnected()
		}
	}
	p.trace.WroteRequest = func(httptrace.WroteRequestInfo) { p.reading.Store(false) }
	return p
}

// attach returns a request with the payload as its body.
func (p *payload) attach(ctx context.Context, r *http.Request) *http.Request {
	r.ContentLength = int64(len(p.body))
	// The transport calls GetBody for a POST in one case only: its idle connection turned out to be closed, and no byte
	// had been written to it (R23).
	r.GetBody = func() (io.ReadCloser, error) {
		if p.isGivenUp() {
			return nil, errGivenUp
		}
		return io.NopCloser(bytes.NewReader(p.body)), nil
	}
	r.Body = io.NopCloser(bytes.NewReader(p.body))
	return r.WithContext(httptrace.WithClientTrace(ctx, &p.trace))
}

// setSending records whether the call has a connection. It returns false if the call was given up.
func (p *payload) setSending(connected bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sending = connected && !p.givenUp
	return !p.givenUp
}

// giveUp cancels the call unless a byte of it may have left. It checks and cancels under one lock, so that it never cancels
// a call that is being sent.
func (p *payload) giveUp(cancel context.CancelCauseFunc, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.sending {
		p.givenUp = true
		cancel(cause)
	}
}

func (p *payload) isGivenUp() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.givenUp
}

// sent reports whether a byte of the call may have left. It is valid after RoundTrip has returned.
func (p *payload) sent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sending
}

// reusable reports whether the transport has finished reading the body. It is valid after RoundTrip has returned.
func (p *payload) reusable() bool { return !p.reading.Load() }
