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
	for _, row := range rows(`
drained | rollout: {old: a, new: b} |
old | rollout: {old: b, new: c} |
drained | rollout: {old: b, new: c} | rollout.old is "b" and rollout.new is "c" in the config, but they were "a" and "b" before
drained | rollout: {old: a, new: b, bills: shared} | rollout.bills is shared in the config, but bills in the ledger are each at one upstream
drained | | all calls would go to upstream "a", but bills in the ledger are at upstream "b"
`) {
		parallel(t, row[0]+" "+row[1], func(t *testing.T) {
			url := proxytest.SQLite(t)
			s, now := proxytest.Open(t, url), time.Now()
			_, err := s.Own(t.Context(), partner.Of(demoKey), "bill", "b", now, time.Time{})
			must(t, errors.Join(
				err, s.SetBackends(t.Context(), store.Backends{Old: "a", New: "b", Staying: []string{"old", "shadow"}}, now),
				s.SetStage(t.Context(), store.Stage{Stage: row[0], By: "anna", At: now}),
			))
			up := "{form: v2, url: \"" + refusedURL + "\"}"
			text := anyPort + "upstreams: {a: " + up + ", b: " + up + ", c: " + up + "}\nroute: {default: a}\n" +
				fmt.Sprintf("store: {url: %q}\n%s\n", url, row[1])
			if row[2] == "" {
				newProcess(t, text)
			} else {
				startFails(t, t.Context(), text, nil, row[2])
			}
		})
	}
}
