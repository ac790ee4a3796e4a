package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

func attempts(t testing.TB, s *store.Store, id string) []store.Attempt {
	t.Helper()
	all, err := s.Attempts(t.Context(), id)
	must(t, err)
	return all
}

// Every attempt is stored unchanged, numbered over a replay, until the callback is removed.
func TestAttempts(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		accept(t, s, callback("c1", "a"), callback("c2", "b"))
		want := []store.Attempt{
			{1, noon.Add(time.Second), 1500 * time.Millisecond, 0, "", "connection", "no such host"},
			{2, noon.Add(time.Minute), 20 * time.Millisecond, 200, "9999", "answer", "HTTP 200 but code 9999"},
			{3, noon.Add(time.Hour), time.Second, 200, "0000", "delivered", ""},
		}
		for i, a := range want {
			state := []store.State{store.Waiting, store.Dead, store.Delivered}[i]
			for _, c := range claim(t, s, a.Ended) {
				if c.ID != "c1" {
					continue
				}
				r := store.Result{
					At: a.Ended, Status: a.Status, Outcome: a.Outcome, State: state, Next: a.Ended, Took: a.Took, Code: a.Code, Reason: a.Reason,
				}
				if _, err := s.Finish(t.Context(), c, r); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Finish(t.Context(), c, r); !errors.Is(err, store.ErrLeaseLost) {
					t.Errorf("%v", err)
				}
			}
			if state == store.Dead {
				must(t, s.DecideOne(t.Context(), store.Replay, "c1", "tester", a.Ended))
			}
		}
		equal(t, "the attempts", attempts(t, s, "c1"), want)
		for _, id := range []string{"c2", "c3"} {
			equal(t, "of "+id, attempts(t, s, id), nil)
		}
		if n, err := s.Sweep(t.Context(), noon.Add(48*time.Hour), time.Hour); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		accept(t, s, callback("c1", "c"))
		equal(t, "after the sweep", attempts(t, s, "c1"), nil)
		if left, err := s.Ask(t.Context(), "SELECT CAST(count(*) AS TEXT) FROM billbridge_attempts"); left != "0" || err != nil {
			t.Errorf("%s are left, %v", left, err)
		}
	})
}

// Of a callback that is replayed many times the last hundred attempts are stored.
func TestAttemptsAreBounded(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		accept(t, s, callback("c1", "a"))
		for range 103 {
			finish(t, s, claim(t, s, noon.Add(time.Hour))[0], noon, store.Waiting)
		}
		all := attempts(t, s, "c1")
		equal(t, "kept", len(all), 100)
		equal(t, "the first", all[0].Number, 4)
		equal(t, "the last", all[99].Number, 103)
	})
}

// The audit log has who replayed or dropped which callbacks, and no entry if nothing changed.
func TestDecisionsAreAudited(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		various(t, s)
		must(t, s.Stop(t.Context(), "somebody", noon))
		at := noon.Add(time.Hour)
		f := store.Filter{PartnerPrefix: partner.Of("two")[:12], Since: noon, Limit: 9}
		for name, err := range map[string]error{
			"one":         s.DecideOne(t.Context(), store.Drop, "c2", "김", at),
			"a delivered": s.DecideOne(t.Context(), store.Replay, "c1", "이", at),
		} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n, err := s.Decide(t.Context(), store.Replay, f, "박", at, nil); n != 2 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := s.Decide(t.Context(), store.Drop, store.Filter{}, "nobody", at, nil); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if err := s.DecideOne(t.Context(), store.Drop, "c2", "nobody", at); !errors.Is(err, store.ErrState) {
			t.Errorf("%v", err)
		}
		for _, by := range []string{"", "\x00"} {
			_, replayed := s.Decide(t.Context(), store.Replay, store.Filter{}, by, at, nil)
			if err := s.DecideOne(t.Context(), store.Drop, "c0", by, at); err == nil || replayed == nil {
				t.Errorf("%q decided", by)
			}
		}
		log, err := s.Audit(t.Context(), store.AuditFilter{Actions: []store.Action{store.CallbackReplayed, store.CallbackDropped}, Limit: 10})
		must(t, err)
		var got []string
		for _, c := range log {
			if !c.At.Equal(at) {
				t.Errorf("%+v", c)
			}
			got = append(got, fmt.Sprintf("%s %s %.6s %s %s %s", c.By, c.Action, c.Partner, c.Subject, c.From, c.To))
		}
		one, two := partner.Of("one").Short()[:6], partner.Of("two").Short()[:6]
		equal(t, "the last", got[0], "박 replay "+two+" 2 callbacks, since 2026-11-20T12:00:00Z, at most 9 dead waiting")
		for _, want := range []string{"김 drop " + one + " c2 dead dropped", "이 replay " + one + " c1 delivered waiting"} {
			if got[1] != want && got[2] != want {
				t.Errorf("no %s in %q", want, got)
			}
		}
		all, err := s.Audit(t.Context(), store.AuditFilter{Limit: 10})
		must(t, err)
		equal(t, "of callbacks", len(log), 3)
		equal(t, "in all", len(all), 4)
	})
}
