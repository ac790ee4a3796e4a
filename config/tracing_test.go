package config_test

import (
	"testing"

	"billbridge/config"
	"billbridge/translate"
)

// The receiver gets its usual path, and the headers their secrets. The rate has a default.
func TestTracing(t *testing.T) {
	t.Parallel()
	if parse(t, oneUpstream).Tracing != nil {
		t.Error("tracing is on without its section")
	}
	for text, want := range map[string]string{
		"tracing: {otlp: 'https://otlp.example.com'}":                        "https://otlp.example.com/v1/traces",
		"tracing: {otlp: 'http://127.0.0.1:4318/'}":                          "http://127.0.0.1:4318/v1/traces",
		"tracing: {otlp: 'https://otlp.example.com/tenant/v1/traces'}":       "https://otlp.example.com/tenant/v1/traces",
		"tracing: {otlp: 'https://otlp.example.com/v1/traces', sample: 0.5}": "https://otlp.example.com/v1/traces",
	} {
		c := parse(t, oneUpstream+text+"\n").Tracing
		if c.OTLP.String() != want || c.Sample != 0.01 && c.Sample != 0.5 {
			t.Errorf("%s: %s, %v", text, c.OTLP, c.Sample)
		}
	}
	c := parse(t, oneUpstream+"tracing: {otlp: 'http://127.0.0.1:4318', headers: {api-key: '${env:BILLBRIDGE_ADMIN_TOKEN}', X-Tenant: hana}}\n").Tracing
	if c.Headers["api-key"].Reveal() != "a token of the tests" || c.Headers["X-Tenant"].Reveal() != "hana" || len(c.Headers) != 2 {
		t.Errorf("the headers are %q and %q", c.Headers["api-key"].Reveal(), c.Headers["X-Tenant"].Reveal())
	}
}

// OTEL_RESOURCE_ATTRIBUTES needs no key.
func TestResourceOfSpansIsFromTheEnvironment(t *testing.T) {
	t.Parallel()
	text := oneUpstream + "tracing: {otlp: http://127.0.0.1:4318}\n"
	c, err := config.Parse(translate.File{Name: "test.yaml", Data: []byte(text)}, func(name string) (string, bool) {
		return "of " + name, true
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Tracing.Resource; got != "of OTEL_RESOURCE_ATTRIBUTES" {
		t.Errorf("the resource is %q", got)
	}
}
