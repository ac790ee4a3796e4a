package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/partner"
)

// An Hour is what was counted of the calls of a partner in one hour, at one backend of the rollout.
type Hour struct {
	Partner partner.ID // full
	At      time.Time  // the start of the hour
	Backend int        // 0 for the old backend, 1 for the new one
	Sums
}

// Sums are numbers of calls. They can be added.
type Sums struct {
	Calls  int
	Failed int                  // of these, by the fault of the backend
	Took   [len(tookBounds)]int // of these, those that were sent, by how long they took: see Observe
}

// tookBounds are the upper bounds of the times in milliseconds, each the name of a column: ms10, ms30, and so on. They
// tell a backend that answers as usual from one that is several times slower, up to the longest timeouts.
var tookBounds = [...]int{10, 30, 100, 300, 1000, 3000, 10_000, 60_000}

// Observe counts a call: whether the backend was at fault, and how long it took, 0 if it was not sent. The time counts
// by the first bound that it does not exceed. One above the last bound counts as that.
func (s *Sums) Observe(failed bool, took time.Duration) {
	s.Calls++
	if failed {
		s.Failed++
	}
	if took > 0 {
		ms := int((took + time.Millisecond - 1) / time.Millisecond)
		i, _ := slices.BinarySearch(tookBounds[:len(tookBounds)-1], ms)
		s.Took[i]++
	}
}

// Add adds other sums.
func (s *Sums) Add(more Sums) {
	s.Calls += more.Calls
	s.Failed += more.Failed
	for i, n := range more.Took {
		s.Took[i] += n
	}
}

// P99 returns the time that 99 % of the calls that were sent do not exceed, 0 if none was sent. It is the bound of a
// bucket: the exact time is at most that, and at least about a third of it (for 10 ms any time below, for 60 s any time
// above 10 s).
func (s Sums) P99() time.Duration {
	all, seen := 0, 0
	for _, n := range s.Took {
		all += n
	}
	for i, n := range s.Took {
		if seen += n; all > 0 && 100*seen >= 99*all {
			return time.Duration(tookBounds[i]) * time.Millisecond
		}
	}
	return 0
}

// sumColumns are the columns of Sums, each in a format.
func sumColumns(format string) string {
	columns := fmt.Sprintf(format, "calls") + ", " + fmt.Sprintf(format, "failed")
	for _, ms := range tookBounds {
		columns += ", " + fmt.Sprintf(format, fmt.Sprint("ms", ms))
	}
	return columns
}

// hoursAtOnce is the most rows of one statement: with more, the driver of SQLite is slow, as it searches for the name
// of each argument, and there are more different statements.
const hoursAtOnce = 10

// AddHours adds to the hours of the store, in batches. Several replicas may add to the same hour at once, but one hour
// may be in more only once. AddHours sorts more. After an error more[:added] has been added, and more[added:] is to be
// added later, as with AddCounts.
func (s *Store) AddHours(ctx context.Context, more []Hour) (added int, err error) {
	slices.SortFunc(more, func(a, b Hour) int { // always in the same order, so that two replicas cannot deadlock
		return cmp.Or(cmp.Compare(a.Partner, b.Partner), a.At.Compare(b.At), cmp.Compare(a.Backend, b.Backend))
	})
	return inBatches(ctx, s, "adding hours", slices.Clone(more), func(q tx, batch []Hour) {
		for some := range slices.Chunk(batch, hoursAtOnce) {
			addHours(q, some)
		}
	})
}

func addHours(q tx, more []Hour) {
	var rows conditions
	for _, h := range more {
		q.fail(needs(h.Partner, h.At))
		values := []any{h.Partner, h.At, h.Backend, h.Calls, h.Failed}
		for _, n := range h.Took {
			values = append(values, n)
		}
		rows.add("(%s"+strings.Repeat(", %s", len(values)-1)+")", values...)
	}
	q.exec("INSERT INTO billbridge_hours AS was (partner, at, backend, "+sumColumns("%s")+") VALUES "+
		strings.Join(rows.all, ", ")+" ON CONFLICT (partner, at, backend) DO UPDATE SET "+
		sumColumns("%[1]s = was.%[1]s + excluded.%[1]s"), rows.args...)
}

// HoursOf returns the hours of a partner from one on, sorted by time and backend. Hours without calls are missing.
func (s *Store) HoursOf(ctx context.Context, partner partner.ID, since time.Time) ([]Hour, error) {
	return readAll[Hour](ctx, s, "reading hours", "SELECT partner, at, backend, "+sumColumns("%s")+
		" FROM billbridge_hours WHERE partner = $1 AND at >= $2 ORDER BY at, backend", partner, since)
}

// HoursIn returns the numbers of the calls of some partners that were seen, or of all of them if partners is nil, in
// the hours from one on.
func (s *Store) HoursIn(ctx context.Context, partners []partner.ID, since time.Time) (map[partner.ID]int, error) {
	where, args := s.amongst(partners, since)
	return read(ctx, s, "reading hours", func(q tx) map[partner.ID]int {
		return pairs[partner.ID, int](q, `
			SELECT partner, ( -- a partner at a time: the index begins with it
				SELECT CAST(coalesce(sum(calls), 0) AS BIGINT) FROM billbridge_hours h
				WHERE h.partner = s.partner AND h.at >= $1
			) FROM billbridge_seen s WHERE `+where, args...)
	})
}

// BackendSums returns the sums of the hours from one on at the old and the new backend.
func (s *Store) BackendSums(ctx context.Context, since time.Time) ([2]Sums, error) {
	of, err := read(ctx, s, "reading hours", func(q tx) map[int]Sums {
		return pairs[int, Sums](q, "SELECT backend, "+sumColumns("CAST(sum(%s) AS BIGINT)")+
			" FROM billbridge_hours WHERE at >= $1 GROUP BY backend", since)
	})
	return [2]Sums{of[0], of[1]}, err
}

// amongst returns a condition for some partners, or for all for nil, with the arguments of a query. The first one is a
// time.
func (s *Store) amongst(partners []partner.ID, since time.Time) (where string, args []any) {
	if partners == nil {
		return "true", []any{since}
	}
	return "partner IN " + fmt.Sprintf(s.each, "$2"), []any{since, texts(partners)}
}

// texts are one argument, for each.
func texts[T ~string](all []T) string {
	list, _ := json.Marshal(append([]T{}, all...)) // nil is no list
	return string(list)
}

// SweepHours removes the hours before a time, in batches as Sweep does, and returns their number.
func (s *Store) SweepHours(ctx context.Context, before time.Time) (n int, err error) {
	return s.sweep(ctx, `
		DELETE FROM billbridge_hours WHERE (partner, at, backend) IN (
			SELECT partner, at, backend FROM billbridge_hours WHERE at < $1 ORDER BY at`, before)
}
