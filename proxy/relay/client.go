package relay

import (
	"net"
	"net/http"
	"time"
)

// newClient carries callbacks to partners. It resolves names itself and asks the guard before each connection, uses
// no proxy, which would resolve names elsewhere, and never goes where an answer sends it (R33).
func newClient(g *guard, perHost int) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: g.control}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxConnsPerHost:        perHost,
			MaxIdleConnsPerHost:    perHost,
			MaxIdleConns:           256,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true, // an answer is a few bytes; one that unpacks to more is none
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
