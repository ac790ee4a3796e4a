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
	token := s.opt.ControlToken
	tcp, networked := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr) // not in a test
	loopback := networked && tcp.IP.IsLoopback()
	// The Host header must be a name of this machine or, for a page, the host of the base URL.
	host := (&url.URL{Host: r.Host}).Hostname()
	address, err := netip.ParseAddr(host)
	base := webURL(s.opt.BaseURL)
	allowed := strings.EqualFold(host, "localhost") || err == nil && address.Unmap().IsLoopback() ||
		!control && base != nil && strings.EqualFold(host, base.Hostname())
	switch {
	case http.NewCrossOriginProtection().Check(r) != nil:
		return http.StatusForbidden, "the request comes from a page of another origin"
	case token != "" && control && !known:
		return http.StatusUnauthorized,
			"the control token is missing or wrong: send the header Authorization: Bearer TOKEN"
	case token == "" && networked && !loopback:
		return http.StatusForbidden, "the address is not loopback: start the sandbox with --control-token, " +
			"or with BILLBRIDGE_SANDBOX_TOKEN in its environment"
	case loopback && (token == "" || !control) && !allowed:
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
// is admitted, and 401 if it needs a token. It compares hashes, so that the duration reveals nothing.
func (s *Service) Admit(r *http.Request, token Token) (of Access, status int, text string) {
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
		of = Access{Operator: true}
	}
	status, text = s.guard(r, true, of != Access{})
	return of, status, text
}

// BearerToken returns the token of the header Authorization.
func BearerToken(r *http.Request) Token {
	given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		return Token{}
	}
	return sha256.Sum256([]byte(given))
}
