package proxy_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// At a start the section rollout, or its absence, must fit the backends and bills in the store. Package store has the
// other cases.
func TestConfigMustMatchTheStoredBackends(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ stage, section, refused string }{
		{"drained", "rollout: {old: a, new: b}", ""},
		{"old", "rollout: {old: b, new: c}", ""},
		{
			"drained", "rollout: {old: b, new: c}",
			`rollout.old is "b" and rollout.new is "c" in the config, but they were "a" and "b" before`,
		},
		{
			"drained", "rollout: {old: a, new: b, bills: shared}",
			"rollout.bills is shared in the config, but bills in the ledger are each at one upstream",
		},
		{"drained", "", `all calls would go to upstream "a", but bills in the ledger are at upstream "b"`},
	} {
		parallel(t, row.stage+" "+row.section, func(t *testing.T) {
			url := proxytest.SQLite(t)
			s := proxytest.Open(t, url)
			now := time.Now()
			_, err := s.Own(t.Context(), partner.Of(demoKey), "bill", "b", now, time.Time{})
			backends := store.Backends{Old: "a", New: "b", Staying: []string{"old", "shadow"}}
			err = errors.Join(
				err, s.SetBackends(t.Context(), backends, now),
				s.Change(t.Context(), store.Change{Action: store.Staged, To: row.stage, By: "anna", At: now}),
			)
			must(t, err)
			up := "{form: v2, url: \"" + refusedURL + "\"}"
			text := anyPort + "upstreams: {a: " + up + ", b: " + up + ", c: " + up + "}\nroute: {default: a}\n" +
				fmt.Sprintf("store: {url: %q}\n%s\n", url, row.section)
			if row.refused == "" {
				newProcess(t, text)
			} else {
				startFails(t, t.Context(), text, nil, row.refused)
			}
		})
	}
}
