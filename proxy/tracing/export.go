package tracing

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"billbridge/config"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"
)

const (
	// maxWaiting is how many spans wait for their export or are being exported. Further spans are lost: a call never
	// waits for the receiver.
	maxWaiting = 8192
	// exportEvery is how long a batch waits for more spans.
	exportEvery = time.Second
	// exportWithin bounds one export, with its retries.
	exportWithin = 30 * time.Second
	// requestWithin bounds one request to the receiver.
	requestWithin = 10 * time.Second
	// logEvery is the shortest time between two lines of the log about lost spans.
	logEvery = time.Minute
	// maxError is the most bytes of an error in the log: an error contains the answer of the receiver.
	maxError = 300
)

// A queue holds the spans that have ended until they are exported. It wraps the processor of the SDK, which does not
// report lost spans, and counts them.
type queue struct {
	sdktrace.SpanProcessor
	to      atomic.Pointer[receiver]
	waiting atomic.Int64
	lost    prometheus.Counter

	ended context.Context // ends all exports
	end   context.CancelFunc

	log      *slog.Logger
	lines    rate.Sometimes
	unlogged atomic.Int64 // lost spans since the last line
}

// A receiver is where spans go.
type receiver struct {
	exporter *otlptrace.Exporter
	hide     *strings.Replacer // of the values of headers
}

func (q *queue) init(log *slog.Logger) {
	q.ended, q.end = context.WithCancel(context.Background())
	q.log, q.lines = log, rate.Sometimes{First: 1, Interval: logEvery}
	q.lost = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "billbridge_tracing_spans_lost_total",
		Help: "Spans that could not be exported: the receiver did not take them, or too many waited.",
	})
}

// begin starts the export.
func (q *queue) begin() sdktrace.SpanProcessor {
	q.SpanProcessor = sdktrace.NewBatchSpanProcessor((*exporter)(q),
		sdktrace.WithMaxQueueSize(maxWaiting), sdktrace.WithBatchTimeout(exportEvery),
		sdktrace.WithExportTimeout(exportWithin),
		sdktrace.WithMaxExportBatchSize(sdktrace.DefaultMaxExportBatchSize))
	return q
}

// exportTo sets the receiver. An export to the previous receiver is completed.
func (q *queue) exportTo(c *config.Tracing) {
	headers, secrets := map[string]string{}, []string{}
	for name, value := range c.Headers {
		headers[name] = value.Reveal()
		// A receiver may repeat only the token of Bearer TOKEN.
		secrets = append(append(secrets, headers[name]), strings.Fields(headers[name])...)
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // one may be the beginning of another
	var pairs []string
	for _, secret := range secrets {
		pairs = append(pairs, secret, "(secret)")
	}
	r := &receiver{hide: strings.NewReplacer(pairs...)}
	dialer := &net.Dialer{Timeout: requestWithin}
	client := &http.Client{
		Timeout: requestWithin,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: requestWithin, IdleConnTimeout: 30 * time.Second,
			ForceAttemptHTTP2: true,
		},
		// Another receiver must not get the headers.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r.exporter = otlptrace.NewUnstarted(otlptracehttp.NewClient( // over HTTP there is nothing to start
		otlptracehttp.WithEndpointURL(c.OTLP.String()), otlptracehttp.WithHeaders(headers),
		otlptracehttp.WithHTTPClient(client), otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf)))
	q.to.Store(r)
}

// OnEnd implements sdktrace.SpanProcessor.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	if q.waiting.Add(1) > maxWaiting {
		q.waiting.Add(-1)
		q.lose(1, "the receiver is slower than the gateway")
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// An exporter exports the spans of a queue.
type exporter queue

// ExportSpans implements sdktrace.SpanExporter. It returns no error, because the SDK would print the error. If the
// receiver refuses some of the spans, all of them count as lost.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	q := (*queue)(e)
	defer q.waiting.Add(-int64(len(spans)))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(q.ended, cancel)()
	r := q.to.Load()
	if err := r.exporter.ExportSpans(ctx, spans); err != nil {
		q.lose(len(spans), r.describe(err))
	}
	return nil
}

// Shutdown implements sdktrace.SpanExporter. There is nothing to do.
func (e *exporter) Shutdown(context.Context) error { return nil }

// lose counts lost spans. It logs at most one line per minute.
func (q *queue) lose(n int, why string) {
	q.lost.Add(float64(n))
	q.unlogged.Add(int64(n))
	q.lines.Do(func() {
		q.log.Warn("spans could not be exported", "count", q.unlogged.Swap(0), "error", why)
	})
}

// describe returns an error for the log, without the headers of the config, which a receiver may repeat.
func (r *receiver) describe(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return "the receiver did not answer in time"
	}
	text := r.hide.Replace(err.Error())
	return strings.ToValidUTF8(text[:min(len(text), maxError)], "")
}
