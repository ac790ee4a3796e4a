package proxy_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/server"
	"billbridge/proxy/store"
	"billbridge/proxy/store/storetest"
)

// TestSidesOfTheConfig: what the config says of the rollout, also that it says nothing, is held to what the store knows.
func TestSidesOfTheConfig(t *testing.T) {
	t.Parallel()
	const upstreams = "upstreams: {a: {form: v2, url: \"" + nowhere + "\"}, b: {form: v2, url: \"" + nowhere + "\"}, c: {form: v2, url: \"" + nowhere + "\"}}\nroute: {default: a}\n"
	staying := []string{"old", "shadow"}
	for name, row := range map[string]struct {
		stage    string // of the default, before
		bill     string // at that upstream, before
		rollout  string
		refused  error
		restored bool // is declared
	}{
		"as before":              {"drained", "b", "rollout: {old: a, new: b}", nil, false},
		"others":                 {"drained", "", "rollout: {old: b, new: c}", &store.RenamedError{Old: "b", New: "c", OldWas: "a", NewWas: "b", Staying: staying}, false},
		"others, in old":         {"old", "b", "rollout: {old: b, new: c}", nil, false},
		"others, in shadow":      {"shadow", "b", "rollout: {old: b, new: c}", nil, false},
		"shared, with a bill":    {"drained", "b", "rollout: {old: a, new: b, bills: shared}", store.ErrShared, false},
		"none":                   {"drained", "a", "", nil, true},
		"none, with one at b":    {"drained", "b", "", &store.StrangerError{Upstream: "b", Old: "a"}, false},
		"shared, without a bill": {"drained", "", "rollout: {old: a, new: b, bills: shared}", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := storetest.SQLite(t)
			s, err := store.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			now := time.Now()
			err = errors.Join(
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
			text := anywhere + upstreams + "store: {url: \"" + url + "\"}\n" + row.rollout + "\n"
			if row.refused == nil {
				newProcess(t, text)
			} else if _, err := server.Listen(t.Context(), parse(t, text), nil, nil, server.Build{}, slog.New(slog.DiscardHandler)); err == nil || err.Error() != row.refused.Error() {
				t.Errorf("%v, want %v", err, row.refused)
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
