package relay

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"billbridge/config"

	"code.dny.dev/ssrf"
)

// A guard says which addresses of partners may be called (R32). It judges twice: what is wrong on its face when
// the address is given, and every address that the name resolves to when it is dialled.
type guard struct {
	httpsOnly bool
	ports     []int // any if there are none
	dial      *ssrf.Guardian
}

// metadata are services of clouds that answer any caller on public addresses. The others have private ones.
var metadata = netip.MustParsePrefix("168.63.129.16/32")

func newGuard(c *config.Callbacks) *guard {
	var v4, v6 []netip.Prefix
	for _, n := range c.Allow {
		if n.Addr().Is4() {
			v4 = append(v4, n.Prefix)
		} else {
			v6 = append(v6, n.Prefix)
		}
	}
	ports := ssrf.WithAnyPort()
	if len(c.Ports) > 0 {
		list := make([]uint16, len(c.Ports))
		for i, port := range c.Ports {
			list[i] = uint16(port)
		}
		ports = ssrf.WithPorts(list...)
	}
	return &guard{httpsOnly: c.HTTPSOnly, ports: c.Ports, dial: ssrf.New(
		ports, ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...),
		ssrf.WithDeniedV4Prefixes(metadata),
	)}
}

// control refuses to dial where it must not. It sees the address that the name resolved to, so a name that means
// something else by now gains nothing.
func (g *guard) control(network, address string, _ syscall.RawConn) error {
	if err := g.dial.Safe(network, address, nil); err != nil {
		return &refused{err}
	}
	return nil
}

// A refused address is one that is never called.
type refused struct{ cause error }

func (r *refused) Error() string { return "the address is not allowed: " + r.cause.Error() }

func (r *refused) Unwrap() error { return r.cause }

// AddressCheck returns what a relay with that config makes of a partner's callback address before anything is resolved: nil,
// or why it is never called. The error shows nothing of the address, which may carry a secret.
func AddressCheck(c *config.Config) func(address string) error {
	callbacks := config.DefaultCallbacks()
	if c.Callbacks != nil {
		callbacks = *c.Callbacks
	}
	g := newGuard(&callbacks)
	return func(address string) error {
		_, err := g.check(address)
		return err
	}
}

// face judges an address by its letters, before anything is resolved, and returns it with a host of ASCII. The error is for
// the partner: it says what is wrong and shows nothing of the address, which may carry a secret.
func (g *guard) check(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "":
		return nil, fmt.Errorf("must be a URL such as https://partner.example.com/paid")
	case u.Scheme != "https" && (u.Scheme != "http" || g.httpsOnly): // url.Parse has made it small letters
		if g.httpsOnly {
			return nil, fmt.Errorf("must be an https URL")
		}
		return nil, fmt.Errorf("must be an http or https URL")
	case u.User != nil:
		return nil, fmt.Errorf("must not carry a user or password")
	case len(address) > maxAddress:
		return nil, fmt.Errorf("must be at most %d characters", maxAddress)
	}
	port := map[string]int{"http": 80, "https": 443}[u.Scheme]
	if text := u.Port(); text != "" || strings.HasSuffix(u.Host, ":") {
		// 0443 would be another host to those who count attempts by it.
		if port, err = strconv.Atoi(text); err != nil || strconv.Itoa(port) != text || port > 65535 {
			return nil, fmt.Errorf("has no port behind its colon")
		}
	}
	if len(g.ports) > 0 && !slices.Contains(g.ports, port) {
		return nil, fmt.Errorf("its port is not one of those allowed here")
	}
	host := asciiHost(u.Hostname())
	if text := u.Port(); host != u.Hostname() && text != "" {
		u.Host = host + ":" + text
	} else if host != u.Hostname() {
		u.Host = host
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" || g.dial.SafeAddrPort(netip.AddrPortFrom(ip, uint16(port))) != nil {
			return nil, fmt.Errorf("its host is an address that is not called from here")
		}
		return u, nil
	}
	if !isName(host) {
		return nil, fmt.Errorf("its host is no name of a host")
	}
	return u, nil
}

// maxAddress is more than any browser takes.
const maxAddress = 2000

// isName reports whether a host is a name as DNS has them. One whose last label is a number, 127.1 or 0x7f000001 say,
// is none: resolvers read an address into it.
func isName(host string) bool {
	host = strings.TrimSuffix(host, ".")
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false // names in other alphabets are converted before
			}
		}
	}
	last := labels[len(labels)-1]
	_, err := strconv.ParseUint(last, 0, 64)
	return len(host) <= 253 && err != nil && strings.Trim(last, "0123456789") != ""
}

// hostOf is what attempts are counted by, so that one slow host delays no other.
func hostOf(u *url.URL) string {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return strings.ToLower(net.JoinHostPort(strings.TrimSuffix(u.Hostname(), "."), port))
}
