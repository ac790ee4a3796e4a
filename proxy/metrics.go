package proxy

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"billbridge/translate"
	"billbridge/translate/billing"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what the gateway counts. Every label is from a set that config and table fix.
type metrics struct {
	requests         *prometheus.CounterVec
	requestDuration  *prometheus.HistogramVec
	upstreamDuration *prometheus.HistogramVec
	dropped          *prometheus.CounterVec
	mismatches       *prometheus.CounterVec
	inFlight         *prometheus.GaugeVec
	waiting          *prometheus.GaugeVec
	waited           *prometheus.HistogramVec
	upstreamErrors   *prometheus.CounterVec
	explained        *prometheus.CounterVec
	held             prometheus.Gauge
	noMemory         prometheus.Counter
}

// none is the label of what an exchange did not come to have.
const none = "none"

var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "billbridge_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "billbridge_" + name, Help: help, Buckets: seconds}, labels)
	}
	m := &metrics{
		requests: counter("requests_total", "Requests of partners that were answered, by what they got.",
			"operation", "client", "upstream", "code", "status"),
		requestDuration: histogram("request_duration_seconds", "Time from the header of a request to the end of its answer.",
			"operation", "client", "upstream"),
		upstreamDuration: histogram("upstream_duration_seconds", "Time that an upstream took, to the last byte of its reply.",
			"operation", "upstream"),
		dropped: counter("fields_dropped_total", "Fields that the other form has no place for and that were left out.",
			"operation", "message", "client", "field"),
		mismatches: counter("reply_mismatches_total", "Reply values that did not fit their documented type, and documented fields that were missing.",
			"operation", "upstream", "field"),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "billbridge_requests_in_flight",
			Help: "Calls that an upstream has not answered yet.",
		}, []string{"upstream"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "billbridge_upstream_waiting",
			Help: "Calls that wait for a connection to an upstream.",
		}, []string{"upstream"}),
		waited: histogram("upstream_wait_seconds", "Time that a call waited for a connection to an upstream, the time to open one included.",
			"upstream"),
		upstreamErrors: counter("upstream_errors_total", "Calls that an upstream did not answer in the interface's form.",
			"upstream", "reason"),
		explained: counter("unknown_outcomes_total", "Writes of bills without an answer, by what a read showed of the bill then, or that there was none.",
			"operation", "shown"),
	}
	m.held = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "billbridge_body_bytes", Help: "Memory that the bodies of requests take of limits.memory.",
	})
	m.noMemory = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "billbridge_body_memory_refused_total", Help: "Requests that were refused since limits.memory was used up.",
	})
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.requestDuration, m.upstreamDuration, m.dropped, m.mismatches, m.inFlight, m.waiting, m.waited, m.upstreamErrors, m.explained, m.held, m.noMemory} {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

// forget drops the series of an upstream that the config does not have any more.
func (m *metrics) forget(upstream string) {
	label := prometheus.Labels{"upstream": upstream}
	m.requests.DeletePartialMatch(label)
	m.requestDuration.DeletePartialMatch(label)
	m.upstreamDuration.DeletePartialMatch(label)
	m.mismatches.DeletePartialMatch(label)
	m.inFlight.DeletePartialMatch(label)
	m.waiting.DeletePartialMatch(label)
	m.waited.DeletePartialMatch(label)
	m.upstreamErrors.DeletePartialMatch(label)
}

// targetMetrics are the metrics of one target, looked up once.
type targetMetrics struct {
	metrics                     *metrics
	operation, client, upstream string
	duration                    prometheus.Observer
	upstreamDuration            prometheus.Observer
}

func (m *metrics) target(operation, client, upstream string) *targetMetrics {
	return &targetMetrics{
		metrics: m, operation: operation, client: client, upstream: upstream,
		duration:         m.requestDuration.WithLabelValues(operation, client, upstream),
		upstreamDuration: m.upstreamDuration.WithLabelValues(operation, upstream),
	}
}

// What an alert looks at begins at zero, so that the first event is an increase: Prometheus takes a series that appears with 1
// for one that always was 1. Of billbridge_requests_total that is what a write without an answer gets. All codes with all
// statuses would be tens of thousands of series.
func (l *targetMetrics) start(o *translate.Operation, translation *translate.Translation) {
	m := l.metrics
	if o.Effect == translate.Write {
		for _, status := range []string{"502", "504"} {
			m.requests.WithLabelValues(l.operation, l.client, l.upstream, none, status)
		}
		if billing.OfBill(o) {
			for _, shown := range append(slices.Collect(maps.Values(shownWords)), notAsked) {
				m.explained.WithLabelValues(l.operation, shown)
			}
		}
	}
	for _, reason := range reasons {
		m.upstreamErrors.WithLabelValues(l.upstream, reason)
	}
	if translation.SameForm() { // nothing is looked at
		return
	}
	request, reply := translation.Counted()
	for message, counted := range map[string]translate.Counted{"request": request, "reply": reply} {
		for _, field := range append(counted.Dropped, "unknown") {
			m.dropped.WithLabelValues(l.operation, message, l.client, field)
		}
	}
	for _, field := range reply.Mismatched {
		m.mismatches.WithLabelValues(l.operation, l.upstream, field)
	}
}

// report counts what a translation left out or could not fit.
func (l *targetMetrics) report(message string, r *translate.Report) {
	for _, field := range r.Dropped {
		l.metrics.dropped.WithLabelValues(l.operation, message, l.client, field).Inc()
	}
	if r.Unknown > 0 {
		l.metrics.dropped.WithLabelValues(l.operation, message, l.client, "unknown").Add(float64(r.Unknown))
	}
	for _, field := range r.Mismatched {
		l.metrics.mismatches.WithLabelValues(l.operation, l.upstream, field).Inc()
	}
}

// count adds one finished exchange.
func (m *metrics) count(x *exchange) {
	operation, upstream := none, none
	if x.route != nil {
		operation = x.route.operation.Name
	}
	took := time.Since(x.start).Seconds()
	if x.target != nil {
		target := x.target.metrics
		upstream = target.upstream
		target.duration.Observe(took)
		if x.sent.asked {
			target.upstreamDuration.Observe(x.sent.took.Seconds())
		}
	} else {
		m.requestDuration.WithLabelValues(operation, string(x.client), upstream).Observe(took)
	}
	m.requests.WithLabelValues(operation, string(x.client), upstream, x.codeLabel(), statusLabel(x.out.status)).Inc()
}

// other is the label, and the log's word, for what the table does not name.
const other = "other"

// codeLabel is the code if the catalogue has it.
func (x *exchange) codeLabel() string {
	switch {
	case x.out.code == "":
		return none
	case slices.Contains(x.state.config.Table.Catalogue(), x.out.code):
		return x.out.code
	}
	return other
}

// statusLabel is the status if HTTP has it.
func statusLabel(status int) string {
	switch {
	case status == http.StatusOK:
		return "200"
	case http.StatusText(status) != "" || status == statusGone:
		return strconv.Itoa(status)
	}
	return other
}

// MoreSeries is how many series may come beside those of the start, whatever is sent: answers of each route by code and status, and
// the time of those that name no upstream. All else begins at the start.
func (g *Gateway) MoreSeries() int {
	s := g.current.Load()
	statuses := 2 // of a caller that has gone, and of what HTTP does not know
	for status := http.StatusOK; status < 600; status++ {
		if http.StatusText(status) != "" {
			statuses++
		}
	}
	answers := (len(s.config.Table.Catalogue()) + 2) * statuses // other and none
	unnamed := answers + len(seconds) + 3
	n := len(s.config.Table.Forms()) * unnamed // no such path
	for _, r := range s.routes {
		begun := 0 // at the start
		if r.operation.Effect == translate.Write {
			begun = 2
		}
		named := map[*upstream]bool{}
		for _, l := range r.targets {
			named[l.upstream] = true
		}
		if r.target != nil {
			named[r.target.upstream] = true
		}
		n += len(named) * (answers - begun)
		if r.targets != nil || r.target == nil { // a call that the rollout did not send names none
			n += unnamed
		}
	}
	return n
}
