package server

import (
	"context"
	"log/slog"
	"strings"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
)

// Series says how many series named billbridge_ a gateway with a config exposes when it starts, and how many at most, whatever is
// sent to it. It starts nothing, and asks neither the store of the config nor an upstream.
func Series(ctx context.Context, c *config.Config, build Build) (start, most int, err error) {
	s := &Server{log: slog.New(slog.DiscardHandler), config: c}
	if c.Store.URL.IsSet() {
		opened, err := store.Open(ctx, config.Memory)
		if err != nil {
			return 0, 0, err
		}
		s.use(opened)
		defer func() { _ = s.store.Close() }()
	}
	registry := prometheus.NewRegistry()
	if err := s.openRelayAndRollout(c, registry, build); err != nil {
		return 0, 0, err
	}
	if s.gateway, err = proxy.New(c, proxy.Options{Registerer: registry, Relay: s.relay, Rollout: s.rollout}); err != nil {
		return 0, 0, err
	}
	defer s.gateway.Close()
	if err := s.describe(registry, build); err != nil {
		return 0, 0, err
	}
	if _, err := newConnections(registry); err != nil {
		return 0, 0, err
	}
	families, err := registry.Gather()
	if err != nil {
		return 0, 0, err
	}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "billbridge_") { // those of Go and the process are the machine's
			continue
		}
		for _, m := range family.GetMetric() {
			switch h, q := m.GetHistogram(), m.GetSummary(); {
			case h != nil:
				start += len(h.GetBucket()) + 3 // and the bucket without an end, the sum and the count
			case q != nil:
				start += len(q.GetQuantile()) + 2
			default:
				start++
			}
		}
	}
	return start, start + s.gateway.MoreSeries(), nil
}
