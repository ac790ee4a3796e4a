package proxy

import (
	"io"
	"sync"
)

// A payload is the body of one call to an upstream. It knows whether the transport has begun to read it, which
// is before the first byte of the call can leave: net/http fills one buffer with header and body and sends it
// when it is full or whole, and our header never fills it.
//
// The transport may go on reading after its RoundTrip has returned. withdraw makes that harmless, so that the
// bytes can be used again.
type payload struct {
	length int64

	mu    sync.Mutex
	rest  []byte
	begun bool
	gone  bool
}

func newPayload(body []byte) *payload { return &payload{length: int64(len(body)), rest: body} }

// Read implements io.Reader.
func (p *payload) Read(into []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = true
	if p.gone {
		return 0, io.ErrClosedPipe
	}
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(into, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (p *payload) Close() error { return nil }

// withdraw takes the bytes back and tells whether one of them may have left. A read after it fails, so the
// answer stays true.
func (p *payload) withdraw() (sent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone, p.rest = true, nil
	return p.begun
}
