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

// guard returns why a request to the control API or a page is refused, with its status; 0 if it is not. It protects
// them from web pages in a browser on this machine, and from other machines: requests from another origin are refused,
// on loopback also those to another host name (DNS rebinding), and off loopback a token is required. Requests to the
// control API must have it, while that of a page is in its path.
func (s *Service) guard(r *http.Request, control bool) (status int, text string) {
	token, at := s.opt.ControlToken, localIP(r)
	switch loopback := at.IsLoopback(); {
	case http.NewCrossOriginProtection().Check(r) != nil:
		return http.StatusForbidden, "the request comes from a page of another origin"
	case token != "" && control && !hasToken(r, token) && s.tokenOwner(r) == "":
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

// tokenOwner returns the key of the partner whose control token a request has, or "".
func (s *Service) tokenOwner(r *http.Request) (key string) {
	s.view(func(t *tables) {
		for _, p := range t.Contracts.all() {
			if p.ControlToken != "" && !p.Removed && hasToken(r, p.ControlToken) {
				key = p.Key
			}
		}
	})
	return key
}

// hasToken reports whether a request has the token. It compares hashes, so that the duration reveals nothing.
func hasToken(r *http.Request, token string) bool {
	given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return bearer && subtle.ConstantTimeCompare(want[:], got[:]) == 1
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
