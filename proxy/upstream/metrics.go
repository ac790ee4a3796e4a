package upstream

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the metrics of all upstreams.
type Metrics struct {
	inFlight, waiting, breakerState *prometheus.GaugeVec
	errors, extra, breakerChanges   *prometheus.CounterVec
	unknownCodings                  *prometheus.CounterVec
}

// NewMetrics registers the metrics. It panics if r has them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	with := promauto.With(r)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		opts := prometheus.CounterOpts{Name: "billbridge_" + name, Help: help}
		return with.NewCounterVec(opts, append([]string{"upstream"}, labels...))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return with.NewGaugeVec(prometheus.GaugeOpts{Name: "billbridge_" + name, Help: help}, []string{"upstream"})
	}
	return &Metrics{
		inFlight: gauge("requests_in_flight", "Calls to an upstream that have no reply yet."),
		waiting:  gauge("upstream_waiting", "Calls that are waiting for a connection to an upstream."),
		breakerState: gauge("upstream_breaker_state",
			"State of the breaker of an upstream: 0 closed, 1 half-open, 2 open."),
		errors: counter("upstream_errors_total", "Calls without a valid reply from an upstream.", "reason"),
		extra: counter("upstream_extra_replies_total",
			"Connections to an upstream on which something arrived that belongs to no call."),
		unknownCodings: counter("upstream_unknown_codings_total",
			"Replies that were read though their Content-Encoding is none that is known, such as utf-8."),
		breakerChanges: counter("upstream_breaker_changes_total",
			"Changes of the breaker of an upstream, by the new state.", "state"),
	}
}

// Delete deletes the series of an upstream that is no longer in the config.
func (m *Metrics) Delete(upstream string) {
	for _, v := range []interface{ DeletePartialMatch(prometheus.Labels) int }{
		m.inFlight, m.waiting, m.breakerState, m.errors, m.extra, m.breakerChanges, m.unknownCodings,
	} {
		v.DeletePartialMatch(prometheus.Labels{"upstream": upstream})
	}
}
