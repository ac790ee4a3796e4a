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

// Hours add up in the store, and their sums are by partner, by backend and from an hour on.
func TestHoursAddUp(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		s, later := open(t, url), noon.Add(time.Hour)
		must(t, s.Seen(t.Context(), partner.Of("one"), noon))
		must(t, s.Seen(t.Context(), partner.Of("two"), noon))
		one := hourOf("one", noon, 0, 3, 1, 6*time.Millisecond)
		addHours(t, s, hourOf("two", noon, 0, 7, 0, time.Second), one, hourOf("one", noon, 1, 2, 2, time.Millisecond))
		addHours(t, s, hourOf("one", later, 1, 5, 0, time.Minute), hourOf("one", noon, 0, 1, 0, 2*time.Hour))
		one.Add(hourOf("", noon, 0, 1, 0, 68*time.Second).Sums)
		later1 := hourOf("one", later, 1, 5, 0, 50*time.Second)
		hours, err := s.HoursOf(t.Context(), partner.Of("one"), noon)
		must(t, err)
		equal(t, hours, []store.Hour{one, hourOf("one", noon, 1, 2, 2, time.Nanosecond), later1}, "the hours of one")
		hours, err = s.HoursOf(t.Context(), partner.Of("one"), later)
		must(t, err)
		equal(t, hours, []store.Hour{later1}, "the later hours of one")
		for _, row := range []struct {
			in    []partner.ID
			since time.Time
			want  map[partner.ID]int
		}{
			{nil, noon, map[partner.ID]int{partner.Of("one"): 11, partner.Of("two"): 7}},
			{nil, later, map[partner.ID]int{partner.Of("one"): 5, partner.Of("two"): 0}},
			{[]partner.ID{partner.Of("two")}, noon, map[partner.ID]int{partner.Of("two"): 7}},
			{nil, later.Add(time.Hour), map[partner.ID]int{partner.Of("one"): 0, partner.Of("two"): 0}},
			{[]partner.ID{}, noon, map[partner.ID]int{}},
		} {
			calls, err := s.HoursIn(t.Context(), row.in, row.since)
			must(t, err)
			equal(t, calls, row.want, fmt.Sprint("calls of ", row.in, " since ", row.since))
		}
		var many []partner.ID // more than one statement takes
		for i := range 120 {
			many = append(many, partner.Of(fmt.Sprint(i)))
		}
		for _, row := range []struct {
			of    []partner.ID
			since time.Time
			want  [2][2]int // calls and failed, by backend
		}{
			{nil, noon, [2][2]int{{11, 1}, {7, 2}}},
			{nil, later, [2][2]int{{}, {5, 0}}},
			{[]partner.ID{}, noon, [2][2]int{}},
			{[]partner.ID{partner.Of("two")}, noon, [2][2]int{{7, 0}}},
			{slices.Concat([]partner.ID{partner.Of("one")}, many, []partner.ID{partner.Of("two")}), noon, [2][2]int{{11, 1}, {7, 2}}},
		} {
			sums, err := s.BackendSums(t.Context(), row.of, row.since)
			must(t, err)
			equal(t, [2][2]int{{sums[0].Calls, sums[0].Failed}, {sums[1].Calls, sums[1].Failed}}, row.want, fmt.Sprint("sums of ", len(row.of), " since ", row.since))
		}
		sums, err := s.BackendSums(t.Context(), nil, noon)
		must(t, err)
		equal(t, []time.Duration{sums[0].P99(), sums[1].P99()}, []time.Duration{68 * time.Second, 68 * time.Second}, "p99")
	})
}

// The p99 is the bound of the bucket that has it: not below the exact time, and less than half above it.
func TestP99IsExactToTheBucket(t *testing.T) {
	t.Parallel()
	equal(t, store.Sums{}.P99(), 0, "without calls")
	for took := 5*time.Millisecond + 1; took <= 68*time.Second; took = took * 101 / 100 {
		var s store.Sums
		s.Observe(false, took)
		if p99 := s.P99(); p99 < took || p99 >= took+took/2+time.Microsecond {
			t.Errorf("%s is %s", took, p99)
		}
	}
	for slow, want := range map[int]time.Duration{0: 5 * time.Millisecond, 1: 5 * time.Millisecond, 2: time.Second} {
		var s store.Sums
		for i := range 100 {
			s.Observe(false, map[bool]time.Duration{true: time.Second, false: time.Millisecond}[i < slow])
		}
		equal(t, s.P99(), want, fmt.Sprint(slow, " of 100 are slow"))
	}
}

// Two replicas that add to the same hours at the same time lose nothing.
func TestConcurrentHoursAreAllAdded(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
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
		sums, err := replicas[0].BackendSums(t.Context(), nil, noon)
		must(t, err)
		for backend, s := range sums {
			equal(t, s, hourOf("", noon, backend, adders*rounds*partners/2, adders*rounds*partners/2, time.Second).Sums, fmt.Sprint("backend ", backend))
		}
	})
}

// A batch that fails is not added, those before it are. The caller learns how many, and what it adds again later counts once.
func TestHoursOfFailedBatchCanBeAddedAgain(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
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
		sums, err := s.BackendSums(t.Context(), nil, noon)
		must(t, err)
		equal(t, [2]int{sums[0].Calls, sums[1].Calls}, [2]int{14, 1}, "calls")
		if added, err := s.AddHours(t.Context(), []store.Hour{{Partner: "short", At: noon}}); added != 0 || err == nil {
			t.Errorf("no full hash: %d, %v", added, err)
		}
	})
}

// Hours before a time are removed.
func TestOldHoursAreRemoved(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		s := openSmall(t, url, 0)
		for i := range 25 {
			addHours(t, s, hourOf("one", noon.Add(time.Duration(i)*time.Hour), i%2, 1, 0, 0))
		}
		n, err := s.SweepHours(t.Context(), noon.Add(21*time.Hour))
		must(t, err)
		equal(t, n, 21, "removed")
		hours, err := s.HoursOf(t.Context(), partner.Of("one"), time.Time{}.Add(time.Hour))
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
				_, err := s.BackendSums(b.Context(), nil, noon.Add((days*24-2)*time.Hour))
				must(b, err)
			}
		})
	}
}
