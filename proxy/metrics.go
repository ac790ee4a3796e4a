package proxy

import (
	"cmp"
	"net/http"
	"strconv"
	"sync"

	"billbridge/proxy/upstream"
	"billbridge/translate"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the metrics of the gateway. The values of every label are bounded by the config and the table (R37).
type metrics struct {
	requests         *prometheus.CounterVec
	requestDuration  *prometheus.HistogramVec
	upstreamDuration *prometheus.HistogramVec
	dropped          *prometheus.CounterVec
	mismatches       *prometheus.CounterVec
	upstreams        *upstream.Metrics

	all []interface{ DeletePartialMatch(prometheus.Labels) int }
}

// none is the label value if an exchange has no operation, upstream or code.
const none = "none"

var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

func newMetrics(r prometheus.Registerer) *metrics {
	m, with := &metrics{}, promauto.With(r)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := with.NewCounterVec(prometheus.CounterOpts{Name: "billbridge_" + name, Help: help}, labels)
		m.all = append(m.all, v)
		return v
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		opts := prometheus.HistogramOpts{Name: "billbridge_" + name, Help: help, Buckets: seconds}
		v := with.NewHistogramVec(opts, labels)
		m.all = append(m.all, v)
		return v
	}
	m.requests = counter("requests_total", "Answered requests of partners, by code and HTTP status of the answer.",
		"operation", "client", "upstream", "code", "status")
	m.requestDuration = histogram("request_duration_seconds",
		"Time from the header of a request to the end of its answer.", "operation", "client", "upstream")
	m.upstreamDuration = histogram("upstream_duration_seconds",
		"Time from the connection to an upstream to the last byte of its reply.", "operation", "upstream")
	m.dropped = counter("fields_dropped_total", "Fields that were dropped because the target form does not have them.",
		"operation", "message", "client", "field")
	m.mismatches = counter("reply_mismatches_total",
		"Reply fields that were missing or did not have their documented type.", "operation", "upstream", "field")
	m.upstreams = upstream.NewMetrics(r)
	return m
}

// deleteUpstream deletes the series of an upstream that is no longer in the config.
func (m *metrics) deleteUpstream(name string) {
	for _, v := range m.all {
		v.DeletePartialMatch(prometheus.Labels{"upstream": name})
	}
	m.upstreams.Delete(name)
}

// targetMetrics are the metrics of one route target. The observers are looked up once.
type targetMetrics struct {
	metrics                     *metrics
	operation, client, upstream string
	duration                    prometheus.Observer
	upstreamDuration            prometheus.Observer

	mu       sync.RWMutex
	counters map[counterKey]prometheus.Counter // those that have occurred
}

// A counterKey names a counter of a target by those labels that are not the target's. Unused ones are empty.
type counterKey struct {
	of                           *prometheus.CounterVec
	message, field, code, status string
}

// counter returns a counter. It stores it, so that only the first call of a target finds it by its labels.
func (l *targetMetrics) counter(key counterKey) prometheus.Counter {
	l.mu.RLock()
	counter := l.counters[key]
	l.mu.RUnlock()
	if counter != nil {
		return counter
	}
	labels := []string{l.operation, l.upstream, key.field}
	switch key.of {
	case l.metrics.requests:
		labels = []string{l.operation, l.client, l.upstream, key.code, key.status}
	case l.metrics.dropped:
		labels = []string{l.operation, key.message, l.client, key.field}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counters[key] = key.of.WithLabelValues(labels...)
	return l.counters[key]
}

func (m *metrics) target(operation, client, upstream string) *targetMetrics {
	return &targetMetrics{
		metrics: m, operation: operation, client: client, upstream: upstream,
		duration:         m.requestDuration.WithLabelValues(operation, client, upstream),
		upstreamDuration: m.upstreamDuration.WithLabelValues(operation, upstream),
		counters:         map[counterKey]prometheus.Counter{},
	}
}

// initSeries creates the series that alerts use, with the value 0. Otherwise increase() would miss the first event.
// Of billbridge_requests_total it creates those of unknown outcomes only: all codes and statuses would be tens of
// thousands.
func (l *targetMetrics) initSeries(o *translate.Operation, translation *translate.Translation) {
	m := l.metrics
	if o.Effect == translate.Write {
		for _, status := range []string{"502", "504"} {
			m.requests.WithLabelValues(l.operation, l.client, l.upstream, none, status)
		}
	}
	if translation.SameForm() { // fields are neither dropped nor checked
		return
	}
	for _, f := range o.Fields() {
		message, isReply := f.Message, f.Message == string(translate.Reply)
		if isReply && string(f.To) != l.client || !isReply && string(f.From) != l.client {
			continue
		}
		m.dropped.WithLabelValues(l.operation, message, l.client, "unknown")
		if f.Drops {
			m.dropped.WithLabelValues(l.operation, message, l.client, f.Source)
		}
		if isReply && f.Class != translate.Lossy {
			m.mismatches.WithLabelValues(l.operation, l.upstream, cmp.Or(f.Source, f.Target))
		}
	}
}

// report counts the dropped and mismatched fields of a translation.
func (l *targetMetrics) report(message string, r *translate.Report) {
	for _, field := range r.Dropped {
		l.counter(counterKey{of: l.metrics.dropped, message: message, field: translate.PathInTable(field)}).Inc()
	}
	if r.Unknown > 0 {
		l.counter(counterKey{of: l.metrics.dropped, message: message, field: "unknown"}).Add(float64(r.Unknown))
	}
	for _, field := range r.Mismatched {
		l.counter(counterKey{of: l.metrics.mismatches, field: translate.PathInTable(field)}).Inc()
	}
}

// other is the label value, also in the log, for a code, status or field that is not in the bounded set.
const other = "other"

// statusLabel returns the status if net/http has a text for it. An upstream can invent others.
func statusLabel(status int) string {
	switch {
	case status == http.StatusOK:
		return "200"
	case http.StatusText(status) != "" || status == statusGone:
		return strconv.Itoa(status)
	}
	return other
}

// statusGone is the status in the log and the metrics if the caller disconnected before the answer. It is never sent.
const statusGone = 499
