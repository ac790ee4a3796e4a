package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"billbridge/config"
	"billbridge/proxy/store"
	"billbridge/translate"

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
	if s.gateway, err = New(c, Options{Registerer: registry, Relay: s.relay, Rollout: s.rollout}); err != nil {
		return 0, 0, err
	}
	defer s.gateway.Close()
	if err := s.describe(registry, build); err != nil {
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
	return start, start + s.gateway.current.Load().more(), nil
}

// more is how many series may come beside those of the start: answers of each route by code and status, and the time of those
// that name no upstream. All else begins at the start.
func (s *state) more() int {
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
		for _, l := range r.lanes {
			named[l.upstream] = true
		}
		if r.lane != nil {
			named[r.lane.upstream] = true
		}
		n += len(named) * (answers - begun)
		if r.lanes != nil || r.lane == nil { // a call that the rollout did not send names none
			n += unnamed
		}
	}
	return n
}
