package proxy

import (
	"crypto/tls"

	"github.com/prometheus/client_golang/prometheus"
)

// certificates collects when certificates end: those of the config, which are read again when their files change, and
// those that upstreams have shown since the last start or change of the config.
type certificates struct{ gateway *Gateway }

var certificateEnd = prometheus.NewDesc("billbridge_certificate_not_after_seconds",
	"When a certificate ends, as Unix time. kind: server (of a listener), client (shown to an upstream), "+
		"or upstream (shown by one); name: the key in the config, or the upstream.",
	[]string{"kind", "name"}, nil)

// Describe implements [prometheus.Collector].
func (c certificates) Describe(to chan<- *prometheus.Desc) { to <- certificateEnd }

// Collect implements [prometheus.Collector].
func (c certificates) Collect(to chan<- prometheus.Metric) {
	state := c.gateway.current.Load()
	send := func(end int64, kind, name string) {
		if end != 0 {
			to <- prometheus.MustNewConstMetric(certificateEnd, prometheus.GaugeValue, float64(end), kind, name)
		}
	}
	for _, pair := range state.config.KeyPairs() {
		if end := pair.NotAfter(); !end.IsZero() {
			send(end.Unix(), pair.Kind, pair.Name)
		}
	}
	for name, u := range state.upstreams {
		send(u.certificateEnd.Load(), "upstream", name)
	}
}

// watchCertificate remembers when the certificate of an upstream ends.
func (u *upstream) watchCertificate(c *tls.Config) {
	c.VerifyConnection = func(state tls.ConnectionState) error {
		u.certificateEnd.Store(state.PeerCertificates[0].NotAfter.Unix())
		return nil
	}
}
