package relay

import (
	"cmp"
	"context"
	"time"

	"billbridge/proxy/store"
	"billbridge/translate"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics have the upstream as a label, never the partner, so that their number is bounded by the config.
type metrics struct {
	accepted, repeated, delivered, superseded *prometheus.CounterVec
	attempts, refused, passed, fields         *prometheus.CounterVec
	unclaimed                                 prometheus.Counter

	relay *Relay
}

func gauge(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("billbridge_callbacks_"+name, help, []string{"upstream"}, nil)
}

var (
	queueDepth = gauge("waiting", "Callbacks that are stored and not delivered yet, of an upstream up to 10,000.")
	deadDepth  = gauge("dead",
		"Failed callbacks: their attempts are over, and they wait for an operator's decision; up to 10,000.")
	oldest  = gauge("oldest_waiting_seconds", "Age of the oldest callback that is not delivered yet.")
	missing = gauge("missing",
		"Bills whose state has moved without a callback, and for which none was made, up to 10,000.")
	overdue = prometheus.NewDesc("billbridge_callbacks_overdue_seconds",
		"For how long an attempt at a callback has been due and was not begun.", nil, nil)
)

func newMetrics(to prometheus.Registerer, r *Relay) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return promauto.With(to).NewCounterVec(
			prometheus.CounterOpts{Name: "billbridge_callbacks_" + name + "_total", Help: help},
			append([]string{"upstream"}, labels...))
	}
	m := &metrics{
		relay:    r,
		accepted: counter("accepted", "Callbacks of upstreams that were stored and acknowledged."),
		repeated: counter("repeated",
			"Callbacks that an upstream sent again, acknowledged without a second delivery."),
		delivered: counter("delivered", "Callbacks that were delivered."),
		superseded: counter("superseded",
			"Callbacks that partners answered without a success, and that ended for a newer one of their bill."),
		attempts: counter("attempts", "Attempts to deliver callbacks, by outcome.", "outcome"),
		refused: counter("refused",
			"Callbacks, and addresses of partners, that were refused. another_partner and another_bill can "+
				"be an attack.", "reason"),
		passed: counter("passed", "Callbacks that passed byte for byte: in the partner's form already, or not "+
			"recognised by the table.", "as"),
		fields: counter("fields",
			"Fields of translated callbacks: dropped ones, and mismatched ones, which have another type than "+
				"documented or are missing. unknown: all fields that are not in the table. ignored: a header "+
				"Content-Encoding of a callback or a partner's answer that names no coding.", "what", "field"),
	}
	m.unclaimed = promauto.With(to).NewCounter(prometheus.CounterOpts{
		Name: "billbridge_callbacks_claims_failed_total",
		Help: "Claims of callbacks that are due, and queries for the next one, that failed: the store is slow or down.",
	})
	if to != nil {
		to.MustRegister(m)
	}
	return m
}

// refusals are the reasons for refusing a callback or a partner's callback address.
var refusals = []string{
	"path", "method", "unknown_address", "lost_address", "too_large", "no_memory", "broken", "coding", "type",
	"ambiguous", "no_key", anotherPartner, "another_bill", "store", "address",
}

// know creates the counters of an upstream with 0, so that increase() includes the first event. The fields are those
// of the table.
func (m *metrics) know(upstream string, t *translate.Table) {
	for _, c := range []*prometheus.CounterVec{m.accepted, m.repeated, m.superseded, m.delivered} {
		c.WithLabelValues(upstream)
	}
	for _, outcome := range outcomes {
		m.attempts.WithLabelValues(upstream, outcome)
	}
	for _, reason := range refusals {
		m.refused.WithLabelValues(upstream, reason)
		m.refused.WithLabelValues("none", reason) // before it is known which upstream calls
	}
	for _, as := range []translate.Recognition{translate.InForm, translate.Unrecognised} {
		m.passed.WithLabelValues(upstream, string(as))
	}
	m.fields.WithLabelValues(upstream, "ignored", contentEncoding)
	c := t.Callback
	if c == nil {
		return
	}
	m.fields.WithLabelValues(upstream, "dropped", "unknown")
	for _, f := range c.Fields() {
		what := "mismatched"
		if f.Class == translate.Lossy {
			what = "dropped"
		}
		m.fields.WithLabelValues(upstream, what, cmp.Or(f.Source, f.Target))
	}
}

const contentEncoding = "Content-Encoding"

// ignored counts a header Content-Encoding that names no content coding.
func (m *metrics) ignored(upstream string) {
	m.fields.WithLabelValues(upstream, "ignored", contentEncoding).Inc()
}

// passage counts what a translation dropped or could not convert, or that there was no translation.
func (m *metrics) passage(upstream string, n translate.Notice) {
	if n.Recognised != translate.Translated {
		m.passed.WithLabelValues(upstream, string(n.Recognised)).Inc()
	}
	for what, fields := range map[string][]string{"dropped": n.Report.Dropped, "mismatched": n.Report.Mismatched} {
		for _, field := range fields {
			m.fields.WithLabelValues(upstream, what, translate.PathInTable(field)).Inc()
		}
	}
	m.fields.WithLabelValues(upstream, "dropped", "unknown").Add(float64(n.Report.Unknown))
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	to <- queueDepth
	to <- deadDepth
	to <- oldest
	to <- missing
	to <- overdue
}

// Collect reads the store. While the store is unreachable these series are absent, which an alert can detect.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	now := m.relay.now()
	if due, _, err := m.relay.store.NextDue(ctx, time.UnixMilli(0)); err == nil {
		waited := 0.0
		if !due.IsZero() {
			waited = max(0, now.Sub(due).Seconds())
		}
		to <- prometheus.MustNewConstMetric(overdue, prometheus.GaugeValue, waited)
	}
	stats, err := m.relay.store.Stats(ctx, now)
	if err != nil {
		return
	}
	c := m.relay.current.Load().config
	for _, u := range c.Upstreams {
		if _, ok := stats[u.Name]; !ok {
			stats[u.Name] = store.Backlog{}
		}
	}
	for upstream, of := range stats {
		for desc, value := range map[*prometheus.Desc]float64{
			queueDepth: float64(of.Waiting), deadDepth: float64(of.Dead), oldest: of.Oldest.Seconds(),
			missing: float64(of.Missing),
		} {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, upstream)
		}
	}
}
