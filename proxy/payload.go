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

// A payload is the body of one call to an upstream, and what the transport tells of its way.
//
// It is handed over as one of the readers that net/http knows to be in memory: header and body then leave in one
// write. The price is that the transport may go on reading the bytes after its RoundTrip has returned, so they
// may be used again only once it has said that it wrote the request or gave it up.
type payload struct {
	body    []byte
	partner string          // the partner's key, for its share of the connections
	own     bool            // the gateway asks for itself: no partner's share is taken
	while   context.Context // when it ends before a connection was found, nothing is sent; if nil, that is the call's own context
	trace   httptrace.ClientTrace
	taken   atomic.Bool // the transport may be reading the body

	connected   time.Time // when a connection was found; zero while there is none
	onConnected func()    // called then, if not nil
	onLost      func()    // called when that connection took nothing and the transport looks for another one, if not nil

	mu    sync.Mutex
	begun bool // a connection was found: from here on a byte may have left
	over  bool // it is not to be sent any more
}

// Why a call ended without an answer, as the cause of its context.
var (
	errGivenUp      = errors.New("the call is not to be sent any more")
	errNoConnection = errors.New("no connection was there in time")
	errLate         = errors.New("no answer was there in time")
)

func newPayload(body []byte) *payload {
	p := &payload{body: body}
	p.trace.GetConn = func(string) {
		p.begin(false)
		if lost := !p.connected.IsZero(); lost && p.onLost != nil {
			p.onLost()
		}
		p.connected = time.Time{}
	}
	p.trace.GotConn = func(found httptrace.GotConnInfo) {
		p.taken.Store(true)
		if !p.begin(true) {
			_ = found.Conn.Close() // the transport would write to it, whatever the context says
			return
		}
		p.connected = time.Now()
		if p.onConnected != nil {
			p.onConnected()
		}
	}
	p.trace.WroteRequest = func(httptrace.WroteRequestInfo) { p.taken.Store(false) }
	return p
}

// attach makes the payload the body of a request.
func (p *payload) attach(ctx context.Context, r *http.Request) *http.Request {
	r.ContentLength = int64(len(p.body))
	// The transport rewinds a POST in one case only: the idle connection that it took turned out to be closed and
	// not one byte had been written to it (R23). Then the call stands again where it began.
	r.GetBody = func() (io.ReadCloser, error) {
		if p.isOver() {
			return nil, errGivenUp
		}
		return io.NopCloser(bytes.NewReader(p.body)), nil
	}
	r.Body = io.NopCloser(bytes.NewReader(p.body))
	return r.WithContext(httptrace.WithClientTrace(ctx, &p.trace))
}

// begin records whether a connection was found. It returns false if the call was given up before that.
func (p *payload) begin(found bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = found && !p.over
	return !p.over
}

// giveUp ends the call unless a byte of it may have left: in one step, so that a call that is being sent is not cut off.
func (p *payload) giveUp(end context.CancelCauseFunc, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun {
		p.over = true
		end(cause)
	}
}

func (p *payload) isOver() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

// sent tells, after RoundTrip has returned, whether a byte of the call may have left.
func (p *payload) sent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun
}

// reusable tells, after RoundTrip has returned, whether nobody reads the bytes any more.
func (p *payload) reusable() bool { return !p.taken.Load() }
