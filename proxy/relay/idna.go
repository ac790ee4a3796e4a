package relay

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// asciiHost converts a host name that is not ASCII, in Hangul for example, as net/http does before it connects: by the Lookup
// profile of golang.org/x/net/idna. That maps characters first, so full-width digits become an IP address. A name that is
// ASCII, or that cannot be converted, comes back as it is.
//
// net/http exports no function for this. The transport below does the conversion, and reports the result in place of a
// connection: the guard judges exactly the name that a connection would be made with.
func asciiHost(host string) string {
	if strings.Contains(host, ":") || !utf8.ValidString(host) || !strings.ContainsFunc(host, func(r rune) bool { return r >= 0x80 }) {
		return host
	}
	_, err := converter.RoundTrip(&http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: host}, Header: http.Header{}})
	var to target
	if !errors.As(err, &to) {
		return host
	}
	name, _, err := net.SplitHostPort(string(to))
	if err != nil {
		return host
	}
	return name
}

// converter never connects. Its error is the host and port that it would connect to.
var converter = &http.Transport{DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
	return nil, target(address)
}}

// A target is a host and port to connect to.
type target string

func (t target) Error() string { return "not connected to " + string(t) }
