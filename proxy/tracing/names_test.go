package tracing

import (
	"testing"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// The names of attributes are those of the semantic conventions of OpenTelemetry.
func TestNamesOfAttributes(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]attribute.Key{
		Method: semconv.HTTPRequestMethodKey, Route: semconv.HTTPRouteKey, Path: semconv.URLPathKey,
		Scheme: semconv.URLSchemeKey, URL: semconv.URLFullKey, Status: semconv.HTTPResponseStatusCodeKey,
		Resend: semconv.HTTPRequestResendCountKey, ServerName: semconv.ServerAddressKey, ServerPort: semconv.ServerPortKey,
		errorType: semconv.ErrorTypeKey, "service.name": semconv.ServiceNameKey, "service.version": semconv.ServiceVersionKey,
		schemaURL: semconv.SchemaURL,
	} {
		if name != string(want) {
			t.Errorf("%s must be %s", name, want)
		}
	}
}
