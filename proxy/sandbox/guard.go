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

// A guard protects the control API and the pages from web pages in a browser on this machine, and from other
// machines: requests from another origin are refused, on loopback also those to another host name (DNS rebinding),
// and off loopback a token is required.
type guard struct {
	token  string // "" for none
	bearer bool   // requests must have the token; otherwise it is in their path
	host   string // a host name that is allowed besides those of loopback; may be empty
	refuse func(w http.ResponseWriter, status int, text localized)
}

// protect wraps a handler.
func (g guard) protect(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		g.refuse(w, http.StatusForbidden, localized{
			"다른 사이트에서 보낸 요청입니다.", "the request comes from a page of another origin",
		})
	}))
	return origin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := localIP(r)
		loopback := at.IsLoopback()
		switch {
		case g.token != "" && g.bearer && !g.hasToken(r):
			w.Header().Set("WWW-Authenticate", "Bearer")
			g.refuse(w, http.StatusUnauthorized, localized{
				EN: "the control token is missing or wrong: send the header Authorization: Bearer TOKEN",
			})
		case g.token == "" && at != nil && !loopback:
			g.refuse(w, http.StatusForbidden, localized{
				"이 주소에서는 --control-token 이 필요합니다.",
				"the address is not loopback: start the sandbox with --control-token, " +
					"or with BILLBRIDGE_SANDBOX_TOKEN in its environment",
			})
		case loopback && (g.token == "" || !g.bearer) && !g.allowedHost(r.Host):
			g.refuse(w, http.StatusForbidden, localized{
				"허용되지 않은 호스트입니다.", "the host is not allowed: use 127.0.0.1, [::1] or localhost",
			})
		default:
			next.ServeHTTP(w, r)
		}
	}))
}

// hasToken reports whether a request has the token. It compares hashes, so that the duration reveals nothing.
func (g guard) hasToken(r *http.Request) bool {
	given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(g.token))
	return bearer && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// allowedHost reports whether a Host header is a name of this machine, or the host of the base URL.
func (g guard) allowedHost(header string) bool {
	name := (&url.URL{Host: header}).Hostname()
	address, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && address.Unmap().IsLoopback() ||
		g.host != "" && strings.EqualFold(name, g.host)
}

// localIP returns the address that a request came to, or nil if it came by no network, such as in a test.
func localIP(r *http.Request) net.IP {
	if tcp, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return tcp.IP
	}
	return nil
}
