package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"golang.org/x/net/http/httpguts"
)

// Tracing is the section tracing: the receiver of spans, and which calls are sampled.
type Tracing struct {
	OTLP    Address           `yaml:"otlp" config:"required"` // the URL of the receiver, for OTLP over HTTP with protobuf
	Sample  Fraction          `yaml:"sample"`                 // the fraction of calls and callbacks whose spans are exported
	Headers map[string]Secret `yaml:"headers"`                // headers of the requests to the receiver, by name
}

// UnmarshalYAML reads the section. Missing keys keep their defaults.
func (t *Tracing) UnmarshalYAML(n *yaml.Node) error {
	type plain Tracing // without this method
	filled := plain{Sample: 0.01}
	if err := n.Load(&filled, yaml.WithKnownFields()); err != nil {
		return err
	}
	*t = Tracing(filled)
	return nil
}

// tracesPath is the path of a receiver whose URL has none (OpenTelemetry, OTLP/HTTP request).
const tracesPath = "/v1/traces"

func (c *Config) checkTracing() {
	t, s := c.Tracing, c.source
	if t == nil {
		return
	}
	switch {
	case t.OTLP.URL == nil:
		s.addProblem("a URL is needed, such as http://127.0.0.1:4318", "tracing", "otlp")
	case t.OTLP.Path == "":
		t.OTLP.Path = tracesPath
	}
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		c.checkTracingHeader(name)
	}
	if t.OTLP.URL != nil && t.OTLP.Scheme == "http" && len(t.Headers) > 0 && isRemote(t.OTLP.Host) {
		w := s.position("tracing", "otlp")
		w.Text = "tracing.otlp: tracing.headers are sent to another machine without encryption: use an https URL"
		c.warnings = append(c.warnings, w)
	}
}

// headerName matches names of headers that an error may show. Another name may be a secret in the wrong place.
var headerName = regexp.MustCompile(`^[A-Za-z][A-Za-z-]{0,15}$`)

func (c *Config) checkTracingHeader(name string) {
	problem := func(text string) { c.source.addProblem(text, "tracing", "headers", name) }
	secret := c.Tracing.Headers[name]
	inFile := secret.Reveal()
	resolved := c.resolveSecret(&secret, "tracing", "headers", name)
	c.Tracing.Headers[name] = secret
	for other := range c.Tracing.Headers {
		if other < name && strings.EqualFold(other, name) {
			problem("is used twice: names of headers that differ only in upper and lower case are the same")
		}
	}
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		problem(fmt.Sprintf("must be the name of an HTTP header, but is %q", name))
	case !resolved: // a problem already
	case !secret.IsSet():
		problem(inFile + " is not set")
	case !httpguts.ValidHeaderFieldValue(secret.Reveal()):
		problem("the value must not have a line break or another control character")
	}
}
