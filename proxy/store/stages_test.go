package store_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

func rolloutOf(t testing.TB, s *store.Store) store.Rollout {
	t.Helper()
	r, err := s.Rollout(t.Context())
	must(t, err)
	return r
}

// audit is the audit log without its revisions, which must decrease.
func audit(t testing.TB, s *store.Store, limit int) []store.Change {
	t.Helper()
	all, err := s.Audit(t.Context(), store.AuditFilter{Limit: limit})
	must(t, err)
	if !slices.IsSortedFunc(all, func(a, b store.Change) int { return int(b.Revision - a.Revision) }) {
		t.Errorf("not the last first: %v", all)
	}
	for i := range all {
		all[i].Revision = 0
	}
	return all
}

// Concurrent changes of replicas have different revisions, and the audit log has the stage that each one replaced. A
// reader that goes on after the last revision that it has read misses none of them.
func TestConcurrentStageChangesHaveTheirOwnRevisions(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		const changes = 24
		var changing sync.WaitGroup
		for i := range changes {
			changing.Go(func() {
				stage := store.Change{Action: store.Staged, Partner: partnerOne, To: fmt.Sprint("stage", i), By: "anna", At: noon}
				if err := replicas[i%2].Change(t.Context(), stage); err != nil {
					t.Error(err)
				}
			})
		}
		over := make(chan struct{})
		go func() {
			changing.Wait()
			close(over)
		}()
		var read []store.Change
		for ended := false; !ended; {
			select {
			case <-over:
				ended = true // after this last page
			default:
			}
			after := int64(0)
			if len(read) > 0 {
				after = read[len(read)-1].Revision
			}
			page, err := replicas[1].Audit(t.Context(), store.AuditFilter{OldestFirst: true, After: after, Limit: changes})
			must(t, err)
			read = append(read, page...)
		}
		all, err := replicas[0].Audit(t.Context(), store.AuditFilter{Limit: 2 * changes})
		must(t, err)
		slices.Reverse(read)
		equal(t, read, all, "what was read while it was written")
		equal(t, len(all), changes, "changes")
		from := ""
		for i, c := range slices.Backward(all) {
			equal(t, c.Revision, noon.UnixMilli()+int64(changes-1-i), "the revision")
			equal(t, c.From, from, "from")
			from = c.To
		}
		equal(t, rolloutOf(t, replicas[1]).Stages[0].Stage, from, "the stage")
	})
}

// For a known partner, for a bill found at its owner and for backends that did not change, nothing is written.
func TestWhatIsKnownIsNotWritten(t *testing.T) {
	t.Parallel()
	s := open(t, proxytest.SQLite(t))
	must(t, s.Seen(t.Context(), partnerOne, noon))
	settle(t, s, own(t, s, "b", "old"), ledger.Succeeded)
	must(t, s.SetBackends(t.Context(), between("old", "new"), noon))
	defer s.Hold()() // from here on no write comes to an end
	for name, do := range map[string]func() error{
		"Seen": func() error { return s.Seen(t.Context(), partnerOne, noon.Add(time.Hour)) },
		"Found": func() error {
			_, err := proxytest.On(s).Found(t.Context(), partnerOne, "b", "old", noon, "")
			return err
		},
		"SetBackends": func() error { return s.SetBackends(t.Context(), between("old", "new"), noon) },
	} {
		done := make(chan error, 1)
		go func() { done <- do() }()
		proxytest.Eventually(t, func() bool { return len(done) == 1 || s.Waiting() > 0 }, nil)
		if s.Waiting() > 0 {
			t.Fatalf("%s waits to write", name)
		}
		must(t, <-done)
	}
}

// If two replicas see a new partner at the same time, the first write counts.
func TestFirstSeenOfTwoReplicas(t *testing.T) {
	t.Parallel()
	s := open(t, proxytest.SQLite(t))
	release := s.Hold()
	seen := make(chan error, 2)
	for i := range 2 {
		go func() { seen <- s.Seen(t.Context(), partnerOne, noon.Add(time.Duration(i)*time.Hour)) }()
		proxytest.Eventually(t, func() bool { return s.Waiting() == i+1 }, nil)
	}
	release()
	for range 2 {
		must(t, <-seen)
	}
	gives(t, noon, "first seen")(s.FirstSeen(t.Context(), partnerOne))
}
