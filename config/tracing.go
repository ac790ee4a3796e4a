package config

import (
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Tracing is the section tracing: the receiver of spans, and which calls are sampled.
type Tracing struct {
	// the URL of the receiver, for OTLP over HTTP with protobuf
	OTLP Address `yaml:"otlp" config:"required" such:", such as http://127.0.0.1:4318"`
	// the fraction of calls and callbacks whose spans are exported
	Sample Fraction `yaml:"sample" range:"0,1" default:"0.01"`
	// headers of the requests to the receiver, by name
	Headers map[string]Secret `yaml:"headers"`

	Resource string // the environment variable OTEL_RESOURCE_ATTRIBUTES
}

// tracesPath is the path of a receiver whose URL has none (OpenTelemetry, OTLP/HTTP request).
const tracesPath = "/v1/traces"

func (c *Config) checkTracing() {
	t := c.Tracing
	if t == nil {
		return
	}
	if t.OTLP.Path == "" {
		t.OTLP.Path = tracesPath
	}
	t.Resource, _ = c.lookup("OTEL_RESOURCE_ATTRIBUTES")
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		c.checkTracingHeader(name)
	}
}

// warnAboutTracing warns about headers in plain text: they may be secrets.
func (c *Config) warnAboutTracing() {
	if t := c.Tracing; t != nil && t.OTLP.Scheme == "http" && len(t.Headers) > 0 && isRemote(t.OTLP.Host) {
		c.addWarning("tracing.headers are sent to another machine without encryption: use an https URL",
			"tracing", "otlp")
	}
}

func (c *Config) checkTracingHeader(name string) {
	problem := func(text string) { c.addProblem(text, "tracing", "headers", name) }
	for other := range c.Tracing.Headers {
		if other < name && strings.EqualFold(other, name) {
			problem("is used twice: names of headers that differ only in upper and lower case are the same")
		}
	}
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		problem("must be the name of an HTTP header")
	case !httpguts.ValidHeaderFieldValue(c.Tracing.Headers[name].Reveal()):
		problem("the value must not have a line break or another control character")
	}
}
