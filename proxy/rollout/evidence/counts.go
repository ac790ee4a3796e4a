// Package evidence compares the answers of the two backends of a rollout, counts the results, and gives verdicts.
//
//	counts := evidence.NewCounts(tableVersion, time.Now)
//	shadow := evidence.NewShadow(limits, counts, registry, logger)
//	shadow.Offer(read) // a read that one backend answered: the other one is called, too
//	verdicts := evidence.Verdicts(counts.Snapshot(), limits) // of each partner and operation
//
// It makes no decision: package rollout uses the verdicts before a partner moves.
package evidence

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"billbridge/proxy/partner"
	"billbridge/translate/billing"
)

// The limits of Counts, so that partners cannot make them grow. What exceeds them is lost, and the losses are counted.
const (
	maxCounts = 4096    // partners and operations
	maxKnown  = 1 << 16 // partners that are known to exist
)

// Counts are what was counted of calls and comparisons, by partner and operation, for the verdicts. Each replica has
// its own in memory and merges snapshots of them into the store. They are safe for concurrent use.
type Counts struct {
	now func() time.Time

	mu     sync.Mutex
	table  string // the version of the table in the comparisons
	since  time.Time
	all    countSet
	lost   int                 // comparisons over the limit
	proved map[partner.ID]bool // partners that exist: they were seen, or a call of them succeeded
}

// A Snapshot is what Counts have counted, to be stored as JSON. It contains no keys, and
// only the bills of examples.
type Snapshot struct {
	Table  string    `json:"table"`
	Since  time.Time `json:"since"`
	Counts []Count   `json:"counts"` // by partner, then operation
	Lost   int       `json:"lost"`
	Unread []Unread  `json:"-"` // in the same order: what there is of these is not all
}

// An Unread is a count in the store that cannot be read.
type Unread struct {
	Partner   partner.ID
	Operation string
	Err       error
}

// Missing returns why counts of the partners that are meant are missing, nil if none are.
func (s Snapshot) Missing(meant func(partner.ID) bool) error {
	for _, one := range s.Unread {
		if meant(one.Partner) {
			return one.Err
		}
	}
	return nil
}

// A countSet has a count for each partner and operation.
type countSet map[place]*Count

// A place is the key of a count.
type place struct {
	partner   partner.ID
	operation string
}

// merge adds a count.
func (t countSet) merge(more Count) {
	at := place{more.Partner, more.Operation}
	if t[at] == nil {
		t[at] = &Count{Partner: more.Partner, Operation: more.Operation, Since: more.Since, Fields: map[string]Field{}}
	}
	t[at].merge(more)
}

// sorted returns the counts by partner, then operation.
func (t countSet) sorted() []Count {
	all := make([]Count, 0, len(t))
	for _, n := range t {
		all = append(all, *n)
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Partner, b.Partner), strings.Compare(a.Operation, b.Operation))
	})
	return all
}

// An End is how a call of a partner ended.
type End struct {
	// In the catalogue's form, "other" if it is not in the catalogue, "none" if there is none; "" if the backend was
	// not called.
	Code string

	Succeeded   bool
	Creates     bool      // it creates a bill
	Mismatched  []string  // fields of the reply that are missing, or have another than their documented type
	Unsupported [2]string // by backend: why its form cannot carry the call if the other's can, as code and field
}

// NewCounts returns empty Counts for a version of the table.
func NewCounts(table string, now func() time.Time) *Counts {
	t := &Counts{now: now, proved: map[partner.ID]bool{}}
	t.begin(table)
	return t
}

func (t *Counts) begin(table string) {
	t.table, t.since, t.all, t.lost = table, t.moment(), countSet{}, 0
}

// moment is the current time as snapshots have it.
func (t *Counts) moment() time.Time { return t.now().UTC().Truncate(time.Second) }

// Use starts the counts again if the version of the table has changed: counts with one version do not count for
// another. It returns what was counted with the one before.
func (t *Counts) Use(table string) (before Snapshot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if table != t.table {
		before = Snapshot{t.table, t.since, t.all.sorted(), t.lost, nil}
		t.begin(table)
	}
	return before
}

// Table is the version of the table.
func (t *Counts) Table() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.table
}

// Forget removes the counts of a partner, or of all for "", that were not drained yet.
func (t *Counts) Forget(partner partner.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.all, func(at place, _ *Count) bool { return partner == "" || at.partner == partner })
}

// Snapshot returns a copy of what has been counted.
func (t *Counts) Snapshot() Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	copied := countSet{}
	for _, n := range t.all {
		copied.merge(*n)
	}
	return Snapshot{t.table, t.since, copied.sorted(), t.lost, nil}
}

// Drain returns the counts and starts them again.
func (t *Counts) Drain() Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := Snapshot{t.table, t.since, t.all.sorted(), t.lost, nil}
	t.begin(t.table)
	return all
}

// Know records that a partner exists, so that its calls count also without a success.
func (t *Counts) Know(partner partner.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.know(partner)
}

func (t *Counts) know(partner partner.ID) {
	if len(t.proved) < maxKnown {
		t.proved[partner] = true
	}
}

// count is the count of a partner and operation, nil over the limit. A partner without a success may not exist:
// invented keys must not use up the limit.
func (t *Counts) count(partner partner.ID, operation string, succeeded bool) *Count {
	if succeeded {
		t.know(partner)
	}
	if partner == "" || !succeeded && !t.proved[partner] {
		return nil
	}
	at := place{partner, operation}
	if t.all[at] == nil {
		if len(t.all) >= maxCounts {
			t.lost++
			return nil
		}
		t.all.merge(Count{Partner: partner, Operation: operation, Since: t.moment()})
	}
	return t.all[at]
}

// Add counts one comparison. Its first answer is the old backend's.
func (t *Counts) Add(partner partner.ID, operation string, c Comparison) {
	t.mu.Lock()
	defer t.mu.Unlock()
	succeeded := c.Succeeded[0] || c.Succeeded[1]
	n := t.count(partner, operation, succeeded)
	if n == nil {
		return
	}
	n.Creates = n.Creates || c.ReadBack
	switch c.Class {
	case Same, Differs:
		if !succeeded && c.Class == Same {
			n.Refused++
			return
		}
		if n.Compared++; c.Bill != "" {
			n.Bills.add(c.Bill)
		}
		if n.States = n.States || c.States; c.Paid && c.Bill != "" {
			n.Paid.add(c.Bill)
		}
	case NotThere:
		n.NotThere++
		if c.Succeeded[Old] && !c.Succeeded[New] {
			n.OldOnly++
		}
	case Moved:
		n.Moved++
	case NoAnswer:
		n.Unclear++
	}
	if c.Class == Differs {
		n.Differed++
		for _, d := range c.Differences {
			n.field(d.Path, Field{
				d.Kind, 1, d.First, d.Second, billing.MaskBill(c.Bill),
				c.Request, c.At.UTC().Truncate(time.Millisecond),
			})
		}
	}
}

// Ended counts one call of a partner that went to a backend.
func (t *Counts) Ended(partner partner.ID, operation string, backend Backend, end End) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.count(partner, operation, end.Succeeded)
	if n == nil {
		return
	}
	n.Creates = n.Creates || end.Creates
	if end.Creates && end.Succeeded {
		created := [2]int{}
		created[backend] = 1
		n.Recent.add(slotOf(t.now()), created)
	}
	at := &n.Backends[backend]
	if end.Code != "" { // otherwise the gateway refused the call
		at.Number++
		add(&at.Codes, end.Code, 1)
	}
	for _, field := range end.Mismatched {
		add(&at.Mismatched, field, 1)
	}
	for backend, why := range end.Unsupported {
		if why != "" {
			n.Backends[backend].addUnsupported(why, Unsupported{1, t.moment()})
		}
	}
}

// Merge adds a snapshot of other Counts. Each snapshot may be merged only once, as nothing identifies its
// comparisons. A snapshot of another version of the table is refused.
func (t *Counts) Merge(s Snapshot) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.Table != t.table {
		return fmt.Errorf("counted by version %q of the table, not %q", s.Table, t.table)
	}
	if s.Since.Before(t.since) {
		t.since = s.Since
	}
	t.lost += s.Lost
	for _, more := range s.Counts {
		if len(t.all) >= maxCounts && t.all[place{more.Partner, more.Operation}] == nil {
			t.lost += more.Compared
			continue
		}
		t.all.merge(more)
	}
	return nil
}
