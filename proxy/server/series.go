package server

import (
	"context"
	"log/slog"
	"strings"

	"billbridge/config"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
)

// Series counts the metrics series named billbridge_ of a gateway with this config: those that exist at the start, and
// the maximum that any traffic can lead to. It opens no listener and connects neither to the store nor to an upstream.
func Series(ctx context.Context, c *config.Config, build Build) (atStart, maximum int, err error) {
	s := &Server{log: slog.New(slog.DiscardHandler), config: c, build: build, registry: prometheus.NewRegistry()}
	if c.Store.URL.IsSet() {
		opened, err := store.Open(ctx, config.Memory)
		if err != nil {
			return 0, 0, err
		}
		s.setStore(opened)
		defer func() { _ = s.store.Close() }()
	}
	if err := s.openRelayAndRollout(c); err != nil {
		return 0, 0, err
	}
	s.registerMetrics(c)
	if err := s.newGateway(c); err != nil {
		return 0, 0, err
	}
	defer s.gateway.Close()
	families, err := s.registry.Gather()
	if err != nil {
		return 0, 0, err
	}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "billbridge_") { // the Go and process collectors depend on the machine
			continue
		}
		for _, m := range family.GetMetric() {
			atStart++
			if h := m.GetHistogram(); h != nil {
				atStart += len(h.GetBucket()) + 2 // with the bucket +Inf, the sum and the count
			}
		}
	}
	return atStart, atStart + s.gateway.MaxMoreSeries(), nil
}
