package relay

import (
	"net"
	"net/http"
	"time"

	"billbridge/config"
)

// dialWithin bounds the connection to a partner, and the TLS handshake on it.
const dialWithin = 10 * time.Second

// newTransport carries callbacks to partners. It resolves names itself and asks the guard before each connection, and
// uses no proxy, which would resolve names elsewhere. There is no http.Client around it: that would go, or look, where
// an answer sends it (R33).
func newTransport(g *guard, c *config.Callbacks) *http.Transport {
	dialer := &net.Dialer{Timeout: dialWithin, Control: g.control, LocalAddr: c.LocalAddress.TCP()}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    dialWithin,
		MaxConnsPerHost:        c.PerHost,
		MaxIdleConnsPerHost:    c.PerHost,
		MaxIdleConns:           256,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // an answer is a few bytes; one that unpacks to more is none
	}
}
