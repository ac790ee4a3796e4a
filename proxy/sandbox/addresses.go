package sandbox

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// errPrivate is why a shared sandbox does not call an address.
var errPrivate = errors.New("a sandbox that others use calls no loopback or private address: " +
	"use a public address, or start the sandbox with --private-callbacks")

// public are the addresses that a shared sandbox calls: public ones, without the metadata service of a cloud that has
// one of them.
var public = ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("168.63.129.16/32")))

// isShared reports whether others than the developer of this machine use the sandbox. They must not reach what this
// machine reaches: a partner sees the answers to its callbacks.
func (s *Service) isShared() bool {
	return s.opt.Shared || slices.ContainsFunc(s.Partners(), func(p Partner) bool {
		return p.ControlToken != "" && !p.Removed
	})
}

// mayDial returns an error for an address that a shared sandbox does not call. It gets the address that a name was
// resolved to.
func (s *Service) mayDial(network, address string, _ syscall.RawConn) error {
	if s.opt.PrivateCallbacks || !s.isShared() {
		return nil
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil || isISATAP(to.Addr()) || public.Safe(network, address, nil) != nil {
		return errPrivate
	}
	return nil
}

// isISATAP reports whether the interface id of an address embeds an IPv4 address (RFC 5214): a router would send the
// call on to that one.
func isISATAP(ip netip.Addr) bool {
	b := ip.As16()
	return ip.Is6() && !ip.Is4In6() && b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// Transport makes the calls of the sandbox to addresses that partners choose.
func (s *Service) Transport() http.RoundTripper { return s.opt.Transport }

// newTransport returns the default transport. A shared sandbox uses no proxy, which would resolve names itself. A
// connection is not kept, because a sandbox can become a shared one by a partner.
func (s *Service) newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: s.mayDial}
	return &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: 10 * time.Second, DisableKeepAlives: true,
		Proxy: func(r *http.Request) (*url.URL, error) {
			if !s.opt.PrivateCallbacks && s.isShared() {
				return nil, nil
			}
			return http.ProxyFromEnvironment(r)
		},
	}
}
