package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Peer returns where a connection comes from, as Source does for a request without X-Forwarded-For: proxies have no
// limit of their own.
func (l *Limits) Peer(peer string) (source netip.Prefix, limited bool) {
	address, err := netip.ParseAddrPort(peer)
	if err != nil {
		return source, false
	}
	return l.network(withoutZone(address.Addr()))
}

// Source returns where a request comes from. All limits of a source address count by it. It is the address of the peer
// or, behind a trusted proxy, the right-most address of X-Forwarded-For that is not one of a trusted proxy: a caller
// can have written what is left of it. An IPv6 address stands for its network, which one machine can have as a whole.
// limited is false for a source without limits of its own.
//
// The zero Prefix is a peer without an IP address, such as that of a Unix socket, which has no limits. With an error it
// is every caller behind a trusted proxy whose address cannot be read: all of them are one source, which has limits.
func (l *Limits) Source(peer string, forwarded []string) (source netip.Prefix, limited bool, err error) {
	address, err := netip.ParseAddrPort(peer)
	if err != nil {
		return source, false, nil
	}
	from := withoutZone(address.Addr())
	for rest, more := strings.Join(forwarded, ","), true; more && contain(l.TrustedProxies, from); {
		comma := strings.LastIndexByte(rest, ',')
		next, ok := forwardedAddress(rest[comma+1:])
		switch {
		case len(forwarded) == 0:
			return source, true, fmt.Errorf("%s sent no X-Forwarded-For", from)
		case !ok:
			return source, true, fmt.Errorf("%s sent an X-Forwarded-For whose last address cannot be read: %+.100q",
				from, strings.TrimSpace(rest[comma+1:]))
		}
		from, rest, more = next, rest[:max(comma, 0)], comma >= 0
	}
	source, limited = l.network(from)
	return source, limited, nil
}

// network returns the source with an address.
func (l *Limits) network(from netip.Addr) (source netip.Prefix, limited bool) {
	bits := 32
	if from.Is6() {
		bits = 64
	}
	source, _ = from.Prefix(bits)
	return source, !contain(l.Trusted, from) && !contain(l.TrustedProxies, from)
}

func contain(networks []Network, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n Network) bool { return n.Contains(a) })
}

// forwardedAddress reads an element of X-Forwarded-For: an IP address, which some proxies write with a port, and then
// in brackets or quotes.
func forwardedAddress(text string) (a netip.Addr, ok bool) {
	text = strings.TrimSpace(text)
	if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		text += ":0"
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		var withPort netip.AddrPort
		withPort, err = netip.ParseAddrPort(text)
		a = withPort.Addr()
	}
	return withoutZone(a), err == nil
}

func withoutZone(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
