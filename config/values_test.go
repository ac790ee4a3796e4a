package config_test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"billbridge/config"
	"billbridge/translate"
)

// Only a single IP address of a machine is accepted.
func TestLocalAddressIsOneIPAddress(t *testing.T) {
	t.Parallel()
	const before = "upstreams: {new: {form: v2, url: https://new.example.com, local_address: "
	for text, want := range map[string]string{
		"192.0.2.10":          "192.0.2.10:0",
		`"2001:db8::10"`:      "[2001:db8::10]:0",
		`"::ffff:192.0.2.10"`: "192.0.2.10:0",
	} {
		if got := fmt.Sprint(parse(t, before+text+"}}\n").Upstreams[0].Local.TCP()); got != want {
			t.Errorf("%s: connections come from %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"eth0", "192.0.2.10:443", "192.0.2.0/24", "0.0.0.0", `"::"`, "224.0.0.1", `""`, "[192.0.2.10]"} {
		if c, err := config.Parse(translate.File{Name: "test.yaml", Data: []byte(before + text + "}}\n")}, lookup); err == nil {
			t.Errorf("%s: accepted as %s", text, c.Upstreams[0].Local)
		}
	}
}

// The zero value returns a nil net.Addr. A dialer would take a nil *net.TCPAddr for an address.
func TestNoLocalAddressIsNil(t *testing.T) {
	t.Parallel()
	if a := (config.LocalAddress{}).TCP(); a != nil {
		t.Errorf("got %#v", a)
	}
}

// A dialer with a local address uses only remote addresses of the same family.
func TestLocalAddressDialsItsOwnFamily(t *testing.T) {
	t.Parallel()
	from := config.LocalAddress{Addr: netip.MustParseAddr("127.0.0.2")}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = listener.Close() }()
	dialer := net.Dialer{LocalAddr: from.TCP()}
	connection, err := dialer.Dial("tcp", listener.Addr().String())
	must(t, err)
	defer func() { _ = connection.Close() }()
	if got := netip.MustParseAddrPort(connection.LocalAddr().String()).Addr(); got != from.Addr {
		t.Errorf("the connection comes from %s", got)
	}
	if connection, err := dialer.Dial("tcp", "[::1]:443"); err == nil {
		_ = connection.Close()
		t.Error("dialled an IPv6 address from an IPv4 one")
	}
}
