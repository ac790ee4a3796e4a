package store_test

import (
	"database/sql"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// A callback is replayed while another replica is claiming a later one of its order. The replay waits until that claim is
// committed; otherwise a third replica could deliver both at the same time.
func TestReplayWaitsForConcurrentClaims(t *testing.T) {
	t.Parallel()
	url := proxytest.Postgres(t)
	replicas := replicasOn(t, url, 3)
	const operator = "operator-of-TestReplayWaitsForConcurrentClaims"
	replaying := open(t, url+"&application_name="+operator)
	become(t, replicas[0], callback("a1", "a"), "delivered")
	accept(t, replicas[0], callback("a2", "a"))

	db := raw(t, url)
	const held = "20261120"
	run(t, db,
		"CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock("+held+"); RETURN NEW; END'",
		"CREATE TRIGGER hold BEFORE UPDATE ON billbridge_callbacks FOR EACH ROW WHEN (NEW.id = 'a2') EXECUTE FUNCTION hold()",
		"SELECT pg_advisory_lock("+held+")")
	claimed := make(chan []string, 1)
	go func() {
		got, err := replicas[1].Claim(t.Context(), noon, time.Minute, 10, 10, 10, nil)
		if err != nil {
			t.Error(err)
		}
		claimed <- ids(got)
	}()
	watch := raw(t, url)
	count := func(query string) (n int) {
		t.Helper()
		must(t, watch.QueryRow(query).Scan(&n))
		return n
	}
	proxytest.Eventually(t, func() bool {
		return count("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = "+held) == 1
	}, nil)
	replayed := make(chan error, 1)
	go func() {
		replayed <- replaying.DecideOne(t.Context(), store.Replay, "a1", store.Author{Name: "tester"}, noon)
	}()
	proxytest.Eventually(t, func() bool {
		return len(replayed) == 1 ||
			count("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = '"+operator+"'") == 1
	}, nil)
	var third []string
	if len(replayed) == 1 {
		third = ids(claim(t, replicas[2], noon))
	}
	run(t, db, "SELECT pg_advisory_unlock("+held+")")
	equal(t, <-claimed, []string{"a2"}, "the second replica")
	must(t, <-replayed)
	third = append(third, ids(claim(t, replicas[2], noon))...)
	equal(t, third, nil, "beside the third")
}

// A change of counts waits while another replica adds to them, without a deadlock.
func TestCountsWhileOthersAdd(t *testing.T) {
	t.Parallel()
	a, b := counted("one", "read.a", "1"), counted("one", "read.b", "1")
	for what, test := range map[string]struct {
		do   func(*testing.T, *store.Store) error
		want []string
	}{
		"add": {func(t *testing.T, s *store.Store) error {
			_, err := s.AddCounts(t.Context(), "1", []store.Counts{b, a}, noon, sum)
			return err
		}, []string{"3", "3"}},
		"reset": {func(t *testing.T, s *store.Store) error {
			return s.Change(t.Context(), store.Change{Action: store.Reset, Partner: "", By: "anna", At: noon})
		}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			url := proxytest.Postgres(t)
			doer := what + "-of-TestCountsWhileOthersAdd"
			first, other, watch := open(t, url), open(t, url+"&application_name="+doer), raw(t, url)
			// A scan of the table reads b first, an addition locks it last.
			add(t, first, noon, b)
			add(t, first, noon, a)

			merging, goOn := make(chan struct{}, 2), make(chan struct{})
			added, done := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := first.AddCounts(t.Context(), "1", []store.Counts{a, b}, noon, func(have, more []byte) ([]byte, error) {
					merging <- struct{}{}
					<-goOn
					return sum(have, more)
				})
				added <- err
			}()
			<-merging
			go func() { done <- test.do(t, other) }()
			proxytest.Eventually(t, func() bool { return waits(t, watch, doer) || len(done) == 1 }, nil)
			close(goOn)
			for who, err := range map[string]error{"who adds": <-added, "the other": <-done} {
				if err != nil {
					t.Errorf("%s: %v", who, err)
				}
			}
			var data []string
			for _, c := range countsOf(t, first, "1") {
				data = append(data, string(c.Data))
			}
			equal(t, data, test.want, "the counts")
		})
	}
}

// waits reports whether a connection to PostgreSQL with that application_name waits for a lock.
func waits(t testing.TB, watch *sql.DB, application string) bool {
	t.Helper()
	var n int
	must(t, watch.QueryRow(`
		SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = $1`, application).Scan(&n))
	return n > 0
}
