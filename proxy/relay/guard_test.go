package relay

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"billbridge/config"
	"billbridge/proxy/proxytest"
)

func lines(t *testing.T, file string) []string {
	t.Helper()
	data := proxytest.ReadFile(t, "testdata/ssrf-safeurl/"+file)
	return strings.Fields(string(data))
}

// strict is the guard of a config without settings for addresses.
func strict() *guard {
	c := config.DefaultCallbacks()
	return newGuard(&c)
}

// Every host of the third-party list is refused by its text, and of every network in it the first, the last and one other address
// are refused when they are dialled.
func TestR32_CorpusIsRefused(t *testing.T) {
	t.Parallel()
	g := strict()
	hosts := lines(t, "blocked_hosts.txt")
	if len(hosts) != 19 {
		t.Fatalf("the list has %d hosts", len(hosts))
	}
	for _, host := range hosts {
		for _, scheme := range []string{"http://", "https://", "HTTP://"} {
			if u, err := g.check(scheme + host); err == nil {
				t.Errorf("%s%s is taken as %s", scheme, host, u.Host)
			}
		}
	}
	networks := lines(t, "blocked_cidrs.txt")
	if len(networks) != 30 {
		t.Fatalf("the list has %d networks", len(networks))
	}
	for _, network := range networks {
		p := netip.MustParsePrefix(network)
		for _, ip := range []netip.Addr{p.Addr(), p.Addr().Next(), last(p)} {
			if !p.Contains(ip) {
				continue
			}
			kind := "tcp4"
			if ip.Is6() {
				kind = "tcp6"
			}
			var r *refused
			if err := g.control(kind, netip.AddrPortFrom(ip, 443).String(), nil); !errors.As(err, &r) {
				t.Errorf("%s of %s may be dialled: %v", ip, network, err)
			}
			if _, err := g.check("https://" + netip.AddrPortFrom(ip, 443).String() + "/paid"); err == nil {
				t.Errorf("%s of %s passes by its letters", ip, network)
			}
		}
	}
}

// ISATAP addresses and localhost are refused at the create, unless the config allows their networks.
func TestR32_ISATAPAndLocalhostAreRefusedAtTheCreate(t *testing.T) {
	t.Parallel()
	c := config.DefaultCallbacks()
	c.Allow = []config.Network{{Prefix: netip.MustParsePrefix("127.0.0.0/8")}, {Prefix: netip.MustParsePrefix("2606:4700:9::/48")}}
	g, allowing := strict(), newGuard(&c)
	for _, row := range proxytest.RowsIn(`
[2606:4700::5efe:10.0.0.1] [2606:4700::200:5efe:10.0.0.1] [2606:4700::200:5efe:808:808] [2606:4700:1:2:0:5efe:7f00:1] | no no
[2606:4700:9::5efe:10.0.0.1] localhost LocalHost localhost. a.localhost a.b.LOCALHOST. | no yes
[2606:4700::5eff:10.0.0.1] [2606:4700::100:5efe:10.0.0.1] [2606:4700::5efe:1:2:3] localhost.example.com notlocalhost.com xlocalhost | yes yes
`) {
		for host := range strings.FieldsSeq(row[0]) {
			for i, g := range []*guard{g, allowing} {
				want := strings.Fields(row[1])[i] == "yes"
				if _, err := g.check("https://" + host + "/paid"); (err == nil) != want {
					t.Errorf("%s: %v", host, err)
				}
				if to, err := netip.ParseAddrPort(host + ":443"); err == nil {
					if err := g.control("tcp6", to.String(), nil); (err == nil) != want {
						t.Errorf("dialling %s: %v", host, err)
					}
				}
			}
		}
	}
}

// With a second spelling of its port, a host would have twice the limit of attempts.
func TestPortsHaveOneSpelling(t *testing.T) {
	t.Parallel()
	c := config.DefaultCallbacks()
	c.Ports = nil
	g := newGuard(&c)
	for port, good := range map[string]bool{"443": true, "1": true, "65535": true, "0443": false, "00000443": false, "65536": false, "99999999999999999999": false, "": false} {
		if _, err := g.check("https://partner.example.com:" + port + "/"); (err == nil) != good {
			t.Errorf("%q: %v", port, err)
		}
	}
}

func last(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	ip, _ := netip.AddrFromSlice(bytes)
	return ip
}

// Addresses that embed other addresses, of clouds and of other networks, are refused when they are dialled.
func TestR32_Dial(t *testing.T) {
	t.Parallel()
	c := config.DefaultCallbacks()
	c.Ports = []int{443, 8443}
	c.Allow = []config.Network{{Prefix: netip.MustParsePrefix("10.9.0.0/16")}, {Prefix: netip.MustParsePrefix("fd00:9::/32")}}
	g := newGuard(&c)
	for allowed, addresses := range map[bool]string{
		true: `8.8.8.8:443 8.8.8.8:8443 [2606:4700::1]:443 10.9.1.2:443 [fd00:9::1]:443`,
		false: `8.8.8.8:80 8.8.8.8:22 10.8.1.2:443 [fd00:8::1]:443
			169.254.169.254:443 100.100.100.200:443 168.63.129.16:443 192.0.0.192:443 [fd00:ec2::254]:443
			[64:ff9b::a9fe:a9fe]:443 [64:ff9b::808:808]:443 [64:ff9b:1::808:808]:443 [2002:a00:1::]:443 [2001:0:808:808::1]:443
			[::ffff:8.8.8.8]:443 [::ffff:127.0.0.1]:443 [::127.0.0.1]:443
			255.255.255.255:443 224.0.0.1:443 [ff02::1]:443 0.0.0.0:443 [::]:443
			100.64.0.1:443 198.18.0.1:443 [fe80::1]:443 [fec0::1]:443 192.88.99.1:443`,
	} {
		for address := range strings.FieldsSeq(addresses) {
			kind := "tcp4"
			if address[0] == '[' {
				kind = "tcp6"
			}
			if err := g.control(kind, address, nil); (err == nil) != allowed {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
	if g.control("udp4", "8.8.8.8:443", nil) == nil || g.control("tcp", "localhost:443", nil) == nil {
		t.Error("what is no TCP to an address may be dialled")
	}
}

// The reason why the text of an address is refused does not show the address.
func TestR32_AddressesAreRefusedByTheirText(t *testing.T) {
	t.Parallel()
	for _, row := range append(proxytest.Rows(t, "testdata/addresses.txt"),
		[]string{"no name", "https://" + strings.Repeat("한", 60) + ".example/"}, []string{"no name", "https://" + strings.Repeat("a", 64) + ".example/"},
		[]string{"at most", "https://partner.example.com/" + strings.Repeat("a", 2000)}) {
		want := row[0]
		address, err := strconv.Unquote(`"` + row[1] + `"`)
		proxytest.Must(t, err)
		_, err = strict().check(address)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", address, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: got %v, want %q", address, err, want)
		case err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "127.")):
			t.Errorf("%q: the error shows it: %v", address, err)
		}
	}
	c := config.DefaultCallbacks()
	c.HTTPSOnly, c.Ports = true, nil
	if _, err := newGuard(&c).check("http://partner.example.com/"); err == nil {
		t.Error("http is taken where https is demanded")
	}
	if _, err := newGuard(&c).check("https://partner.example.com:12345/"); err != nil {
		t.Error(err)
	}
}

// A Hangul name is converted as in a browser, in any spelling. The same name is checked, called and counted.
func TestR32_HangulNamesAreConverted(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://한글.example/":                                   "xn--bj0bj06e.example",
		"https://한글.EXAMPLE:8443/":                              "xn--bj0bj06e.example:8443",
		"https://\u1112\u1161\u11ab\u1100\u1173\u11af.example/": "xn--bj0bj06e.example", // in parts, as macOS writes it
		"https://%ED%95%9C%EA%B8%80。example/":                   "xn--bj0bj06e.example",
		"https://Partner.example/":                              "Partner.example", // ASCII stays as it is
		"https://８.８.８.８/":                                      "8.8.8.8",
	} {
		u, err := strict().check(address)
		if err != nil || u.Host != want {
			t.Errorf("%s: %v, %v, want %s", address, u, err, want)
		}
	}
}

// To convert a long name of a host takes seconds, so the length of an address is checked first.
func TestLongAddressIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := strict().check("https://" + strings.Repeat("가", 300_000) + ".example.com/")
	if err == nil || err.Error() != "must be at most 2000 characters" {
		t.Error(err)
	}
}
