package config_test

import (
	"net/netip"
	"strings"
	"testing"

	"billbridge/config"
)

func TestSourceOfAnAddress(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1/32", "[::ffff:192.0.2.1]:80": "192.0.2.1/32", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80": "fe80::/64", "@": netip.Prefix{}.String(),
	} {
		got, limited, err := new(config.Limits).Source(remote, []string{"203.0.113.9"})
		if got.String() != want || limited != got.IsValid() || err != nil {
			t.Errorf("%s: %s %t %v", remote, got, limited, err)
		}
		if peer, same := new(config.Limits).Peer(remote); peer != got || same != limited {
			t.Errorf("the connection of %s: %s %t", remote, peer, same)
		}
	}
}

// Proxies write addresses with ports, brackets, quotes and zones. Of what is no address nobody knows the caller: all
// such calls are one source, which has limits.
func TestSourceInXForwardedForOfATrustedProxy(t *testing.T) {
	t.Parallel()
	proxy := config.Network{Prefix: netip.MustParsePrefix("127.0.0.0/8")}
	everybody := config.Network{Prefix: netip.MustParsePrefix("0.0.0.0/0")}
	limits := config.Limits{TrustedProxies: []config.Network{proxy}, Trusted: []config.Network{everybody}}
	const v4, v6, unknown = "192.0.2.1/32", "2001:db8::/64", "invalid Prefix"
	for header, want := range map[string]string{
		"192.0.2.1": v4, "192.0.2.1:5555": v4, `"192.0.2.1:5555"`: v4, "203.0.113.9,\t192.0.2.1 ": v4, "::ffff:192.0.2.1": v4,
		"[::ffff:192.0.2.1]:80": v4, "192.0.2.1, 127.0.0.9:80": v4,
		"2001:db8::1": v6, "[2001:db8::1]": v6, "[2001:db8::1]:443": v6, `"[2001:db8::1]:443"`: v6, "2001:db8::1%eth0": v6,
		"[2001:db8::1%eth0]:443": v6, "203.0.113.9 AND [2001:db8::1]:443": v6,
		"127.0.0.9, 127.0.0.8:1": "127.0.0.9/32",
		"MISSING":                unknown, "": unknown, ",": unknown, "192.0.2.1,": unknown, "192.0.2.1 AND ": unknown, ", 127.0.0.9": unknown,
		"unknown": unknown, "_hidden": unknown, "192.0.2.1, unknown": unknown, "192.0.2.1:99999": unknown, "192.0.2.1:": unknown, "[192.0.2.1]:80": unknown,
		"[2001:db8::1": unknown, "2001:db8::1]:443": unknown, "192.0.2.1 203.0.113.9": unknown, "192.0.2.01": unknown, `"`: unknown,
		`"192.0.2.1`: unknown, `for="[2001:db8::1]:443"`: unknown, "192.0.2.1/32": unknown,
	} {
		var lines []string
		if header != "MISSING" {
			lines = strings.Split(header, " AND ")
		}
		got, limited, err := limits.Source("127.0.0.1:80", lines)
		trusted := want == v4 || want == "127.0.0.9/32"
		if got.String() != want || limited == trusted || (err != nil) != (want == unknown) {
			t.Errorf("%s: %s limited %t %v, want %s", header, got, limited, err, want)
		}
	}
	_, _, err := limits.Source("127.0.0.1:80", []string{"192.0.2.1, a\nb\u202e" + strings.Repeat("x", 1000)})
	if text := err.Error(); !strings.HasPrefix(text, `127.0.0.1 sent an X-Forwarded-For whose last address cannot be read: "a\nb\u202e`) ||
		len(text) > 200 {
		t.Error(text)
	}
}
