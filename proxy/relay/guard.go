package relay

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"billbridge/config"
	"billbridge/proxy/httpconn"

	"code.dny.dev/ssrf"
)

// A guard decides which addresses of partners may be called (R32). It checks the URL when it is given, and every
// address that the host resolves to when it is dialled.
type guard struct {
	*config.Callbacks
	dial *ssrf.Guardian
}

// metadata is the public address of a cloud's metadata service. The other clouds have private ones.
var metadata = netip.MustParsePrefix("168.63.129.16/32")

func newGuard(c *config.Callbacks) *guard {
	var allowed []netip.Prefix // of one family have no address of the other
	for _, n := range c.Allow {
		allowed = append(allowed, n.Prefix)
	}
	ports := ssrf.WithAnyPort()
	if len(c.Ports) > 0 {
		list := make([]uint16, len(c.Ports))
		for i, port := range c.Ports {
			list[i] = uint16(port)
		}
		ports = ssrf.WithPorts(list...)
	}
	return &guard{c, ssrf.New(
		ports, ssrf.WithAllowedV4Prefixes(allowed...), ssrf.WithAllowedV6Prefixes(allowed...),
		ssrf.WithDeniedV4Prefixes(metadata),
	)}
}

// control refuses to dial addresses that are not allowed. It gets the resolved address, so DNS rebinding does not help.
func (g *guard) control(network, address string, _ syscall.RawConn) error {
	if err := g.dial.Safe(network, address, nil); err != nil {
		return &refused{err}
	}
	if to, err := netip.ParseAddrPort(address); err != nil || !g.mayCall(to) {
		return &refused{errISATAP}
	}
	return nil
}

var errISATAP = errors.New("it embeds an IPv4 address (ISATAP)")

// mayCall reports whether a literal address may be called.
func (g *guard) mayCall(to netip.AddrPort) bool {
	ip := to.Addr()
	allowed := slices.ContainsFunc(g.Allow, func(n config.Network) bool { return n.Contains(ip) })
	return (allowed || !isISATAP(ip)) && g.dial.SafeAddrPort(to) == nil
}

// isISATAP reports whether the interface id of an address embeds an IPv4 address, as RFC 5214 has it: a router in the
// partner's prefix would send the call on to that address.
func isISATAP(ip netip.Addr) bool {
	b := ip.As16()
	return ip.Is6() && !ip.Is4In6() && b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// isLocalhost reports whether a name is that of the machine itself (RFC 6761).
func isLocalhost(host string) bool {
	host = "." + strings.ToLower(strings.TrimSuffix(host, "."))
	return strings.HasSuffix(host, ".localhost")
}

// refused is the error of an address that is not allowed.
type refused struct{ cause error }

func (r *refused) Error() string { return "the address is not allowed: " + r.cause.Error() }

func (r *refused) Unwrap() error { return r.cause }

// callbacksOf are the callbacks of a config, or the defaults if it relays none any more: stored ones are still
// delivered.
func callbacksOf(c *config.Config) *config.Callbacks {
	if c.Callbacks != nil {
		return c.Callbacks
	}
	defaults := config.DefaultCallbacks()
	return &defaults
}

// check checks an address without resolving its host, and returns it as it is called: without blanks around it, with
// the host in ASCII, and the rest as RFC 3986 has it. The error is for the partner. It shows nothing of the address,
// which may contain a secret.
func (g *guard) check(address string) (*url.URL, error) {
	if len(address) > maxAddress { // first: a long host takes seconds to convert
		return nil, fmt.Errorf("must be at most %d characters", maxAddress)
	}
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		u = new(url.URL)
	}
	if wrong := g.wrong(u); wrong != "" {
		return nil, errors.New(wrong)
	}
	// EscapedPath is another path if one letter of RawPath needs escaping: %2F would become a slash.
	u.RawPath = escaped(cmp.Or(u.RawPath, u.EscapedPath()))
	u.RawQuery = escaped(u.RawQuery)
	return u, nil
}

// escaped escapes what RFC 3986 does not allow in a path or a query. Partners' addresses have it; net/url leaves it as
// it is, and strict servers refuse such a request line.
func escaped(part string) string {
	return escapable.ReplaceAllStringFunc(part, func(found string) string {
		if len(found) == len("%20") && found[0] == '%' {
			return found
		}
		return url.PathEscape(found)
	})
}

// escapable is an escape, or one character that needs one.
var escapable = regexp.MustCompile(`%[0-9A-Fa-f]{2}|[^\w.~!$&'()*+,;=:@/?-]`)

// wrong says why an address is never called; "" if it may be. It changes the host to ASCII.
func (g *guard) wrong(u *url.URL) string {
	switch {
	case u.Opaque != "" || u.Hostname() == "":
		return "must be a URL such as https://partner.example.com/paid"
	case u.Scheme != "https" && g.HTTPSOnly: // url.Parse makes it lower case
		return "must be an https URL"
	case defaultPort[u.Scheme] == "":
		return "must be an http or https URL"
	case u.User != nil:
		return "must not carry a user or password"
	}
	text := u.Port()
	if text == "" && !strings.HasSuffix(u.Host, ":") {
		text = defaultPort[u.Scheme]
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || strconv.FormatUint(port, 10) != text { // 0443 is refused, as attempts are counted by host and port
		return "has no port behind its colon"
	}
	if len(g.Ports) > 0 && !slices.Contains(g.Ports, int(port)) {
		return "its port is not one of those allowed here"
	}
	host := httpconn.ASCIIHost(u.Hostname())
	if given := u.Hostname(); host != given {
		u.Host = host + strings.TrimPrefix(u.Host, given)
	}
	may := func(ip netip.Addr) bool { return g.mayCall(netip.AddrPortFrom(ip, uint16(port))) }
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && (ip.Zone() != "" || !may(ip)),
		isLocalhost(host) && !may(netip.IPv6Loopback()) && !may(netip.AddrFrom4([4]byte{127, 0, 0, 1})):
		return notCalled
	case err != nil && !isName(host):
		return "its host is no name of a host"
	}
	return ""
}

const notCalled = "its host is an address that is not called from here"

// maxAddress is the most bytes of an address.
const maxAddress = 2000

// isName reports whether a host is a DNS name. A host whose last label is a number, such as 127.1 or 0x7f000001, is
// not: resolvers take it for an address.
func isName(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndex(host, ".")+1:]
	_, err := strconv.ParseUint(last, 0, 64)
	return len(host) <= 253 && names.MatchString(host) && err != nil && strings.Trim(last, "0123456789") != ""
}

// names are labels of at most 63 characters. Names in other alphabets were converted by ASCIIHost.
var names = regexp.MustCompile(`^\w([\w-]{0,61}\w)?(\.\w([\w-]{0,61}\w)?)*$`)

var defaultPort = map[string]string{"http": "80", "https": "443"}

// hostOf is the host and port by which attempts are limited, so that a slow host delays no other.
func hostOf(u *url.URL) string {
	port := cmp.Or(u.Port(), defaultPort[u.Scheme])
	return strings.ToLower(net.JoinHostPort(strings.TrimSuffix(u.Hostname(), "."), port))
}

// dialWithin bounds the connection to a partner, and the TLS handshake on it.
const dialWithin = 10 * time.Second

// newTransport sends callbacks to partners. It resolves names itself and checks each address with the guard before it
// connects, so it uses no proxy, which would resolve names elsewhere. It is used without an http.Client, which would
// follow redirects (R33).
func newTransport(g *guard, c *config.Callbacks) *http.Transport {
	dialer := &net.Dialer{Timeout: dialWithin, Control: g.control}
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
