package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// A Duration is written as 10s, 500ms or 2m.
type Duration time.Duration

// UnmarshalYAML reads a duration, which must be more than nothing.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v <= 0 {
		return fmt.Errorf("must be a time such as 10s or 500ms, but is %q", n.Value)
	}
	*d = Duration(v)
	return nil
}

func (d Duration) String() string { return time.Duration(d).String() }

// A Size is a number of bytes, written as 1MiB, 512KiB or 4096.
type Size int64

// UnmarshalYAML reads a size, which must be more than nothing.
func (s *Size) UnmarshalYAML(n *yaml.Node) error {
	digits, unit := n.Value, int64(1)
	for suffix, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if rest, ok := strings.CutSuffix(n.Value, suffix); ok {
			digits, unit = strings.TrimSpace(rest), factor
		}
	}
	v, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || v <= 0 || v > math.MaxInt64/unit {
		return fmt.Errorf("must be a size such as 1MiB, 512KiB or 4096, but is %q", n.Value)
	}
	*s = Size(v * unit)
	return nil
}

func (s Size) String() string {
	switch {
	case s%(1<<20) == 0:
		return strconv.FormatInt(int64(s>>20), 10) + "MiB"
	case s%(1<<10) == 0:
		return strconv.FormatInt(int64(s>>10), 10) + "KiB"
	}
	return strconv.FormatInt(int64(s), 10)
}

// UnmarshalYAML reads one of the two words.
func (s *Status) UnmarshalYAML(n *yaml.Node) error {
	switch v := Status(n.Value); v {
	case Own, Always200:
		*s = v
		return nil
	}
	return fmt.Errorf("must be own or always-200, but is %q", n.Value)
}

// UnmarshalYAML reads a base URL.
func (a *Address) UnmarshalYAML(n *yaml.Node) error {
	u, err := url.Parse(n.Value)
	switch {
	case err == nil && u.User != nil, err != nil && strings.Contains(n.Value, "@"): // first: the others show the value
		return errors.New("must not carry a user or password")
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Port() != "" && !isPort(u.Port()):
		return fmt.Errorf("must be a URL such as https://billing.example.com/partner, but is %q", n.Value)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return fmt.Errorf("must end with its path, without query or fragment, but is %q", n.Value)
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	a.URL = u
	return nil
}

// A LocalAddress is the IP address of this machine that outgoing connections come from. The zero value leaves the choice
// to the operating system.
type LocalAddress struct{ netip.Addr }

// UnmarshalYAML reads an address without a port. Whether the machine has it shows when it connects.
func (a *LocalAddress) UnmarshalYAML(n *yaml.Node) error {
	v, err := netip.ParseAddr(n.Value)
	if err != nil || v.IsUnspecified() || v.IsMulticast() {
		return fmt.Errorf("must be an IP address of this machine such as 192.0.2.10, but is %q", n.Value)
	}
	a.Addr = v.Unmap()
	return nil
}

// TCP is the value for [net.Dialer.LocalAddr], nil for the zero value. A dialer that has it dials only addresses of the
// same family, IPv4 or IPv6, and returns a [*net.AddrError] where a name has none.
func (a LocalAddress) TCP() net.Addr {
	if !a.IsValid() {
		return nil // and no nil *net.TCPAddr, which a dialer would take for an address
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(a.Addr, 0))
}

// UnmarshalYAML reads the upstreams in the order of the file.
func (u *Upstreams) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return errors.New("must name upstreams, such as new: {form: v2, url: https://billing.example.com}")
	}
	var list Upstreams
	var mistakes yaml.LoadErrors // of all upstreams, not of the first bad one alone
	for i := 0; i+1 < len(n.Content); i += 2 {
		one := Upstream{Name: n.Content[i].Value, Timeout: Duration(10 * time.Second), Connections: 256, Wait: Duration(2 * time.Second)}
		if err := n.Content[i+1].Load(&one, yaml.WithKnownFields()); err != nil {
			var many *yaml.LoadErrors
			if !errors.As(err, &many) {
				return err
			}
			mistakes.Errors = append(mistakes.Errors, many.Errors...)
		}
		list = append(list, one)
	}
	if len(mistakes.Errors) > 0 {
		return &mistakes
	}
	*u = list
	return nil
}

// A Secret cannot print: not by fmt, not by log/slog, not as JSON or YAML. In the file it is spelled out, or
// ${env:NAME}, or ${file:PATH}.
type Secret struct {
	// A pointer, since fmt calls no method on an unexported field: there it prints an address.
	value *string
}

// NewSecret keeps value.
func NewSecret(value string) Secret { return Secret{&value} }

// Reveal is the one way to the value.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsSet tells whether there is one.
func (s Secret) IsSet() bool { return s.Reveal() != "" }

const hidden = "(secret)"

// Format prints the same for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// LogValue is what log/slog shows.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText is what JSON and YAML show.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// UnmarshalYAML keeps the word as the file has it; the check of the config resolves it.
func (s *Secret) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return errors.New("must be a word, ${env:NAME} or ${file:PATH}")
	}
	*s = NewSecret(n.Value)
	return nil
}
