package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/partner"
)

// Counts are the counts of all replicas for one partner and operation. Only the caller interprets Data.
type Counts struct {
	Partner   partner.ID // full
	Operation string
	Data      []byte    // never empty
	Marked    bool      // the mark stays until the counts are removed
	Added     time.Time // when counts were added for the last time; AddCounts takes its own
}

// countsAtOnce is the most counts that one transaction adds: each is read and merged in it, and creates wait meanwhile.
const countsAtOnce = 100

// AddCounts adds what was counted by a version of the table, or of a part of it. New counts are stored as they are;
// for stored ones, Data becomes merge(have, more). Several replicas may add to the same counts at once.
//
// merge must be pure: it must not change or keep its arguments. A transaction may run again, so that merge is called
// again, and may still run after ctx has ended and AddCounts has returned.
//
// AddCounts sorts more by partner and operation and adds it in batches. After an error more[:added] has been added, and
// more[added:] is to be added later. After an error during a commit, the next batch may have been added, too, and is
// then counted twice.
func (s *Store) AddCounts(
	ctx context.Context, version string, more []Counts, at time.Time, merge func(have, more []byte) ([]byte, error),
) (added int, err error) {
	if version == "" {
		return 0, errors.New("store: counts need the version of their table")
	}
	// Always in the same order, so that two replicas that add to the same rows cannot deadlock. The caller's own
	// slice is sorted, so that more[added:] means the same to it.
	slices.SortStableFunc(more, func(a, b Counts) int {
		return cmp.Or(cmp.Compare(a.Partner, b.Partner), strings.Compare(a.Operation, b.Operation))
	})
	more = slices.Clone(more) // and each Data: they must not change while the writer reads them
	for i, c := range more {
		if err := needs(c.Partner, at, c.Operation, string(c.Data)); err != nil {
			return 0, err
		}
		more[i].Data = bytes.Clone(c.Data)
	}
	for batch := range slices.Chunk(more, min(s.batch, countsAtOnce)) {
		if err := s.update(ctx, "adding counts", func(q tx) {
			s.lock(q, shared, counts)
			for _, c := range batch {
				addCounts(q, version, c, at, merge)
			}
		}); err != nil {
			return added, err
		}
		added += len(batch)
	}
	return added, nil
}

// counts is the key of the lock that AddCounts takes shared and [Reset] exclusively: a reset removes rows in any
// order, so that without it the two could deadlock.
const counts = "counts"

func addCounts(q tx, version string, more Counts, at time.Time, merge func(have, more []byte) ([]byte, error)) {
	// This locks the row, or makes it without data. In one statement: between two, a sweep might remove the row.
	have := value[[]byte](q, `
		INSERT INTO billbridge_counts AS was (version, partner, operation, data, added, marked)
		VALUES ($1, `+ofPartner("$2")+`, $3, $4, $5, $6)
		ON CONFLICT (version, partner, operation) DO UPDATE SET
			marked = CASE was.marked WHEN 1 THEN 1 ELSE excluded.marked END,
			added = CASE WHEN was.added < excluded.added THEN excluded.added ELSE was.added END
		RETURNING data`, version, more.Partner, more.Operation, []byte{}, at, more.Marked)
	data := more.Data
	if len(have) > 0 {
		merged, err := merge(have, data)
		if data = merged; err == nil && len(data) == 0 {
			err = errors.New("merged, nothing is left of it")
		}
		if err != nil {
			q.fail(fmt.Errorf("%s: %w", more.Operation, err))
		}
	}
	q.exec(`
		UPDATE billbridge_counts SET data = $4 WHERE version = $1 AND partner = `+ofPartner("$2")+` AND operation = $3`,
		version, more.Partner, more.Operation, data)
}

// A CountsFilter selects counts. A field with its zero value excludes none.
type CountsFilter struct {
	Version string // of the table
	Of      []partner.ID
	Marked  bool
}

// Counts returns what was counted, sorted by partner and operation. It reads no other counts.
func (s *Store) Counts(ctx context.Context, f CountsFilter) ([]Counts, error) {
	var c conditions
	if c.given("version = %s", f.Version); f.Of != nil {
		c.add("partner "+s.each, texts(f.Of))
	}
	if f.Marked {
		c.add("marked = 1")
	}
	return readAll[Counts](ctx, s.db, "reading counts", "SELECT partner, operation, data, marked, added "+
		"FROM billbridge_counts WHERE "+c.String()+" ORDER BY partner, operation, version", c.args...)
}

// SweepCounts removes the counts of all other versions that were last added to before a time, and
// returns the number of rows removed. Replicas do not get a new version at the same moment, and a version
// may be rolled back: before must be long enough ago for both.
func (s *Store) SweepCounts(ctx context.Context, version string, before time.Time) (n int, err error) {
	if version == "" || columnValues([]any{version}) != nil {
		return 0, errors.New("store: a sweep of counts needs the version whose counts stay")
	}
	for last := ""; ; {
		all, err := readAll[string](ctx, s.db, "finding versions of counts",
			"SELECT version FROM billbridge_counts WHERE version > $1 ORDER BY version LIMIT 1", last)
		if err != nil || len(all) == 0 {
			return n, err
		}
		if last = all[0]; last == version {
			continue
		}
		removed, err := write(ctx, s.db, "sweeping", func(q tx) int64 {
			return q.exec("DELETE FROM billbridge_counts WHERE version = $1 AND added < $2", last, before)
		})
		if n += int(removed); err != nil {
			return n, err
		}
	}
}

// texts are one argument, for each or seqs.
func texts[T any](all []T) string {
	list, _ := json.Marshal(append([]T{}, all...)) // nil is no list
	return string(list)
}
