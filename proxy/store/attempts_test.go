package store_test

import (
	"testing"
	"time"

	"billbridge/proxy/store"
)

// Of a callback that is replayed many times the last hundred attempts are stored.
func TestAttemptsAreBounded(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		accept(t, s, callback("c1", "a"))
		for range 103 {
			finish(t, s, claim(t, s, noon.Add(time.Hour))[0], noon, store.Waiting)
		}
		all, err := s.Attempts(t.Context(), "c1")
		must(t, err)
		equal(t, len(all), 100, "kept")
		equal(t, all[0].Number, 4, "the first")
		equal(t, all[99].Number, 103, "the last")
	})
}
