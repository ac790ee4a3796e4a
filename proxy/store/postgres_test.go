package store_test

import (
	"testing"
	"time"

	"billbridge/proxy/store/storetest"
)

// TestReplayWaitsForClaims: a callback is replayed while another replica is about to claim a later one of its order.
// Not before that claim can be seen is there anything to replay, or a third replica would run the two beside each other.
func TestReplayWaitsForClaims(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	replicas := replicasOn(t, url, 3)
	const operator = "operator-of-TestReplayWaitsForClaims"
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
		if err := watch.QueryRow(query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	waitFor(t, func() bool {
		return count("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = "+held) == 1
	})
	replayed := make(chan error, 1)
	go func() { replayed <- replaying.ReplayOne(t.Context(), "a1", noon) }()
	waitFor(t, func() bool {
		return len(replayed) == 1 ||
			count("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = '"+operator+"'") == 1
	})
	var third []string
	if len(replayed) == 1 {
		third = ids(claim(t, replicas[2], noon))
	}
	run(t, db, "SELECT pg_advisory_unlock("+held+")")
	equal(t, "the second replica has", <-claimed, []string{"a2"})
	if err := <-replayed; err != nil {
		t.Error(err)
	}
	third = append(third, ids(claim(t, replicas[2], noon))...)
	equal(t, "the third has beside it", third, nil)
}
