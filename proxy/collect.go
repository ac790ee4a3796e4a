package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var certificateEnd = prometheus.NewDesc("billbridge_certificate_not_after_seconds",
	"When a certificate ends, as Unix time. kind: server (of a listener), client (shown to an upstream), "+
		"or upstream (shown by one); name: the key in the config, or the upstream.",
	[]string{"kind", "name"}, nil)

var spares = prometheus.NewDesc("billbridge_upstream_spare_connections",
	"Connections to an upstream that were opened before they are needed, and have carried no call.",
	[]string{"upstream"}, nil)

// collect collects the connections that wait for their first call, and when certificates end.
func (s *state) collect(to chan<- prometheus.Metric) {
	for name, u := range s.upstreams {
		to <- prometheus.MustNewConstMetric(spares, prometheus.GaugeValue, float64(u.Spares()), name)
	}
	s.collectCertificates(to)
}

// collectCertificates collects when certificates end: those of the config, which are read again when their files
// change, and those that upstreams have shown since the last start or change of the config.
func (s *state) collectCertificates(to chan<- prometheus.Metric) {
	collect := func(end time.Time, kind, name string) {
		if !end.IsZero() {
			to <- prometheus.MustNewConstMetric(certificateEnd, prometheus.GaugeValue, float64(end.Unix()), kind, name)
		}
	}
	for _, pair := range s.config.KeyPairs() {
		collect(pair.NotAfter(), pair.Kind, pair.Name)
	}
	for name, u := range s.upstreams {
		collect(u.CertificateEnd(), "upstream", name)
	}
}
