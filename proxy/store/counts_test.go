package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// sum merges numbers in decimal digits.
func sum(have, more []byte) ([]byte, error) {
	a, errA := strconv.Atoi(string(have))
	b, errB := strconv.Atoi(string(more))
	return []byte(strconv.Itoa(a + b)), errors.Join(errA, errB)
}

func counted(who, operation, data string) store.Counts {
	return store.Counts{Partner: partner.Of(who), Operation: operation, Data: []byte(data)}
}

// add adds to the counts of version 1 at a time.
func add(t testing.TB, s *store.Store, at time.Time, more ...store.Counts) {
	t.Helper()
	if added, err := s.AddCounts(t.Context(), "1", more, at, sum); added != len(more) || err != nil {
		t.Fatalf("%d of %d, %v", added, len(more), err)
	}
}

func countsOf(t testing.TB, s *store.Store, version string, partner partner.ID) []store.Counts {
	t.Helper()
	all, err := s.CountsIn(t.Context(), version, store.AllPartners.Of(partner))
	must(t, err)
	return all
}

// The counts of some partners are read without those of others, however many they are.
func TestCountsOfSomePartners(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		s := proxytest.Open(t, url)
		var ids []partner.ID
		for i := range 130 {
			who := fmt.Sprint("p", i)
			add(t, s, noon, counted(who, "read", who), counted(who, "create", who))
			if i%10 != 0 {
				ids = append(ids, partner.Of(who))
			}
		}
		all, err := s.CountsOf(t.Context(), "1", append(ids, partner.Of("nobody")))
		must(t, err)
		equal(t, len(all), 2*len(ids), "rows")
		for _, c := range all {
			if !slices.Contains(ids, c.Partner) || partner.Of(string(c.Data)) != c.Partner {
				t.Errorf("%+v", c)
			}
		}
		for version, of := range map[string][]partner.ID{"1": nil, "2": ids} {
			if all, err := s.CountsOf(t.Context(), version, of); err != nil || len(all) != 0 {
				t.Errorf("%s: %d, %v", version, len(all), err)
			}
		}
	})
}

// If a merge fails, no counts of its batch are added, but those of earlier batches are. The caller learns how many, and can add the
// rest later, so that all count once.
func TestMergeFails(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		s := openSmall(t, url, 0)
		var one []store.Counts
		for i := range 10 + 10 + 1 { // the last batch has but one
			one = append(one, counted("one", fmt.Sprintf("%02d", i), "1"))
		}
		add(t, s, noon, one...)
		nothing := func([]byte, []byte) ([]byte, error) { return []byte{}, nil }
		if added, err := s.AddCounts(t.Context(), "1", one, noon, nothing); added != 0 || err == nil || !strings.Contains(err.Error(), "00: merged, nothing is left of it") {
			t.Errorf("merged to nothing: %v", err)
		}
		torn := errors.New("torn")
		n := 0
		slices.Reverse(one)
		added, err := s.AddCounts(t.Context(), "1", one, noon, func(have, more []byte) ([]byte, error) {
			if n++; n == 15 {
				return nil, torn
			}
			return sum(have, more)
		})
		if want := "store: adding counts: 14: torn"; !errors.Is(err, torn) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		equal(t, added, 10, "added")
		for i, c := range countsOf(t, s, "1", "") {
			want := "1"
			if i < 10 {
				want = "2"
			}
			equal(t, string(c.Data), want, c.Operation)
		}
		add(t, s, noon, one[added:]...)
		for _, c := range countsOf(t, s, "1", "") {
			equal(t, string(c.Data), "2", c.Operation)
		}
	})
}

// No counts are lost when many callers of two replicas add to the same rows at the same time, in any order.
func TestConcurrentCountsAreAllAdded(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		const adders, rounds, operations = 8, 5, 12
		var adding sync.WaitGroup
		for i := range adders {
			adding.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 7))
				for range rounds {
					var more []store.Counts
					for _, operation := range random.Perm(operations) {
						more = append(more, counted("one", fmt.Sprintf("%02d", operation), strconv.Itoa(1+operation)))
					}
					if _, err := replicas[i%2].AddCounts(t.Context(), "1", more, noon, sum); err != nil {
						t.Error(err)
					}
				}
			})
		}
		adding.Wait()
		all := countsOf(t, replicas[0], "1", "")
		equal(t, len(all), operations, "operations")
		for operation, c := range all {
			equal(t, string(c.Data), strconv.Itoa(adders*rounds*(1+operation)), c.Operation)
		}
	})
}

// Counts of other versions are removed when they have not changed for long; those of this version stay.
func TestOldCountsAreRemoved(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		s := openSmall(t, url, 0)
		const many = 10 + 10 + 1 // more than one batch
		var more []store.Counts
		for i := range many {
			more = append(more, counted("one", fmt.Sprint(i), "1"))
		}
		addBy := func(version string, at time.Time, more ...store.Counts) {
			t.Helper()
			if _, err := s.AddCounts(t.Context(), version, more, at, sum); err != nil {
				t.Fatal(err)
			}
		}
		for _, version := range []string{"1", "2", "3"} {
			addBy(version, noon, more...)
		}
		addBy("2", noon.Add(time.Hour), more[0], more[1])
		addBy("2", noon.Add(-time.Hour), more[0]) // by a clock that is late
		sweep := func(before time.Time, want int, left ...int) {
			t.Helper()
			gives(t, want, before)(s.SweepCounts(t.Context(), "1", before))
			for i, want := range left {
				version := strconv.Itoa(1 + i)
				equal(t, len(countsOf(t, s, version, "")), want, "of version "+version)
			}
		}
		sweep(noon, 0, many, many, many)
		sweep(noon.Add(time.Millisecond), 2*many-2, many, 2, 0)
		sweep(noon.Add(time.Hour), 0, many, 2)
		sweep(noon.Add(time.Hour+time.Millisecond), 2, many, 0)
		sweep(noon.Add(1000*time.Hour), 0, many)
		for _, version := range []string{"", "\x00"} {
			if n, err := s.SweepCounts(t.Context(), version, noon.Add(1000*time.Hour)); n != 0 || err == nil {
				t.Errorf("SweepCounts but for %q = %d, %v", version, n, err)
			}
		}
		equal(t, len(countsOf(t, s, "1", "")), many, "what is left")
	})
}
