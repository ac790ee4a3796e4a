package relay

import (
	"net"
	"net/http"
	"time"

	"billbridge/config"
)

// dialWithin bounds the connection to a partner, and the TLS handshake on it.
const dialWithin = 10 * time.Second

// newTransport sends callbacks to partners. It resolves names itself and checks each address with the guard before it
// connects, so it uses no proxy, which would resolve names elsewhere. It is used without an http.Client, which would
// follow redirects (R33).
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
		DisableCompression:     true, // an answer has a few bytes
	}
}
