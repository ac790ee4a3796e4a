package config_test

import (
	"net/netip"
	"testing"

	"billbridge/config"
)

func TestSourceOfAnAddress(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1/32", "[::ffff:192.0.2.1]:80": "192.0.2.1/32", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80": "fe80::/64", "@": netip.Prefix{}.String(),
	} {
		got, limited := new(config.Limits).Source(remote, []string{"203.0.113.9"})
		if got.String() != want || limited != got.IsValid() {
			t.Errorf("%s: %s %t", remote, got, limited)
		}
	}
}
