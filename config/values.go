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
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// A Duration is written as 10s, 500ms or 2m.
type Duration time.Duration

// UnmarshalYAML reads a duration, which must be greater than 0.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v <= 0 {
		return fmt.Errorf("must be a duration such as 10s or 500ms, but is %q", n.Value)
	}
	*d = Duration(v)
	return nil
}

func (d Duration) String() string { return time.Duration(d).String() }

// A Size is a number of bytes, written as 1MiB, 512KiB or 4096.
type Size int64

// UnmarshalYAML reads a size, which must be greater than 0.
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

// loadWord reads a value of a type with a fixed set of words. The schema has the same words.
func loadWord[T interface {
	~string
	words() []string
}](n *yaml.Node, value *T,
) error {
	words := (*value).words()
	if last := len(words) - 1; !slices.Contains(words, n.Value) {
		return fmt.Errorf("must be %s or %s, but is %q", strings.Join(words[:last], ", "), words[last], n.Value)
	}
	*value = T(n.Value)
	return nil
}

// texts returns the words of a type.
func texts[T ~string](words ...T) []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	return list
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

func (Status) words() []string { return texts(Own, Always200) }

// UnmarshalYAML reads own or always-200.
func (s *Status) UnmarshalYAML(n *yaml.Node) error { return loadWord(n, s) }

// UnmarshalYAML reads a base URL.
func (a *Address) UnmarshalYAML(n *yaml.Node) error {
	u, err := url.Parse(n.Value)
	switch {
	case err == nil && u.User != nil, err != nil && strings.Contains(n.Value, "@"): // first, since the other messages show the value
		return errors.New("must not carry a user or password")
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Port() != "" && !isPort(u.Port()):
		return fmt.Errorf("must be a URL such as https://billing.example.com/partner, but is %q", n.Value)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return fmt.Errorf("must not have a query or a fragment, but is %q", n.Value)
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	a.URL = u
	return nil
}

// A LocalAddress is the source IP address of outgoing connections. With the zero value the operating system chooses it.
type LocalAddress struct{ netip.Addr }

// UnmarshalYAML reads an IP address without a port. It does not check that the machine has the address.
func (a *LocalAddress) UnmarshalYAML(n *yaml.Node) error {
	v, err := netip.ParseAddr(n.Value)
	if err != nil || v.IsUnspecified() || v.IsMulticast() {
		return fmt.Errorf("must be an IP address of this machine such as 192.0.2.10, but is %q", n.Value)
	}
	a.Addr = v.Unmap()
	return nil
}

// TCP returns the value for [net.Dialer.LocalAddr], or nil for the zero value. With a local address a dialer uses only remote addresses
// of the same family, IPv4 or IPv6. It returns a [*net.AddrError] if a name has none.
func (a LocalAddress) TCP() net.Addr {
	if !a.IsValid() {
		return nil // a nil *net.TCPAddr would be an address to a dialer
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(a.Addr, 0))
}

// UnmarshalYAML reads the upstreams in the order of the file.
func (u *Upstreams) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return errors.New("must name upstreams, such as new: {form: v2, url: https://billing.example.com}")
	}
	var list Upstreams
	var mistakes yaml.LoadErrors // of all upstreams, not only of the first bad one
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

// A Secret does not print its value: not with fmt or log/slog, and not as JSON or YAML. In the file it is the value itself, ${env:NAME}
// or ${file:PATH}.
type Secret struct {
	// A pointer: for an unexported field fmt does not call Format, and prints the address.
	value *string
}

// NewSecret returns a secret with a value.
func NewSecret(value string) Secret { return Secret{&value} }

// Reveal returns the value.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsSet reports whether the value is not empty.
func (s Secret) IsSet() bool { return s.Reveal() != "" }

const redacted = "(secret)"

// Format prints the same text for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue returns the text for log/slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns the text for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalYAML reads the value or the reference, which resolveSecret replaces later.
func (s *Secret) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return errors.New("must be text, ${env:NAME} or ${file:PATH}")
	}
	if n.Value == "" {
		return errors.New("is empty: write text, ${env:NAME} or ${file:PATH}, or remove the key")
	}
	*s = NewSecret(n.Value)
	return nil
}
