package store

import (
	"cmp"
	"context"
	"fmt"
	"iter"
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
	Failed int              // of these, by the fault of the backend
	Took   [len(tookBounds)]int // of these, those that were sent, by how long they took: see Observe
}

// tookBounds are the upper bounds of the times in milliseconds, each the name of a column: ms5, ms7, and so on.
var tookBounds = [...]int{
	5, 7, 10, 15, 22, 33, 47, 68, 100, 150, 220, 330, 470, 680,
	1000, 1500, 2200, 3300, 4700, 6800, 10_000, 15_000, 22_000, 33_000, 47_000, 68_000,
}

// Observe counts the time that a call took, by the first bound that it does not exceed. One above the last bound
// counts as that.
func (s *Sums) Observe(took time.Duration) {
	for i, ms := range tookBounds {
		if took <= time.Duration(ms)*time.Millisecond || i == len(tookBounds)-1 {
			s.Took[i]++
			return
		}
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
// bucket: the exact time is lower by less than a third (for 5 ms any time below, for 68 s any time above).
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

// sumColumns are the columns of Sums, in its order.
var sumColumns = func() []string {
	columns := []string{"calls", "failed"}
	for _, ms := range tookBounds {
		columns = append(columns, fmt.Sprint("ms", ms))
	}
	return columns
}()

// hoursAtOnce is the number of rows, or of partners, of one statement. What is left is added row by row, so that there
// are few different statements.
const hoursAtOnce = 50

// AddHours adds to the hours of the store, in batches. Several replicas may add to the same hour at once, but one hour
// may be in more only once. AddHours sorts more. After an error more[:added] has been added, and more[added:] is to be
// added later, as with AddCounts.
func (s *Store) AddHours(ctx context.Context, more []Hour) (added int, err error) {
	slices.SortFunc(more, func(a, b Hour) int { // always in the same order, so that two replicas cannot deadlock
		return cmp.Or(cmp.Compare(a.Partner, b.Partner), a.At.Compare(b.At), cmp.Compare(a.Backend, b.Backend))
	})
	for batch := range slices.Chunk(slices.Clone(more), s.batch) {
		if err := s.update(ctx, "adding hours", func(q tx) {
			for left := batch; len(left) > 0; {
				n := hoursAtOnce
				if len(left) < n {
					n = 1
				}
				addHours(q, left[:n])
				left = left[n:]
			}
		}); err != nil {
			return added, err
		}
		added += len(batch)
	}
	return added, nil
}

func addHours(q tx, more []Hour) {
	var args []any
	rows, sets := make([]string, len(more)), make([]string, len(sumColumns))
	for i, h := range more {
		q.fail(needs(h.Partner, h.At))
		first := len(args)
		args = append(args, h.Partner, h.At, h.Backend, h.Calls, h.Failed)
		for _, n := range h.Took {
			args = append(args, n)
		}
		for at := first; at < len(args); at++ {
			rows[i] += fmt.Sprintf(", $%d", at+1)
		}
		rows[i] = "(" + rows[i][2:] + ")"
	}
	for i, column := range sumColumns {
		sets[i] = fmt.Sprintf("%[1]s = was.%[1]s + excluded.%[1]s", column)
	}
	q.exec("INSERT INTO billbridge_hours AS was (partner, at, backend, "+strings.Join(sumColumns, ", ")+") VALUES "+
		strings.Join(rows, ", ")+" ON CONFLICT (partner, at, backend) DO UPDATE SET "+strings.Join(sets, ", "), args...)
}

// HoursOf returns the hours of a partner from one on, sorted by time and backend. Hours without calls are missing.
func (s *Store) HoursOf(ctx context.Context, partner partner.ID, since time.Time) ([]Hour, error) {
	return read(ctx, s, "reading hours", func(q tx) []Hour {
		return list[Hour](q, "SELECT partner, at, backend, "+strings.Join(sumColumns, ", ")+
			" FROM billbridge_hours WHERE partner = $1 AND at >= $2 ORDER BY at, backend", partner, since)
	})
}

// HoursIn returns the numbers of the calls of some partners that were seen, or of all of them if partners is nil, in
// the hours from one on.
func (s *Store) HoursIn(ctx context.Context, partners []partner.ID, since time.Time) (map[partner.ID]int, error) {
	type sum struct {
		Partner partner.ID
		Calls   int
	}
	all, err := read(ctx, s, "reading hours", func(q tx) (all []sum) {
		for where, args := range amongst(partners, since) { // a partner at a time: the index begins with it
			all = append(all, list[sum](q, `
				SELECT partner, (
					SELECT CAST(coalesce(sum(calls), 0) AS BIGINT) FROM billbridge_hours h
					WHERE h.partner = s.partner AND h.at >= $1
				) FROM billbridge_seen s WHERE `+where, args...)...)
		}
		return all
	})
	calls := make(map[partner.ID]int, len(all))
	for _, one := range all {
		calls[one.Partner] = one.Calls
	}
	return calls, err
}

// BackendSums returns the sums of the hours from one on at the old and the new backend, of some partners, or of all if
// partners is nil.
func (s *Store) BackendSums(ctx context.Context, partners []partner.ID, since time.Time) (sums [2]Sums, err error) {
	type sum struct {
		Backend int
		Sums
	}
	query := "SELECT backend"
	for _, column := range sumColumns {
		query += ", CAST(sum(" + column + ") AS BIGINT)"
	}
	found, err := read(ctx, s, "reading hours", func(q tx) (found []sum) {
		for where, args := range amongst(partners, since) {
			found = append(found, list[sum](q,
				query+" FROM billbridge_hours WHERE at >= $1 AND "+where+" GROUP BY backend", args...)...)
		}
		return found
	})
	for _, one := range found {
		sums[one.Backend].Add(one.Sums)
	}
	return sums, err
}

// amongst returns conditions, each for some of the partners, with the arguments of a query whose first one is a time.
// All have the same text, so that the query is one statement. For nil there is one condition, for all partners.
func amongst(partners []partner.ID, since time.Time) iter.Seq2[string, []any] {
	return func(yield func(string, []any) bool) {
		if partners == nil {
			yield("true", []any{since})
			return
		}
		for some := range slices.Chunk(partners, hoursAtOnce) {
			in, args := make([]string, hoursAtOnce), []any{since}
			for i := range in {
				in[i], args = fmt.Sprint("$", i+2), append(args, some[min(i, len(some)-1)])
			}
			if !yield("partner IN ("+strings.Join(in, ", ")+")", args) {
				return
			}
		}
	}
}

// SweepHours removes the hours before a time, in batches as Sweep does, and returns their number.
func (s *Store) SweepHours(ctx context.Context, before time.Time) (n int, err error) {
	return s.sweep(ctx, `
		DELETE FROM billbridge_hours WHERE (partner, at, backend) IN (
			SELECT partner, at, backend FROM billbridge_hours WHERE at < $1 ORDER BY at`, before)
}
