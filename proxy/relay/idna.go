package relay

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// ASCIIHost converts a host name that is not ASCII, for example in Hangul, as net/http does before it connects: by the Lookup profile.
// That also maps full-width digits, which can become an IP address. A name that is ASCII or cannot be converted is returned
// unchanged. So the guard checks the name that a connection would be made with.
func ASCIIHost(host string) string {
	if strings.Contains(host, ":") || !utf8.ValidString(host) || !strings.ContainsFunc(host, func(r rune) bool { return r >= 0x80 }) {
		return host
	}
	ascii, err := idna.Lookup.ToASCII(host)
	if err != nil {
		return host
	}
	return ascii
}
