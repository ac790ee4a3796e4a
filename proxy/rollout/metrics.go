package rollout

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	routed, refused *prometheus.CounterVec
	doubled         prometheus.Counter
}

func newMetrics(to prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		routed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "billbridge_rollout_routed_total", Help: "Calls by the upstream that they went to and why.",
		}, []string{"upstream", "reason"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "billbridge_rollout_refused_total", Help: "Calls that were not sent, since it was not known where they belong.",
		}, []string{"reason"}),
		doubled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "billbridge_rollout_doubled_total", Help: "Times that a bill was found at both upstreams. An alarm.",
		}),
	}
	if to == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.routed, m.refused, m.doubled} {
		if err := to.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
