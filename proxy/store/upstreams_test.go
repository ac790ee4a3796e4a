package store_test

import (
	"fmt"
	"sync"
	"testing"

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

// The store has the upstreams of the last replica, not a mixture of two.
func TestConcurrentReconcilesDoNotMix(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
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
			equal(t, rows, 3, "of three")
			equal(t, urls, 1, "different URLs")
			must(t, db.QueryRow("SELECT count(*) FROM billbridge_upstreams").Scan(&rows))
			equal(t, rows, 4, "all")
			_ = db.Close()
		}
	})
}
