package relay

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// ASCIIHost converts a host name that is not ASCII, for example in Hangul, as net/http does before it connects: by
// the Lookup profile. That also maps full-width digits, which can become an IP address. A name that is ASCII or
// cannot be converted is returned unchanged. So the guard checks the name that a connection would be made with.
func ASCIIHost(host string) string {
	ascii, err := idna.Lookup.ToASCII(host)
	isASCII := !strings.ContainsFunc(host, func(r rune) bool { return r >= 0x80 })
	if isASCII || err != nil || strings.Contains(host, ":") || !utf8.ValidString(host) {
		return host
	}
	return ascii
}
