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

func countsOf(t testing.TB, s *store.Store, version string, of ...partner.ID) []store.Counts {
	t.Helper()
	all, err := s.Counts(t.Context(), store.CountsFilter{Version: version, Of: of})
	must(t, err)
	return all
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
		for i, c := range countsOf(t, s, "1") {
			want := "1"
			if i < 10 {
				want = "2"
			}
			equal(t, string(c.Data), want, c.Operation)
		}
		add(t, s, noon, one[added:]...)
		for _, c := range countsOf(t, s, "1") {
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
		all := countsOf(t, replicas[0], "1")
		equal(t, len(all), operations, "operations")
		for operation, c := range all {
			equal(t, string(c.Data), strconv.Itoa(adders*rounds*(1+operation)), c.Operation)
		}
	})
}
