package relay

import (
	"context"
	"net/http"
	"sync"
)

// Carry has callbacks carried by rt instead of the network, until the next Use.
func (r *Relay) Carry(rt http.RoundTripper) {
	s := *r.current.Load()
	client := *s.client
	client.Transport = rt
	s.client = &client
	r.current.Store(&s)
}

// Round claims what is due and begins an attempt at each, as Run does again and again.
func (r *Relay) Round(ctx context.Context, attempts *sync.WaitGroup) (int, error) {
	return r.round(ctx, attempts)
}

// Transport is what carries callbacks.
func (r *Relay) Transport() *http.Transport {
	return r.current.Load().client.Transport.(*http.Transport)
}

// PlainType is plainType.
func PlainType(given string) string { return plainType(given) }
