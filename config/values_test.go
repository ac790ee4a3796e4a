package config_test

import (
	"fmt"
	"testing"
	"time"

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

// A duration has no zeros at its end.
func TestDurationIsWrittenShort(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0s": 0, "500ms": 500 * time.Millisecond, "10s": 10 * time.Second, "1.5s": 1500 * time.Millisecond, "1m": time.Minute,
		"10m": 10 * time.Minute, "1m10s": 70 * time.Second, "1h": time.Hour, "20h": 20 * time.Hour, "1h10m": 70 * time.Minute, "1h0m1s": time.Hour + time.Second,
	} {
		if got := config.Duration(d).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got := config.DurationOrZero(d).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
