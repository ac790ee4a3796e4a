package config

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Source returns where a connection or a request comes from. All limits of a source address count by it. It is the
// address of the peer or, behind a trusted proxy, the right-most address of X-Forwarded-For that is not one of a
// trusted proxy: a caller can have written what is left of it. An IPv6 address stands for its network, which one
// machine can have as a whole. The zero Prefix is a peer without an IP address. limited is false for a source without
// limits of its own.
func (l *Limits) Source(peer string, forwarded []string) (source netip.Prefix, limited bool) {
	address, err := netip.ParseAddrPort(peer)
	if err != nil {
		return source, false
	}
	from := address.Addr().Unmap().WithZone("")
	within := func(networks []Network) bool {
		return slices.ContainsFunc(networks, func(n Network) bool { return n.Contains(from) })
	}
	for rest := strings.Join(forwarded, ","); rest != "" && within(l.TrustedProxies); {
		comma := strings.LastIndexByte(rest, ',')
		next, err := netip.ParseAddr(strings.TrimSpace(rest[comma+1:]))
		if err != nil {
			break
		}
		from, rest = next.Unmap().WithZone(""), rest[:max(comma, 0)]
	}
	bits := 32
	if from.Is6() {
		bits = cmp.Or(l.IPv6Prefix, 64)
	}
	source, _ = from.Prefix(bits)
	return source, !within(l.Trusted) && !within(l.TrustedProxies)
}
