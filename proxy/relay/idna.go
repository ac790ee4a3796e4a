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

// asciiHost is a host as net/http dials it: a name in another alphabet, Hangul say, is converted by the Lookup profile of
// golang.org/x/net/idna, which maps letters that look alike before (full-width digits become an address). What cannot be
// converted, and what is ASCII, comes back as it is.
//
// net/http has that package built in and no function for it. So it is asked where it would connect to: the guard judges
// the name that a connection would be made with, and no other.
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

// converter connects to nothing: what it would connect to is its error.
var converter = &http.Transport{DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
	return nil, target(address)
}}

// A target is a host and port to connect to.
type target string

func (t target) Error() string { return "not connected to " + string(t) }
