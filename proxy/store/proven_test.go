package store_test

import (
	"fmt"
	"sync"
	"testing"

	"billbridge/proxy/store"
)

func unbind(t testing.TB, s *store.Store, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := s.Unbind(t.Context(), id); err != nil {
			t.Fatalf("Unbind(%s): %v", id, err)
		}
	}
}

// Of two registrations at the same time, at two replicas, a refused one does not remove the address of the other.
func TestConcurrentUnbindKeepsTheOtherAddress(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		for round := range 15 {
			var given [8]string
			var calls sync.WaitGroup
			for i := range given {
				calls.Go(func() {
					var err error
					if given[i], err = replicas[i%2].Bind(t.Context(), registration(fmt.Sprintf("%d-%d", round, i), fmt.Sprint(round), noon)); err != nil {
						t.Error(err)
						return
					}
					if i > 0 { // all but one are refused
						if err := replicas[i%2].Unbind(t.Context(), given[i]); err != nil {
							t.Error(err)
						}
					}
				})
			}
			calls.Wait()
			equal(t, bound(t, replicas[0], given[0]), []string{given[0]}, "there")
			unbind(t, replicas[1], given[0])
			equal(t, bound(t, replicas[0], given[:]...), nil, "left")
		}
	})
}
