package proxy_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/server"
	"billbridge/proxy/store"
)

// At a start the section rollout, or its absence, must fit the backends, stages and bills in the store.
func TestConfigMustMatchTheStoredBackends(t *testing.T) {
	t.Parallel()
	const upstreams = "upstreams: {a: {form: v2, url: \"" + refusedURL + "\"}, b: {form: v2, url: \"" + refusedURL + "\"}, c: {form: v2, url: \"" + refusedURL + "\"}}\nroute: {default: a}\n"
	staying := []string{"old", "shadow"}
	for name, row := range map[string]struct {
		stage    string // of the default, before
		bill     string // at that upstream, before
		rollout  string
		refused  string // what the error says
		restored bool   // is declared
	}{
		"as before":              {"drained", "b", "rollout: {old: a, new: b}", "", false},
		"others":                 {"drained", "", "rollout: {old: b, new: c}", `rollout.old is "b" and rollout.new is "c" in the config, but they were "a" and "b" before`, false},
		"others, in old":         {"old", "b", "rollout: {old: b, new: c}", "", false},
		"others, in shadow":      {"shadow", "b", "rollout: {old: b, new: c}", "", false},
		"shared, with a bill":    {"drained", "b", "rollout: {old: a, new: b, bills: shared}", "rollout.bills is shared in the config, but bills in the ledger are each at one upstream", false},
		"none":                   {"drained", "a", "", "", true},
		"none, with one at b":    {"drained", "b", "", `all calls would go to upstream "a", but bills in the ledger are at upstream "b"`, false},
		"shared, without a bill": {"drained", "", "rollout: {old: a, new: b, bills: shared}", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := proxytest.SQLite(t)
			s := proxytest.Open(t, url)
			now := time.Now()
			err := errors.Join(
				s.SetBackends(t.Context(), store.Backends{Old: "a", New: "b", Staying: staying}, now),
				s.SetStage(t.Context(), store.Stage{Stage: row.stage, By: "anna", At: now}),
			)
			if row.bill != "" {
				_, owned := s.Own(t.Context(), partner.Of(demoKey), "bill", row.bill, now, time.Time{})
				err = errors.Join(err, owned)
			}
			if err != nil {
				t.Fatal(err)
			}
			text := anyPort + upstreams + "store: {url: \"" + url + "\"}\n" + row.rollout + "\n"
			if row.refused == "" {
				newProcess(t, text)
			} else if _, err := server.Listen(t.Context(), parse(t, text), nil, nil, server.Build{}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), row.refused) {
				t.Errorf("%v, want %s", err, row.refused)
			}
			decided, err := s.Rollout(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if row.restored {
				want = "config"
			}
			if decided.Restored.By != want {
				t.Errorf("restored: %+v", decided.Restored)
			}
		})
	}
}
