package sandbox

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// guard returns why a request to the control address or a page is refused, with its status; 0 if it is not. It protects
// them from web pages in a browser on this machine, and from other machines: requests from another origin are refused,
// on loopback also those to another host name (DNS rebinding), and off loopback a token is required. Requests to the
// control API must have it, while that of a page is in its path.
func (s *Service) guard(r *http.Request, control, known bool) (status int, text string) {
	token, at := s.opt.ControlToken, localIP(r)
	switch loopback := at.IsLoopback(); {
	case http.NewCrossOriginProtection().Check(r) != nil:
		return http.StatusForbidden, "the request comes from a page of another origin"
	case token != "" && control && !known:
		return http.StatusUnauthorized,
			"the control token is missing or wrong: send the header Authorization: Bearer TOKEN"
	case token == "" && at != nil && !loopback:
		return http.StatusForbidden, "the address is not loopback: start the sandbox with --control-token, " +
			"or with BILLBRIDGE_SANDBOX_TOKEN in its environment"
	case loopback && (token == "" || !control) && !s.allowedHost(r.Host, control):
		return http.StatusForbidden, "the host is not allowed: use 127.0.0.1, [::1] or localhost"
	}
	return 0, ""
}

// A Token is the SHA-256 of a control token. The zero Token is none.
type Token [sha256.Size]byte

// An Access is what a control token gives access to. That of no token is zero.
type Access struct {
	Operator bool   // everything
	Partner  string // what the partner with this key has; "" if the token is no partner's
}

// Admit decides about a request to the control address, which has a token or a session for one. The status is 0 if it
// is admitted, and 401 if it needs a token.
func (s *Service) Admit(r *http.Request, token Token) (of Access, status int, text string) {
	of = s.accessOf(token)
	status, text = s.guard(r, true, of != Access{})
	return of, status, text
}

// accessOf compares hashes, so that the duration reveals nothing.
func (s *Service) accessOf(token Token) (of Access) {
	is := func(known string) bool {
		want := sha256.Sum256([]byte(known))
		return known != "" && subtle.ConstantTimeCompare(want[:], token[:]) == 1
	}
	for _, p := range s.Partners() {
		if is(p.ControlToken) && !p.Removed {
			of.Partner = p.Key
		}
	}
	if is(s.opt.ControlToken) {
		return Access{Operator: true}
	}
	return of
}

// BearerToken returns the token of the header Authorization.
func BearerToken(r *http.Request) Token {
	given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		return Token{}
	}
	return sha256.Sum256([]byte(given))
}

// allowedHost reports whether a Host header is a name of this machine or, for a page, the host of the base URL.
func (s *Service) allowedHost(header string, control bool) bool {
	name := (&url.URL{Host: header}).Hostname()
	address, err := netip.ParseAddr(name)
	base := webURL(s.opt.BaseURL)
	return strings.EqualFold(name, "localhost") || err == nil && address.Unmap().IsLoopback() ||
		!control && base != nil && strings.EqualFold(name, base.Hostname())
}

// localIP returns the address that a request came to, or nil if it came by no network, such as in a test.
func localIP(r *http.Request) net.IP {
	if tcp, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return tcp.IP
	}
	return nil
}
