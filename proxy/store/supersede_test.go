package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// answered ends an attempt at the only due callback with HTTP 201, and returns the ids of the callbacks that end for a newer one.
func answered(t testing.TB, s *store.Store, at time.Time) []string {
	t.Helper()
	due := claim(t, s, at)
	if len(due) != 1 {
		t.Fatalf("%d are due", len(due))
	}
	ended, err := s.Finish(t.Context(), due[0], store.Result{
		At: at, Status: 201, Outcome: "answer", Reason: "HTTP 201 but an empty body", State: store.Waiting, Next: at.Add(time.Second),
	})
	must(t, err)
	return idsOf(ended)
}

// A callback under way is not superseded: the end of its attempt decides, also after its lease, and also without an answer.
func TestCallbackUnderWayIsNotSuperseded(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		accept(t, s, callback("older", "a"))
		for i := range 3 {
			equal(t, "without a newer one", answered(t, s, noon.Add(time.Duration(i)*time.Minute)), nil)
		}
		under := claim(t, s, noon.Add(time.Hour))
		for i, id := range []string{"newer", "newest"} {
			c := callback(id, "a")
			c.Received = noon.Add(time.Duration(i+1) * time.Hour) // the second after the lease
			fresh, ended, err := s.Accept(t.Context(), c, time.Minute)
			if !fresh || ended != nil || err != nil || get(t, s, "older").State != store.Waiting {
				t.Fatalf("%s: %v, %v, %v", id, fresh, ended, err)
			}
		}
		ended, err := s.Finish(t.Context(), under[0], store.Result{
			At: noon.Add(3 * time.Hour), Outcome: "refused", Reason: "connection refused", State: store.Waiting, Next: noon.Add(4 * time.Hour),
		})
		want := []store.Supersession{{
			ID: "older", Upstream: "new", Partner: under[0].Partner, Bill: "a", Attempts: 4, Outcome: "refused", Reason: "connection refused",
		}}
		must(t, err)
		equal(t, "ended", ended, want)
		if c := claim(t, s, noon.Add(3*time.Hour)); len(c) != 1 || c[0].ID != "newer" {
			t.Errorf("next is %+v", c)
		}
		if p, err := s.PageWithin(t.Context(), store.Filter{State: store.Superseded}, 1, 0); err != nil || len(p.Callbacks) != 1 {
			t.Errorf("its page has %d callbacks, %v: others were examined", len(p.Callbacks), err)
		}
		if n, err := s.SweepBodies(t.Context(), noon.Add(5*time.Hour), time.Hour); n != 1 || err != nil {
			t.Errorf("%d bodies are deleted, %v", n, err)
		}
		if n, err := s.Sweep(t.Context(), noon.Add(5*time.Hour), time.Hour); n != 1 || err != nil {
			t.Errorf("%d are removed, %v", n, err)
		}
	})
}

// The third answer to an older callback and a newer one, at two replicas at the same time: one of them supersedes the older one.
func TestSupersededAtTheSameTime(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		for i := range 50 {
			bill, at := fmt.Sprint("b", i), noon.Add(time.Duration(i)*time.Hour)
			older, newer := callback(bill+" older", bill), callback(bill+" newer", bill)
			older.Received, newer.Received = at, at
			accept(t, replicas[0], older)
			answered(t, replicas[0], at)
			answered(t, replicas[0], at.Add(time.Second))
			due := claim(t, replicas[0], at.Add(2*time.Second))
			var ended [2][]store.Supersession
			var both sync.WaitGroup
			both.Go(func() {
				var err error
				ended[0], err = replicas[0].Finish(t.Context(), due[0], store.Result{At: at, Status: 201, State: store.Waiting, Next: at})
				if err != nil {
					t.Error(err)
				}
			})
			both.Go(func() {
				var err error
				if _, ended[1], err = replicas[1].Accept(t.Context(), newer, time.Minute); err != nil {
					t.Error(err)
				}
			})
			both.Wait()
			if n := len(ended[0]) + len(ended[1]); n != 1 || get(t, replicas[0], older.ID).State != store.Superseded {
				t.Fatalf("%s: %d ended, %s", bill, n, get(t, replicas[0], older.ID).State)
			}
			next := claim(t, replicas[1], at.Add(time.Minute))
			finish(t, replicas[1], next[0], at, store.Delivered)
		}
	})
}

// A connection that has read the tables before the upgrade can write the new state after it.
func TestUpgradeWithAnOpenConnection(t *testing.T) {
	t.Parallel()
	url := proxytest.SQLite(t)
	unpack(t, "testdata/versions/v12.db.gz", url[len("sqlite:"):])
	before := raw(t, url)
	before.SetMaxOpenConns(1)
	run(t, before, "UPDATE billbridge_callbacks SET state = 'waiting'") // reads the definition
	s, err := store.Open(t.Context(), url)
	must(t, err)
	defer func() { _ = s.Close() }()
	run(t, before, "UPDATE billbridge_callbacks SET state = 'superseded'")
	var sound string
	if err := before.QueryRow("PRAGMA integrity_check").Scan(&sound); err != nil || sound != "ok" {
		t.Errorf("%s, %v", sound, err)
	}
}
