package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"billbridge/config"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	// requestWithin bounds one request to the receiver.
	requestWithin = 10 * time.Second
	// firstPause is about how long an export waits before its first retry. Each further pause is half as long again.
	firstPause = 5 * time.Second
	// maxAnswer is the most bytes of an answer that are read.
	maxAnswer = 64 << 10
	// maxError is the most bytes of an error in the log: an error contains the answer of the receiver.
	maxError = 300

	protobuf = "application/x-protobuf"
)

// A receiver is where spans go, by OTLP over HTTP. One goroutine uses it.
type receiver struct {
	url      string
	headers  http.Header
	client   *http.Client
	resource *resource.Resource
	zip      *gzip.Writer      // used again: it is large
	hide     *strings.Replacer // of the values of headers
}

func newReceiver(c *config.Tracing, version string) *receiver {
	dialer := &net.Dialer{Timeout: requestWithin}
	r := &receiver{
		url: c.OTLP.String(), headers: http.Header{"User-Agent": {"billbridge/" + version}},
		client: &http.Client{
			Timeout: requestWithin,
			Transport: &http.Transport{
				DialContext: dialer.DialContext, TLSHandshakeTimeout: requestWithin, IdleConnTimeout: 30 * time.Second,
				ForceAttemptHTTP2: true,
			},
			// Another receiver must not get the headers.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		resource: &resource.Resource{Attributes: attributes(c.Resource, version)},
		zip:      gzip.NewWriter(nil),
	}
	var secrets, pairs []string
	for name, value := range c.Headers {
		r.headers.Set(name, value.Reveal())
		// A receiver may repeat only the token of Bearer TOKEN.
		secrets = append(append(secrets, value.Reveal()), strings.Fields(value.Reveal())...)
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // one may be the beginning of another
	for _, secret := range secrets {
		pairs = append(pairs, secret, "(secret)")
	}
	r.hide = strings.NewReplacer(pairs...)
	r.headers.Set("Content-Type", protobuf)
	r.headers.Set("Content-Encoding", "gzip")
	return r
}

// attributes returns those of the resource: the service, and the list in OTEL_RESOURCE_ATTRIBUTES (OpenTelemetry,
// Resource SDK).
func attributes(list, version string) []*common.KeyValue {
	names := map[string]string{}
	for pair := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			continue
		}
		value = strings.TrimSpace(value)
		if decoded, err := url.PathUnescape(value); err == nil {
			value = decoded
		}
		names[name] = value
	}
	names["service.name"] = "billbridge"
	names["service.version"] = version
	var all []*common.KeyValue
	for name, value := range names {
		all = append(all, stringAttribute(strings.ToValidUTF8(name, "\uFFFD"), value))
	}
	return all
}

// export sends spans. It retries until ctx ends if the receiver is overloaded or does not answer in time.
func (r *receiver) export(ctx context.Context, spans []*otlp.Span) error {
	// On the wire TracesData is an ExportTraceServiceRequest, whose package needs gRPC.
	data, err := proto.Marshal(&otlp.TracesData{ResourceSpans: []*otlp.ResourceSpans{{
		Resource: r.resource, SchemaUrl: schemaURL,
		ScopeSpans: []*otlp.ScopeSpans{{
			Scope: &common.InstrumentationScope{Name: "billbridge/proxy"}, SchemaUrl: schemaURL, Spans: spans,
		}},
	}}})
	if err != nil {
		return err
	}
	var body bytes.Buffer // a new one: the last request may still read the previous one
	r.zip.Reset(&body)
	_, _ = r.zip.Write(data) // a Buffer returns no errors
	_ = r.zip.Close()
	for pause := firstPause; ; pause += pause / 2 {
		after, retry, err := r.post(ctx, body.Bytes())
		if !retry {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(max(after, pause/2+rand.N(pause))): // other gateways retry at other times
		}
	}
}

// post sends one request. It reports whether another one can succeed, and how long that must wait at least.
func (r *receiver) post(ctx context.Context, body []byte) (after time.Duration, retry bool, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return 0, false, err
	}
	q.Header = r.headers
	got, err := r.client.Do(q)
	if err != nil {
		var failed net.Error
		return 0, errors.As(err, &failed) && failed.Timeout(), err
	}
	defer func() { _ = got.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(got.Body, maxAnswer))
	switch {
	case err != nil:
		return 0, false, err
	case got.StatusCode/100 == 2 && got.Header.Get("Content-Type") == protobuf:
		return 0, false, refusal(answer)
	case got.StatusCode/100 == 2:
		return 0, false, nil
	}
	err = fmt.Errorf("the receiver answered %s: %s", got.Status, bytes.TrimSpace(answer))
	switch got.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return retryAfter(got.Header.Get("Retry-After")), true, err
	}
	return 0, false, err
}

// retryAfter returns the time to wait that a Retry-After asks for, or 0.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil {
		return time.Duration(min(seconds, 3600)) * time.Second // no export takes an hour
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return time.Until(at)
}

// refusal returns the partial success in an ExportTraceServiceResponse as an error. Its fields are the number of
// spans that were rejected, and the reason.
func refusal(answer []byte) error {
	partial, _ := protowire.ConsumeBytes(field(answer, 1))
	rejected, _ := protowire.ConsumeVarint(field(partial, 1))
	reason, _ := protowire.ConsumeString(field(partial, 2))
	if rejected == 0 && reason == "" {
		return nil
	}
	return fmt.Errorf("spans that the receiver rejected: %d: %s", rejected, reason)
}

// field returns the value of a field of a message, as it is on the wire.
func field(message []byte, number protowire.Number) (value []byte) {
	for len(message) > 0 {
		n, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			break
		}
		size := protowire.ConsumeFieldValue(n, kind, message[tag:])
		if size < 0 {
			break
		}
		if n == number {
			value = message[tag : tag+size]
		}
		message = message[tag+size:]
	}
	return value
}

// describe returns an error for the log, without the headers of the config, which a receiver may repeat.
func (r *receiver) describe(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return "the receiver did not answer in time"
	}
	text := r.hide.Replace(err.Error())
	return strings.ToValidUTF8(text[:min(len(text), maxError)], "")
}
