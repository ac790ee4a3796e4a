package store_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// hourOf is an hour with calls of the same time, some of which failed.
func hourOf(who string, at time.Time, backend, calls, failed int, took time.Duration) store.Hour {
	h := store.Hour{Partner: partner.Of(who), At: at, Backend: backend}
	for i := range calls {
		h.Observe(i < failed, took)
	}
	return h
}

// addHours adds hours, which must succeed.
func addHours(t testing.TB, s *store.Store, more ...store.Hour) {
	t.Helper()
	if added, err := s.AddHours(t.Context(), more); added != len(more) || err != nil {
		t.Fatalf("%d of %d, %v", added, len(more), err)
	}
}

// The p99 is the bound of the bucket that has it: not below the exact time, and not above three and a half times of it.
func TestP99IsExactToTheBucket(t *testing.T) {
	t.Parallel()
	equal(t, store.Sums{}.P99(), 0, "without calls")
	var long store.Sums
	long.Observe(false, 2*time.Hour)
	equal(t, long.P99(), 60*time.Second, "longer than the last bucket")
	for took := 10*time.Millisecond + 1; took <= 10*time.Second; took = took * 101 / 100 {
		var s store.Sums
		s.Observe(false, took)
		if p99 := s.P99(); p99 < took || p99 >= took*7/2 {
			t.Errorf("%s is %s", took, p99)
		}
	}
	for slow, want := range map[int]time.Duration{0: 10 * time.Millisecond, 1: 10 * time.Millisecond, 2: time.Second} {
		var s store.Sums
		for i := range 100 {
			s.Observe(false, map[bool]time.Duration{true: time.Second, false: time.Millisecond}[i < slow])
		}
		equal(t, s.P99(), want, fmt.Sprint(slow, " of 100 are slow"))
	}
}

// Two replicas that add to the same hours at the same time lose nothing.
func TestConcurrentHoursAreAllAdded(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		const adders, rounds, partners = 8, 5, 130 // statements of many rows, and of one
		var adding sync.WaitGroup
		for i := range adders {
			adding.Go(func() {
				for range rounds {
					var more []store.Hour
					for who := range partners {
						more = append(more, hourOf(fmt.Sprint(who), noon, who%2, 1, 1, time.Second))
					}
					if i%3 == 0 {
						slices.Reverse(more)
					}
					if _, err := replicas[i%2].AddHours(t.Context(), more); err != nil {
						t.Error(err)
					}
				}
			})
		}
		adding.Wait()
		sums, err := replicas[0].BackendSums(t.Context(), noon)
		must(t, err)
		for backend, s := range sums {
			equal(t, s, hourOf("", noon, backend, adders*rounds*partners/2, adders*rounds*partners/2, time.Second).Sums, fmt.Sprint("backend ", backend))
		}
	})
}

// A batch that fails is not added, those before it are. The caller learns how many, and what it adds again later counts once.
func TestHoursOfFailedBatchCanBeAddedAgain(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		s := openSmall(t, url, 0) // ten rows in a batch
		var more []store.Hour
		for i := range 15 {
			more = append(more, hourOf("one", noon.Add(time.Duration(i)*time.Hour), 0, 1, 0, 0))
		}
		more[12].Backend = 2 // refused by the database
		added, err := s.AddHours(t.Context(), more)
		if added != 10 || err == nil {
			t.Fatalf("%d, %v", added, err)
		}
		more[12].Backend = 1
		addHours(t, s, more[added:]...)
		sums, err := s.BackendSums(t.Context(), noon)
		must(t, err)
		equal(t, [2]int{sums[0].Calls, sums[1].Calls}, [2]int{14, 1}, "calls")
		if added, err := s.AddHours(t.Context(), []store.Hour{{Partner: "short", At: noon}}); added != 0 || err == nil {
			t.Errorf("no full hash: %d, %v", added, err)
		}
	})
}

// Hours before a time are removed.
func TestOldHoursAreRemoved(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		s := openSmall(t, url, 0)
		for i := range 25 {
			addHours(t, s, hourOf("one", noon.Add(time.Duration(i)*time.Hour), i%2, 1, 0, 0))
		}
		gives(t, 21, "removed")(s.SweepHours(t.Context(), noon.Add(21*time.Hour)))
		hours, err := s.HoursOf(t.Context(), partnerOne, time.Time{}.Add(time.Hour))
		must(t, err)
		equal(t, len(hours), 4, "left")
		equal(t, hours[0].At, noon.Add(21*time.Hour), "the first that is left")
	})
}

// BenchmarkHours reads the calls of 10,000 partners of the last 24 hours, and the sums of both backends of the last
// hour, from a store with some days of them.
func BenchmarkHours(b *testing.B) {
	const days = 2
	for name, url := range map[string]func(testing.TB) string{"sqlite": proxytest.SQLite, "postgres": proxytest.Postgres} {
		s := open(b, url(b))
		for who := range 10_000 {
			must(b, s.Seen(b.Context(), partner.Of(fmt.Sprint(who)), noon))
		}
		for hour := range 24 * days {
			var more []store.Hour
			for who := range 10_000 {
				if hour%2 == 0 {
					more = append(more, hourOf(fmt.Sprint(who), noon.Add(time.Duration(hour)*time.Hour), who%2, 3, 0, time.Second))
				}
			}
			addHours(b, s, more...)
		}
		since := noon.Add((days - 1) * 24 * time.Hour)
		b.Run(name+"/calls", func(b *testing.B) {
			for b.Loop() {
				calls, err := s.HoursIn(b.Context(), nil, since)
				if must(b, err); len(calls) != 10_000 {
					b.Fatal(len(calls))
				}
			}
		})
		b.Run(name+"/sums", func(b *testing.B) {
			for b.Loop() {
				works(b)(s.BackendSums(b.Context(), noon.Add((days*24-2)*time.Hour)))
			}
		})
	}
}
