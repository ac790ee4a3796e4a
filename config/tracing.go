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

// Tracing says which calls are traced, and where their spans go.
type Tracing struct {
	OTLP    Address           `yaml:"otlp" config:"required"` // of the receiver, OTLP over HTTP with protobuf
	Sample  Fraction          `yaml:"sample"`                 // the fraction of calls and callbacks whose spans are exported
	Headers map[string]Secret `yaml:"headers"`                // of the requests to the receiver
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

// tracesPath is the path of a receiver that the file names without a path (OpenTelemetry, OTLP/HTTP request).
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
		w.Text = "tracing.otlp: the headers cross the network in plain text: use an https URL"
		c.warnings = append(c.warnings, w)
	}
}

// headerName matches names that an error may show. Others may be secrets in the wrong place.
var headerName = regexp.MustCompile(`^[A-Za-z][A-Za-z-]{0,15}$`)

func (c *Config) checkTracingHeader(name string) {
	problem := func(text string) { c.source.addProblem(text, "tracing", "headers", name) }
	secret := c.Tracing.Headers[name]
	inFile := secret.Reveal()
	resolved := c.resolveSecret(&secret, "tracing", "headers", name)
	c.Tracing.Headers[name] = secret
	for other := range c.Tracing.Headers {
		if other < name && strings.EqualFold(other, name) {
			problem("is there twice: upper and lower case count as equal")
		}
	}
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		problem(fmt.Sprintf("must be the name of an HTTP header, but is %q", name))
	case !resolved: // a problem already
	case !secret.IsSet():
		problem(inFile + " is not set")
	case !httpguts.ValidHeaderFieldValue(secret.Reveal()):
		problem("the value cannot be an HTTP header: it has a line break or another control character")
	}
}
