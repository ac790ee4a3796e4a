package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a container may have no database
	"unicode"
	"unicode/utf8"
)

// A Duration is written as 10s, 500ms or 2m.
type Duration time.Duration

func (d *Duration) set(text string) error {
	return setDuration(d, text, 1, "must be a duration greater than 0s, such as 10s or 500ms")
}

func setDuration[D ~int64](d *D, text string, least time.Duration, must string) error {
	v, err := time.ParseDuration(text)
	if *d = D(v); err != nil || v < least {
		return errors.New(must)
	}
	return nil
}

// String returns the duration without zeros at its end: 15m and not 15m0s. All durations in texts for people are
// written like this.
func (d Duration) String() string {
	text := time.Duration(d).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// A DurationOrZero is a Duration that may be 0s.
type DurationOrZero time.Duration

func (d *DurationOrZero) set(text string) error {
	return setDuration(d, text, 0, "must be a duration such as 5m or 0s")
}

func (d DurationOrZero) String() string { return Duration(d).String() }

// A Fraction is from 0 to 1.
type Fraction float64

// A Size is a number of bytes, written as 1MiB, 512KiB or 4096.
type Size int64

func (s *Size) set(text string) error {
	unit := int64(1)
	for suffix, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if digits, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = strings.TrimSpace(digits), factor
		}
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if *s = Size(v * unit); err != nil || v <= 0 || v > math.MaxInt64/unit {
		return errors.New("must be a size greater than 0, such as 1MiB, 512KiB or 4096")
	}
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

// An Address is a base URL without a slash at the end.
type Address struct{ *url.URL }

func (a *Address) set(text string) error {
	u, err := url.Parse(text)
	switch {
	case err == nil && u.User != nil, err != nil && strings.Contains(text, "@"):
		return errors.New("must not carry a user or password")
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Port() != "" && !isPort(u.Port()):
		return errors.New("must be a URL such as https://billing.example.com/partner")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("must not have a query or a fragment")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	a.URL = u
	return nil
}

// An Origin is where a page is from, as browsers write it in the header Origin.
type Origin string

// origin matches origins. Browsers write a host in lower case, and a Hangul domain as xn--.
var origin = regexp.MustCompile(`^(https?)://([a-z0-9_.-]+|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?$`)

func (o *Origin) set(text string) error {
	parts := origin.FindStringSubmatch(text)
	if parts == nil {
		return errors.New("must be the origin of a page as browsers write it, such as https://shop.example.com: " +
			"in lower case, without a path and without *")
	}
	*o = Origin(text)
	port := strings.TrimPrefix(parts[3], ":")
	if port != "" && !isPort(port) || port == map[string]string{"http": "80", "https": "443"}[parts[1]] {
		return errors.New("must have a port only if browsers write it: not 443 with https, and not 80 with http")
	}
	return nil
}

// A Secret does not print its value: not with fmt or log/slog, and not as JSON or YAML. In the file it is the value
// itself, ${env:NAME} or ${file:PATH}.
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

// SecretText returns a secret as a file or a variable has it, without the space around it. What an editor adds and no
// caller sends is an error: such a secret would match nothing.
func SecretText(text string) (string, error) {
	switch text = strings.TrimSpace(text); {
	case strings.HasPrefix(text, "\ufeff"):
		return "", errors.New("begins with a byte order mark: save the text without it")
	case strings.ContainsAny(text, "\r\n"):
		return "", errors.New("has more than one line")
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return "", errors.New("is not text in UTF-8, or has a control character such as NUL")
	}
	return text, nil
}

// set stores the value or the reference, which load then replaces.
func (s *Secret) set(text string) error {
	if *s = NewSecret(text); text == "" {
		return errors.New("must be text that is not empty, ${env:NAME} or ${file:PATH}")
	}
	return nil
}
