package routing

import (
	"context"
	"errors"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/evidence"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	routed, refused    *prometheus.CounterVec
	doubled            prometheus.Counter
	begun              prometheus.Gauge
	stopped            prometheus.Gauge
	unknown            *prometheus.GaugeVec
	unrecorded         prometheus.Counter
	ledger             *prometheus.HistogramVec
	partners, verdicts *prometheus.GaugeVec
}

func newMetrics(to prometheus.Registerer) *metrics {
	with := promauto.With(to)
	options := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Name: "billbridge_rollout_" + name, Help: help}
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return with.NewCounterVec(prometheus.CounterOpts(options(name, help)), labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return with.NewGaugeVec(prometheus.GaugeOpts(options(name, help)), labels)
	}
	m := &metrics{
		routed: counter("routed_total",
			"Calls by the upstream to which they were sent, and the reason.", "upstream", "reason"),
		refused: counter("refused_total",
			"Calls that were refused because it was not certain which backend has their bill.", "reason"),
		doubled: counter("doubled_total",
			"How often a bill was found at both backends. "+
				"An operator must decide on each of these bills.").WithLabelValues(),
		begun: gauge("begun",
			"0 while the store is new and rollout begin was not run: both backends are probed for every bill "+
				"that the ledger does not know. Otherwise 1.").WithLabelValues(),
		stopped: gauge("stopped", "1 while the kill switch is on, otherwise 0.").WithLabelValues(),
		unknown: gauge("unknown_outcomes",
			"Bills with a write whose outcome is unknown (state unknown), and those of them that the reads of the "+
				"first hour have not resolved (state unclear).", "state"),
		unrecorded: counter("unknown_unrecorded_total",
			"Writes with an unknown outcome that the ledger could not record: they are in no list.").WithLabelValues(),
		ledger: with.NewHistogramVec(prometheus.HistogramOpts{
			Name: "billbridge_rollout_ledger_seconds", Help: "Duration of operations of the ledger.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"operation"}),
		partners: gauge("partners", "Partners that were seen or have a stage of their own, by their stage.", "stage"),
		verdicts: gauge("verdicts", "Verdicts on partners and operations, as the report has them.", "verdict"),
	}
	set(m.partners, Stages, nil)
	set(m.verdicts, evidence.Rulings, nil)
	for _, reason := range refusalReasons {
		m.refused.WithLabelValues(reason)
	}
	for _, operation := range []string{"owner", "own", "found", "complete", "deny"} {
		m.ledger.WithLabelValues(operation)
	}
	return m
}

// set sets the gauges with these labels.
func set[K ~string](g *prometheus.GaugeVec, labels []K, numbers map[K]float64) {
	for _, label := range labels {
		g.WithLabelValues(string(label)).Set(numbers[label])
	}
}

// know creates the counters of both backends with 0, so that increase() includes the first event.
func (m *metrics) know(c *config.Rollout) {
	for _, backend := range c.Backends() {
		for _, reason := range []Reason{byOwner, byStage, byCanary, byProbe, byStop} {
			m.routed.WithLabelValues(backend, string(reason))
		}
	}
}

// timed measures the time until the returned function is called.
func (m *metrics) timed(operation string) func() {
	began := time.Now()
	return func() { m.ledger.WithLabelValues(operation).Observe(time.Since(began).Seconds()) }
}

// SetGauges sets the gauges. Each replica has those of all partners. An error of some leaves no others out.
func (r *Router) SetGauges(ctx context.Context) error {
	if r.store == nil {
		r.setStages(store.Rollout{}, nil)
		return r.setVerdicts(ctx)
	}
	decided, err := r.store.Rollout(ctx)
	seen, unread := r.store.SeenPartners(ctx, store.AllPartners)
	if err = errors.Join(err, unread); err == nil {
		r.setStages(decided, seen)
	}
	return errors.Join(err, r.setUnknown(ctx), r.setVerdicts(ctx))
}

// gaugesWithin bounds the reads of counts for the gauges.
const gaugesWithin = 10 * time.Second

// setVerdicts sets the gauge of the verdicts. The log has once that counts of partners cannot be read.
func (r *Router) setVerdicts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, gaugesWithin)
	defer cancel()
	counted, err := r.counts.Of(ctx)
	if err != nil {
		return err
	}
	var texts []string
	for _, n := range counted {
		if n.Unread != nil {
			texts = append(texts, n.Unread.Error())
		}
	}
	const most = 10 // of a line
	unread := strings.Join(texts[:min(len(texts), most)], "; ")
	if was := r.unread.Swap(&unread); unread != "" && (was == nil || *was != unread) {
		r.log.Error("counts of partners cannot be read: they get no later stage before a reset",
			"number", len(texts), "first", unread)
	}
	ruled, failing := map[evidence.Ruling]float64{}, partnerSet{}
	for _, v := range evidence.Verdicts(counted, r.counts.Limits()) {
		ruled[v.Ruling]++
		if v.Ruling == evidence.Fail {
			failing[v.Partner] = true
		}
	}
	r.failing.Store(&failing)
	set(r.metrics.verdicts, evidence.Rulings, ruled)
	return nil
}

// setUnknown sets the gauges of writes with an unknown outcome.
func (r *Router) setUnknown(ctx context.Context) error {
	now := r.now()
	for list, name := range map[store.BillList]string{store.UnknownBills: "unknown", store.UnclearBills: "unclear"} {
		filter := store.BillFilter{List: list, UnclearBefore: UnclearBefore(now), Now: now, Limit: 1}
		_, n, err := r.store.Bills(ctx, filter)
		if err != nil {
			return err
		}
		if r.metrics.unknown.WithLabelValues(name).Set(float64(n)); list == store.UnclearBills {
			r.unclear.Store(int64(n))
		}
	}
	return nil
}

// setStages sets the gauges of the kill switch and of the stages of partners.
func (r *Router) setStages(decided store.Rollout, seen []store.SeenPartner) {
	partners := map[partner.ID]bool{}
	for _, one := range seen {
		partners[one.Partner] = true
	}
	for _, stage := range decided.Stages {
		partners[stage.Partner] = true
	}
	delete(partners, "") // the default
	r.metrics.stopped.Set(map[bool]float64{false: 1}[decided.Stopped.At.IsZero()])
	staged, at := map[Stage]float64{}, r.current.Load().Positions(decided)
	for id := range partners {
		staged[at(id).Stage]++
	}
	set(r.metrics.partners, Stages, staged)
}
