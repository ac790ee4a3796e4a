package store_test

import (
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// Each gateway sees what all have said of themselves last, and when each wrote. One that ends is not there any more.
func TestGateways(t *testing.T) {
	t.Parallel()
	all := replicasOn(t, proxytest.Postgres(t), 2)
	one, two := all[0], all[1]
	for s, infos := range map[*store.Store][]string{one: {"one", "one, reloaded"}, two: {"two"}} {
		for _, info := range infos {
			must(t, s.Announce(t.Context(), info))
		}
	}
	seen := func(s *store.Store) map[string]bool {
		t.Helper()
		gateways, err := s.Gateways(t.Context())
		must(t, err)
		own := map[string]bool{}
		for _, g := range gateways {
			if ago := time.Since(g.At); ago < -time.Minute || ago > time.Minute {
				t.Errorf("%s wrote %s ago", g.Info, ago)
			}
			own[g.Info] = g.Own
		}
		return own
	}
	equal(t, seen(one), map[string]bool{"one, reloaded": true, "two": false})
	equal(t, seen(two), map[string]bool{"one, reloaded": false, "two": true})
	must(t, one.Close())
	equal(t, seen(two), map[string]bool{"two": true})
}

// An SQLite store that was killed and opened again has the gateway of before, with the time of its last write.
func TestGatewayOfBeforeAtSQLite(t *testing.T) {
	t.Parallel()
	url := proxytest.SQLite(t)
	killed := open(t, url)
	must(t, killed.Announce(t.Context(), "before"))
	run(t, raw(t, url), "UPDATE billbridge_gateways SET gateway = 'killed', at = at - 60000",
		"UPDATE billbridge_announced SET gateway = 'killed'")
	must(t, killed.Close())
	s := open(t, url)
	must(t, s.Announce(t.Context(), "now"))
	gateways, err := s.Gateways(t.Context())
	must(t, err)
	if len(gateways) != 2 || gateways[0].Info != "now" || !gateways[0].Own || gateways[1].Info != "before" || gateways[1].Own {
		t.Errorf("%+v", gateways)
	}
}
