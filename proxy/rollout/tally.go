package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// What a tally keeps, so that partners cannot make it grow: counts of so many partners and operations, and so many
// fields of each. A count whose place is taken is lost, and that is counted.
const (
	maxCounts = 4096
	maxFields = 64
)

// A Tally counts comparisons by partner and operation, for the verdict. Each replica has its own, in memory; what a
// snapshot of it says is merged with those of the others. It is safe for concurrent use.
type Tally struct {
	now func() time.Time
	mu  sync.Mutex
	all Snapshot
}

// A Snapshot is what a tally has counted. It is JSON, to be kept. It names no bill and no key.
type Snapshot struct {
	Table  string    `json:"table"` // the version of the table that the comparisons went by
	Since  time.Time `json:"since"`
	Counts []Count   `json:"counts"` // by partner, then operation
	Lost   int       `json:"lost"`   // comparisons for which there was no place

	index map[[2]string]int
}

// A Count is what was counted for one partner and operation.
type Count struct {
	Partner   string `json:"partner"` // the full SHA-256 of the key, in hex
	Operation string `json:"operation"`

	Compared int `json:"compared"` // both sides answered, one at least with a success: what a verdict rests on
	Differed int `json:"differed"` // of these, with a confirmed difference
	Refused  int `json:"refused"`  // both sides failed alike: it shows nothing of what an answer holds
	NotThere int `json:"not_there"`
	Moved    int `json:"moved"`
	Unclear  int `json:"unclear"`

	Bills  Bills            `json:"bills"`  // distinct ones of those compared
	Fields map[string]Field `json:"fields"` // by their paths: confirmed differences
}

// A Field is what was counted of one field that differs.
type Field struct {
	Kind   Kind   `json:"kind"`
	Count  int    `json:"count"`
	First  string `json:"first"` // an example, masked
	Second string `json:"second"`
}

// NewTally begins to count, by a version of the table. If now is nil, it is time.Now.
func NewTally(table string, now func() time.Time) *Tally {
	if now == nil {
		now = time.Now
	}
	t := &Tally{now: now}
	t.begin(table)
	return t
}

func (t *Tally) begin(table string) {
	t.all = Snapshot{Table: table, Since: t.now().UTC().Truncate(time.Second), index: map[[2]string]int{}}
}

// Use begins anew if the version of the table is another: what was counted by one shows nothing of the other.
func (t *Tally) Use(table string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if table != t.all.Table {
		t.begin(table)
	}
}

// Reset begins anew.
func (t *Tally) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin(t.all.Table)
}

// Add counts one comparison of a call of a partner.
func (t *Tally) Add(partner, operation string, c Comparison) {
	t.mu.Lock()
	defer t.mu.Unlock()
	succeeded := c.Succeeded[0] || c.Succeeded[1]
	// Who was never answered with a success may be nobody: invented keys must not take the places of partners.
	n := t.all.count(partner, operation, succeeded)
	if n == nil {
		if succeeded {
			t.all.Lost++
		}
		return
	}
	switch c.Class {
	case Same, Differs:
		if !succeeded && c.Class == Same {
			n.Refused++
			return
		}
		n.Compared++
		if c.Bill != "" {
			n.Bills.add(c.Bill)
		}
	case NotThere:
		n.NotThere++
	case Moved:
		n.Moved++
	case NoAnswer:
		n.Unclear++
	}
	if c.Class == Differs {
		n.Differed++
		for _, d := range c.Differences {
			n.field(d.Path, Field{d.Kind, 1, d.First, d.Second})
		}
	}
}

// count is the place of a partner and operation, nil where there is none and none is made.
func (s *Snapshot) count(partner, operation string, open bool) *Count {
	at := [2]string{partner, operation}
	i, ok := s.index[at]
	switch {
	case ok:
		return &s.Counts[i]
	case !open || len(s.Counts) >= maxCounts:
		return nil
	}
	s.index[at] = len(s.Counts)
	s.Counts = append(s.Counts, Count{Partner: partner, Operation: operation, Fields: map[string]Field{}})
	return &s.Counts[len(s.Counts)-1]
}

// field counts a field. A grave one always has its place: the verdict rests on it, and the table has but a few.
func (n *Count) field(path string, f Field) {
	known, ok := n.Fields[path]
	switch {
	case ok:
		known.Count += f.Count
		if f.Kind.Grave() {
			known.Kind = f.Kind
		}
		n.Fields[path] = known
	case len(n.Fields) < maxFields || f.Kind.Grave():
		n.Fields[path] = f
	}
}

// Snapshot is what has been counted up to now.
func (t *Tally) Snapshot() Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.all
	s.index = nil
	s.Counts = slices.Clone(s.Counts)
	for i := range s.Counts {
		s.Counts[i].Fields = maps.Clone(s.Counts[i].Fields)
		s.Counts[i].Bills.Least = slices.Clone(s.Counts[i].Bills.Least)
	}
	slices.SortFunc(s.Counts, func(a, b Count) int {
		return cmp.Or(strings.Compare(a.Partner, b.Partner), strings.Compare(a.Operation, b.Operation))
	})
	return s
}

// Merge adds what another replica counted, or this one before it was started again. Each snapshot may be added once: it
// does not say which comparisons it is made of. What went by another version of the table is refused.
func (t *Tally) Merge(s Snapshot) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.Table != t.all.Table {
		return fmt.Errorf("counted by version %q of the table, not %q", s.Table, t.all.Table)
	}
	if s.Since.Before(t.all.Since) {
		t.all.Since = s.Since
	}
	t.all.Lost += s.Lost
	for _, more := range s.Counts {
		n := t.all.count(more.Partner, more.Operation, true)
		if n == nil {
			t.all.Lost += more.Compared
			continue
		}
		n.Compared += more.Compared
		n.Differed += more.Differed
		n.Refused += more.Refused
		n.NotThere += more.NotThere
		n.Moved += more.Moved
		n.Unclear += more.Unclear
		for _, hash := range more.Bills.Least {
			n.Bills.addHash(hash)
		}
		for _, path := range slices.Sorted(maps.Keys(more.Fields)) {
			n.field(path, more.Fields[path])
		}
	}
	return nil
}

// Bills count distinct bills in a place of fixed size: the least hashes of those seen. Up to maxHashes of them the
// number is exact; beyond, how close together they lie tells about how many there are, to some six in a hundred. Merged,
// two of them are what one would be that had seen all.
type Bills struct {
	Least []uint64 `json:"least"` // ascending
}

const maxHashes = 256

func (b *Bills) add(bill string) {
	sum := sha256.Sum256([]byte(bill))
	b.addHash(binary.BigEndian.Uint64(sum[:8]))
}

func (b *Bills) addHash(hash uint64) {
	at, known := slices.BinarySearch(b.Least, hash)
	if known || at == maxHashes {
		return
	}
	b.Least = slices.Insert(b.Least, at, hash)
	b.Least = b.Least[:min(len(b.Least), maxHashes)]
}

// Number is how many there are.
func (b Bills) Number() int {
	if len(b.Least) < maxHashes {
		return len(b.Least)
	}
	return int((maxHashes - 1) / (float64(b.Least[maxHashes-1]) / (1 << 64)))
}
