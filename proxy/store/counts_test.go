package store_test

import (
	"bytes"
	"cmp"
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

// Counts returns what two replicas added, in order, by partner and version.
func TestCounts(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		first, second := replicas[0], replicas[1]
		equal(t, "at first", countsOf(t, first, "1", ""), nil)
		add(t, first, noon)
		equal(t, "of nothing", countsOf(t, first, "1", ""), nil)

		add(t, first, noon, counted("one", "read.b", "1"), counted("one", "read.a", "2"), counted("two", "list.d", "3"))
		// With a clock that is behind; a known row, a new one, and one twice.
		given := []store.Counts{counted("one", "read.b", "10"), counted("one", "list.c", "20"), counted("one", "list.c", "30")}
		add(t, second, noon.Add(-time.Minute), given...)
		equal(t, "what was given", []string{string(given[0].Data), string(given[1].Data), given[2].Operation}, []string{"20", "30", "read.b"}) // sorted
		if _, err := second.AddCounts(t.Context(), "2", []store.Counts{counted("one", "read.a", "\x00\xff")}, noon, nil); err != nil {
			t.Fatal(err)
		}

		ofOne := []store.Counts{
			counted("one", "list.c", "50"),
			counted("one", "read.a", "2"),
			counted("one", "read.b", "11"),
		}
		ofTwo := []store.Counts{counted("two", "list.d", "3")}
		all := slices.Concat(ofOne, ofTwo)
		slices.SortStableFunc(all, func(a, b store.Counts) int { return cmp.Compare(a.Partner, b.Partner) })
		for _, s := range replicas {
			equal(t, "of all", countsOf(t, s, "1", ""), all)
			equal(t, "of one", countsOf(t, s, "1", partner.Of("one")), ofOne)
			equal(t, "of two", countsOf(t, s, "1", partner.Of("two")), ofTwo)
			equal(t, "of nobody", countsOf(t, s, "1", partner.Of("nobody")), nil)
			equal(t, "of another version", countsOf(t, s, "2", ""), []store.Counts{counted("one", "read.a", "\x00\xff")})
			ofAny := slices.Insert(slices.Clone(all), slices.IndexFunc(all, func(c store.Counts) bool { return c.Operation == "read.a" })+1, counted("one", "read.a", "\x00\xff"))
			equal(t, "of any version", countsOf(t, s, "", ""), ofAny)
		}
	})
}

func TestCountsRefuses(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		change := func(do func(*store.Counts)) []store.Counts {
			c := counted("one", "read.a", "1")
			do(&c)
			return []store.Counts{counted("two", "read.a", "1"), c}
		}
		right := change(func(*store.Counts) {})
		for name, row := range map[string]struct {
			version string
			more    []store.Counts
			at      time.Time
		}{
			"no version":        {"", right, noon},
			"a zero version":    {"\x00", right, noon},
			"no time":           {"1", right, time.Time{}},
			"nobody":            {"1", change(func(c *store.Counts) { c.Partner = "" }), noon},
			"a short hash":      {"1", change(func(c *store.Counts) { c.Partner = c.Partner[:12] }), noon},
			"capital letters":   {"1", change(func(c *store.Counts) { c.Partner = upper(c.Partner) }), noon},
			"no operation":      {"1", change(func(c *store.Counts) { c.Operation = "" }), noon},
			"a wrong operation": {"1", change(func(c *store.Counts) { c.Operation = "\xff" }), noon},
			"no data":           {"1", change(func(c *store.Counts) { c.Data = []byte{} }), noon},
		} {
			if added, err := s.AddCounts(t.Context(), row.version, row.more, row.at, sum); added != 0 || err == nil || !strings.HasPrefix(err.Error(), "store: ") {
				t.Errorf("%s: %v", name, err)
			}
		}
		equal(t, "what was added", countsOf(t, s, "1", ""), nil)
		if _, err := s.CountsIn(t.Context(), "\x00", store.AllPartners); err == nil {
			t.Error("a zero version: no error")
		}
	})
}

// If a merge fails, no counts of its batch are added, but those of earlier batches are. The caller learns how many, and can add the
// rest later, so that all count once.
func TestMergeFails(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
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
		equal(t, "added", added, 10)
		for i, c := range countsOf(t, s, "1", "") {
			want := "1"
			if i < 10 {
				want = "2"
			}
			equal(t, c.Operation, string(c.Data), want)
		}
		add(t, s, noon, one[added:]...)
		for _, c := range countsOf(t, s, "1", "") {
			equal(t, c.Operation, string(c.Data), "2")
		}
	})
}

// No counts are lost when many callers of two replicas add to the same rows at the same time, in any order.
func TestConcurrentCountsAreAllAdded(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
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
		equal(t, "operations", len(all), operations)
		for operation, c := range all {
			equal(t, c.Operation, string(c.Data), strconv.Itoa(adders*rounds*(1+operation)))
		}
	})
}

// A reset removes the counts of all versions, and the audit log has the partner and the operator.
func TestResetCounts(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		s, one, two := replicas[0], partner.Of("one"), partner.Of("two")
		fill := func() {
			t.Helper()
			for _, version := range []string{"1", "2"} {
				more := []store.Counts{counted("one", "read.a", "1"), counted("one", "list.b", "1"), counted("two", "read.a", "1")}
				if _, err := s.AddCounts(t.Context(), version, more, noon, sum); err != nil {
					t.Fatal(err)
				}
			}
		}
		left := func(ofOne, ofTwo int) {
			t.Helper()
			for _, version := range []string{"1", "2"} {
				equal(t, "of one", len(countsOf(t, replicas[1], version, one)), ofOne)
				equal(t, "of two", len(countsOf(t, replicas[1], version, two)), ofTwo)
			}
		}
		fill()
		for name, err := range map[string]error{
			"a short hash": s.ResetCounts(t.Context(), one[:12], "anna", noon),
			"nobody":       s.ResetCounts(t.Context(), one, "", noon),
			"no time":      s.ResetCounts(t.Context(), "", "anna", time.Time{}),
		} {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		left(2, 1)
		equal(t, "the log", audit(t, s, 10), nil)
		equal(t, "the rollout", rolloutOf(t, s), store.Rollout{})

		var log []store.Change
		revision := int64(0)
		for i, who := range []partner.ID{one, "", two, ""} { // the last one finds nothing
			at := noon.Add(time.Duration(i) * time.Minute)
			must(t, s.ResetCounts(t.Context(), who, "anna", at))
			log = slices.Insert(log, 0, store.Change{Action: store.Reset, By: "anna", At: at, Partner: who})
			equal(t, "the log", audit(t, replicas[1], 10), log)
			was := revision
			if revision = rolloutOf(t, replicas[1]).Revision; revision <= was {
				t.Errorf("the revision went from %d to %d", was, revision)
			}
			switch i {
			case 0:
				left(0, 1)
			case 1:
				left(0, 0)
				fill()
			case 2:
				left(2, 0)
			case 3:
				left(0, 0)
			}
		}
	})
}

// Counts of other versions are removed when they have not changed for long; those of this version stay.
func TestOldCountsAreRemoved(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
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
			if n, err := s.SweepCounts(t.Context(), []string{"1"}, before); n != want || err != nil {
				t.Errorf("SweepCounts before %s = %d, %v, want %d", before, n, err, want)
			}
			for i, want := range left {
				version := strconv.Itoa(1 + i)
				equal(t, "of version "+version, len(countsOf(t, s, version, "")), want)
			}
		}
		sweep(noon, 0, many, many, many)
		sweep(noon.Add(time.Millisecond), 2*many-2, many, 2, 0)
		sweep(noon.Add(time.Hour), 0, many, 2)
		sweep(noon.Add(time.Hour+time.Millisecond), 2, many, 0)
		sweep(noon.Add(1000*time.Hour), 0, many)
		for _, version := range []string{"", "\x00"} {
			if n, err := s.SweepCounts(t.Context(), []string{version}, noon.Add(1000*time.Hour)); n != 0 || err == nil {
				t.Errorf("SweepCounts but for %q = %d, %v", version, n, err)
			}
		}
		equal(t, "what is left", len(countsOf(t, s, "1", "")), many)
	})
}

// A mark stays when counts without one are added, and ends with the counts.
func TestMarkedCounts(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		sum := func(have, more []byte) ([]byte, error) { return append(bytes.Clone(have), more...), nil }
		for _, c := range []store.Counts{
			{Partner: partner.Of("a"), Operation: "bill.create", Data: []byte("1")},
			{Partner: partner.Of("b"), Operation: "bill.create", Data: []byte("2"), Marked: true},
			{Partner: partner.Of("b"), Operation: "bill.create", Data: []byte("3")},
			{Partner: partner.Of("b"), Operation: "bill.read", Data: []byte("4")},
			{Partner: partner.Of("c"), Operation: "bill.read", Data: []byte("5")},
			{Partner: partner.Of("c"), Operation: "bill.read", Data: []byte("6"), Marked: true},
		} {
			if _, err := s.AddCounts(t.Context(), "table", []store.Counts{c}, noon, sum); err != nil {
				t.Fatal(err)
			}
		}
		want := []store.Counts{
			{Partner: partner.Of("b"), Operation: "bill.create", Data: []byte("23"), Marked: true},
			{Partner: partner.Of("c"), Operation: "bill.read", Data: []byte("56"), Marked: true},
		}
		slices.SortFunc(want, func(a, b store.Counts) int { return strings.Compare(string(a.Partner), string(b.Partner)) })
		marked := func() []store.Counts {
			found, err := s.MarkedCounts(t.Context())
			must(t, err)
			return found
		}
		equal(t, "marked", marked(), want)
		must(t, s.ResetCounts(t.Context(), "", "anna", noon))
		equal(t, "marked after the reset", len(marked()), 0)
	})
}

// After an upgrade the kill switch knows the calls that were counted before.
func TestMigratesMarkedCounts(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		s, err := store.Open(t.Context(), url)
		must(t, err)
		for name, data := range map[string]string{ // as package evidence writes them
			"none": `{"fields":null,"sides":[{"number":2,"codes":{"0000":2},"mismatched":null,"lacks":null},{"number":0,"codes":null,"mismatched":null,"lacks":null}]}`,
			"some": `{"fields":null,"sides":[{"number":2,"codes":{"0000":2},"mismatched":null,"lacks":null},{"number":0,"lacks":{"VALIDATION_001 bill.price":{"count":1,"last":"2026-11-23T06:00:00Z"}}}]}`,
		} {
			if _, err := s.AddCounts(t.Context(), "table", []store.Counts{{Partner: partner.Of(name), Operation: "bill.create", Data: []byte(data)}}, noon, nil); err != nil {
				t.Fatal(err)
			}
		}
		must(t, s.Close())
		db := raw(t, url)
		backToVersion5(t, db)
		must(t, db.Close())
		found, err := open(t, url).MarkedCounts(t.Context())
		must(t, err)
		var partners []partner.ID
		for _, c := range found {
			partners = append(partners, c.Partner)
		}
		equal(t, "marked", partners, []partner.ID{partner.Of("some")})
	})
}
