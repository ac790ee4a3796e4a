package relay

import (
	"errors"
	"net/netip"
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
	for host, want := range map[string][2]bool{
		"[2606:4700::5efe:10.0.0.1]": {}, "[2606:4700::200:5efe:10.0.0.1]": {}, "[2606:4700::200:5efe:808:808]": {}, "[2606:4700:1:2:0:5efe:7f00:1]": {},
		"[2606:4700:9::5efe:10.0.0.1]": {false, true},
		"[2606:4700::5eff:10.0.0.1]":   {true, true}, "[2606:4700::100:5efe:10.0.0.1]": {true, true}, "[2606:4700::5efe:1:2:3]": {true, true},
		"localhost": {false, true}, "LocalHost": {false, true}, "localhost.": {false, true}, "a.localhost": {false, true}, "a.b.LOCALHOST.": {false, true},
		"localhost.example.com": {true, true}, "notlocalhost.com": {true, true}, "xlocalhost": {true, true},
	} {
		for i, g := range []*guard{g, allowing} {
			if _, err := g.check("https://" + host + "/paid"); (err == nil) != want[i] {
				t.Errorf("%s: %v", host, err)
			}
			if to, err := netip.ParseAddrPort(host + ":443"); err == nil {
				if err := g.control("tcp6", to.String(), nil); (err == nil) != want[i] {
					t.Errorf("dialling %s: %v", host, err)
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
	for address, allowed := range map[string]bool{
		"8.8.8.8:443": true, "8.8.8.8:8443": true, "[2606:4700::1]:443": true,
		"8.8.8.8:80": false, "8.8.8.8:22": false,
		"10.9.1.2:443": true, "10.8.1.2:443": false, "[fd00:9::1]:443": true, "[fd00:8::1]:443": false,
		"169.254.169.254:443": false, "100.100.100.200:443": false, "168.63.129.16:443": false, "192.0.0.192:443": false, "[fd00:ec2::254]:443": false,
		"[64:ff9b::a9fe:a9fe]:443": false, "[64:ff9b::808:808]:443": false, "[64:ff9b:1::808:808]:443": false,
		"[2002:a00:1::]:443": false, "[2001:0:808:808::1]:443": false,
		"[::ffff:8.8.8.8]:443": false, "[::ffff:127.0.0.1]:443": false, "[::127.0.0.1]:443": false,
		"255.255.255.255:443": false, "224.0.0.1:443": false, "[ff02::1]:443": false, "0.0.0.0:443": false, "[::]:443": false,
		"100.64.0.1:443": false, "198.18.0.1:443": false, "[fe80::1]:443": false, "[fec0::1]:443": false, "192.88.99.1:443": false,
	} {
		kind := "tcp4"
		if strings.HasPrefix(address, "[") {
			kind = "tcp6"
		}
		if err := g.control(kind, address, nil); (err == nil) != allowed {
			t.Errorf("%s: %v", address, err)
		}
	}
	if g.control("udp4", "8.8.8.8:443", nil) == nil || g.control("tcp", "localhost:443", nil) == nil {
		t.Error("what is no TCP to an address may be dialled")
	}
}

// The reason why the text of an address is refused does not show the address.
func TestR32_AddressesAreRefusedByTheirText(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://partner.example.com/paid?x=1#y": "", "http://partner.example.com": "", "HTTPS://Partner.Example.COM:443/": "",
		"https://partner.example.com./": "", "https://8.8.8.8/": "", "https://[2606:4700::1]/": "", "https://xn--9t4b11yi5a.example/": "",
		"https://a_b.example.com/": "", "https://1.example.com": "", "https://localhost/": "not called",
		"": "must be a URL", "partner.example.com/paid": "must be a URL", "/paid": "must be a URL", "https:partner.example.com": "must be a URL",
		"https://": "must be a URL", "https://:443/": "must be a URL", "://x": "must be a URL", "https://a b/": "must be a URL", "https://a\x00b/": "must be a URL",
		"ftp://partner.example.com/": "http or https", "file:///etc/passwd": "must be a URL", "gopher://partner.example.com/": "http or https", "javascript://x/%0aalert(1)": "http or https",
		"https://user@partner.example.com/": "user or password", "https://user:secret@partner.example.com/": "user or password", "https://partner.example.com@127.0.0.1/": "user or password",
		"https://partner.example.com:8444/": "port", "http://partner.example.com:22/": "port", "https://partner.example.com:/": "port", "https://partner.example.com:0/": "port",
		"https://[fe80::1%25eth0]/": "not called", "https://127.0.0.1/": "not called", "https://[::1]/": "not called", "https://169.254.169.254/": "not called",
		"https://127.1/": "no name", "https://0x7f000001/": "no name", "https://2130706433/": "no name", "https://0177.0.0.1/": "no name", "https://1.2.3.4.5/": "no name", "https://127.0.0.1./": "no name",
		"https://한글.example/": "", "https://%ED%95%9C%EA%B8%80.example/": "", "https://한글.example:8443/": "", "https://한글.example:8444/": "port", "https://한_글.example/": "no name",
		"https://\u200d.example/": "no name", "https://한글\xff.example/": "no name", "https://%ff.example/": "no name", "https://한글\ufffd.example/": "no name", "https://" + strings.Repeat("한", 60) + ".example/": "no name", "undefined/api/webhook": "must be a URL",
		"https://-a.example/": "no name", "https://a..b/": "no name", "https://a%2eb.example/": "must be a URL", "https://" + strings.Repeat("a", 64) + ".example/": "no name",
		"https://127。0。0。1/": "not called", "https://①②⑦.⓪.⓪.①/": "not called", "https://１６９.２５４.１６９.２５４/": "not called", "https://[fe80::1%25한]/": "not called",
		"https://partner.example.com/" + strings.Repeat("a", 2000): "at most",
	} {
		_, err := strict().check(address)
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
	err := AddressCheck(&config.Config{})("https://" + strings.Repeat("가", 300_000) + ".example.com/")
	if err == nil || err.Error() != "must be at most 2000 characters" {
		t.Error(err)
	}
}
