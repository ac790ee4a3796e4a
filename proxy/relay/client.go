package relay

import (
	"net"
	"net/http"
	"time"
)

// newTransport carries callbacks to partners. It resolves names itself and asks the guard before each connection, and
// uses no proxy, which would resolve names elsewhere. There is no http.Client around it: that would go, or look, where
// an answer sends it (R33).
func newTransport(g *guard, perHost int) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: g.control}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxConnsPerHost:        perHost,
		MaxIdleConnsPerHost:    perHost,
		MaxIdleConns:           256,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // an answer is a few bytes; one that unpacks to more is none
	}
}
