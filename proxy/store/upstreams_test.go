package store_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

var (
	older = store.Upstream{Name: "old", Form: "legacy", URL: "https://old.example.com"}
	newer = store.Upstream{Name: "new", Form: "v2", URL: "https://new.example.com"}
)

// reconcile stores upstreams, which must not be refused.
func reconcile(t testing.TB, s *store.Store, now ...store.Upstream) (moved []store.Upstream) {
	t.Helper()
	moved, err := s.Reconcile(t.Context(), now, true, noon)
	if err != nil {
		t.Fatalf("Reconcile(%v): %v", now, err)
	}
	return moved
}

// An upstream to which a row refers is not removed and keeps its form. A refusal changes nothing. Rows that are free do not refer
// to it, and a sweep removes those that are swept, years later.
func TestReconcileRefuses(t *testing.T) {
	dropped := []store.Upstream{{Name: "new", Form: "v2", URL: "https://moved.example.com"}, {Name: "third", Form: "v2"}}
	changed := append([]store.Upstream{{Name: "old", Form: "v2", URL: older.URL}}, dropped...)
	c := callback("c1", "b")
	c.Upstream = older.Name
	bill := address("a1", "b")
	bill.Upstream = older.Name
	for name, row := range map[string]func(*testing.T, *store.Store){
		"an address, swept":            func(t *testing.T, s *store.Store) { bind(t, s, bill) },
		"a registration":               func(t *testing.T, s *store.Store) { bind(t, s, registration("a2", "s", noon)) },
		"one waiting":                  func(t *testing.T, s *store.Store) { accept(t, s, c) },
		"one dead":                     func(t *testing.T, s *store.Store) { become(t, s, c, store.Dead) },
		"one delivered, swept":         func(t *testing.T, s *store.Store) { become(t, s, c, store.Delivered) },
		"a pending bill, swept":        func(t *testing.T, s *store.Store) { own(t, s, "b", older.Name) },
		"a bill to end, swept":         func(t *testing.T, s *store.Store) { ownUntil(t, s, "b", older.Name, noon, noon.Add(time.Hour)) },
		"an owned bill, swept":         func(t *testing.T, s *store.Store) { settle(t, s, own(t, s, "b", older.Name), store.Succeeded) },
		"a released bill, free, swept": func(t *testing.T, s *store.Store) { settle(t, s, own(t, s, "b", older.Name), store.Refused) },
		"another's, free":              func(t *testing.T, s *store.Store) { accept(t, s, callback("c2", "b")) },
		"a longer name, free, swept": func(t *testing.T, s *store.Store) {
			bind(t, s, store.Address{ID: "a3", Upstream: "older", Created: noon})
		},
	} {
		refers, removed := !strings.Contains(name, ", free"), strings.Count(name, ", swept")
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, s *store.Store) {
				reconcile(t, s, newer, older)
				row(t, s)
				for form, now := range map[string][]store.Upstream{"": dropped, "v2": changed} {
					if !refers {
						break
					}
					moved, err := s.Reconcile(t.Context(), now, true, noon)
					equal(t, "the error", fmt.Sprint(err), store.Referenced(older, form).Error())
					equal(t, "moved", moved, nil)
				}
				years := noon.Add(10 * 365 * 24 * time.Hour)
				n, err := s.Sweep(t.Context(), years, time.Hour)
				owners, errOwners := s.SweepOwners(t.Context(), years, years, time.Hour)
				if n+owners != removed || err != nil || errOwners != nil {
					t.Errorf("Sweep = %d, %v, SweepOwners = %d, %v", n, err, owners, errOwners)
				}
				if !refers || removed > 0 {
					equal(t, "moved, when nothing refers to it", reconcile(t, s, dropped...), []store.Upstream{newer})
					return
				}
				if _, err := s.Reconcile(t.Context(), dropped, true, noon); err == nil {
					t.Error("a sweep made it forgotten")
				}
				// Neither the move nor the third was noted.
				equal(t, "moved", reconcile(t, s, newer, older, store.Upstream{Name: "third", Form: "legacy", URL: "https://x"}), nil)
				equal(t, "moved", reconcile(t, s, newer, store.Upstream{Name: "old", Form: "legacy"}), []store.Upstream{older})
			})
		})
	}
}

// The error says what an operator must do.
func TestReferencedErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for form, want := range map[string]string{
		"": `store: upstream "old" is no longer in the config, but bills, callbacks or callback addresses of it are still there: ` +
			`name it as before, with the form "legacy"; its url may be another`,
		"v2": `store: upstream "old" has the form "v2" in the config, but bills, callbacks or callback addresses from when it had the form "legacy" are still there: ` +
			`name it as before, and give the one with the form "v2" another name`,
	} {
		equal(t, "text", store.Referenced(older, form).Error(), want)
	}
}

// The store has the upstreams of the last replica, not a mixture of two.
func TestConcurrentReconcilesDoNotMix(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 4)
		for range 10 {
			var starting sync.WaitGroup
			for i, s := range replicas {
				starting.Go(func() {
					mine := []store.Upstream{{Name: fmt.Sprint("own", i), Form: "v2"}}
					for _, name := range []string{"a", "b", "c"} {
						mine = append(mine, store.Upstream{Name: name, Form: "v2", URL: fmt.Sprint(i)})
					}
					if i%2 == 1 {
						mine[1], mine[3] = mine[3], mine[1] // the rows in another order
					}
					if _, err := s.Reconcile(t.Context(), mine, true, noon); err != nil {
						t.Error(err)
					}
				})
			}
			starting.Wait()
			db := raw(t, url)
			var rows, urls int
			must(t, db.QueryRow("SELECT count(*), count(DISTINCT url) FROM billbridge_upstreams WHERE name < 'd'").
				Scan(&rows, &urls))
			equal(t, "of three", rows, 3)
			equal(t, "different URLs", urls, 1)
			must(t, db.QueryRow("SELECT count(*) FROM billbridge_upstreams").Scan(&rows))
			equal(t, "all", rows, 4)
			_ = db.Close()
		}
	})
}
