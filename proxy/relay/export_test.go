package relay

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync"
	"time"
)

// Carry sends callbacks by rt instead of the network, until the next Use.
func (r *Relay) Carry(rt http.RoundTripper) {
	s := *r.current.Load()
	s.transport = &http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}} // HTTP/2 would take https
	s.transport.RegisterProtocol("http", rt)
	s.transport.RegisterProtocol("https", rt)
	r.current.Store(&s)
}

// Round claims due callbacks and begins an attempt at each, as Run does repeatedly.
func (r *Relay) Round(ctx context.Context, attempts *sync.WaitGroup) (int, error) {
	return r.round(ctx, r.now(), attempts)
}

// ClaimWithin changes how long a claim may wait for the store. It is called before Run.
func (r *Relay) ClaimWithin(d time.Duration) { r.claimWithin = d }

// Transport is the transport of callbacks.
func (r *Relay) Transport() *http.Transport {
	return r.current.Load().transport
}

// FormType is formType.
func FormType(given string) string { return formType(given) }
