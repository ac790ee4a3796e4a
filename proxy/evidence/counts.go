// Package evidence compares the answers of the two backends of a rollout, counts the results, and gives verdicts.
//
//	counts := evidence.NewCounts(tableVersion, time.Now)
//	shadow := evidence.NewShadow(limits, counts, registry, logger)
//	shadow.Offer(read) // a read that one backend answered: the other one is called, too
//	verdicts := evidence.Verdicts(counts.Snapshot(), limits) // of each partner and operation
//
// It makes no decision: package moves uses the verdicts before a partner moves.
package evidence

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"billbridge/proxy/partner"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// The limits of Counts, so that partners cannot make them grow. What exceeds them is lost.
const (
	maxCounts = 4096    // partners and operations
	maxKnown  = 1 << 16 // partners that are known to exist
)

// Counts are what was counted of calls and comparisons, by partner and operation, for the verdicts. Each replica has
// its own in memory and merges them into the store. They are safe for concurrent use.
type Counts struct {
	now func() time.Time

	mu      sync.Mutex
	table   string                            // the version of the table in use
	has     func(string) *translate.Operation // its operations: only calls of these are counted; nil for all
	all     countSet
	leaving countSet            // what is being stored
	proved  map[partner.ID]bool // partners that exist: they were seen, or a call of them succeeded
	watch   func(differs bool)  // gets each comparison; may be nil
}

// Missing returns why counts of the partners that are meant are missing, nil if none are.
func Missing(counted []Count, meant func(partner.ID) bool) error {
	for _, n := range counted {
		if n.Unread != nil && meant(n.Partner) {
			return n.Unread
		}
	}
	return nil
}

// A countSet has a count for each partner, operation and version of the table.
type countSet map[place]*Count

// A place is the key of a count.
type place struct {
	partner            partner.ID
	operation, version string
}

func (n Count) place() place { return place{n.Partner, n.Operation, n.Version} }

// merge adds a count.
func (t countSet) merge(more Count) {
	at := more.place()
	if t[at] == nil {
		t[at] = &Count{
			Partner: more.Partner, Operation: more.Operation, Version: more.Version, Since: more.Since,
		}
	}
	t[at].merge(more)
}

// sorted returns the counts by version, partner and operation.
func (t countSet) sorted() []Count {
	all := make([]Count, 0, len(t))
	for _, n := range t {
		all = append(all, *n)
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(
			cmp.Compare(a.Version, b.Version), cmp.Compare(a.Partner, b.Partner), cmp.Compare(a.Operation, b.Operation),
		)
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
	return &Counts{now: now, table: table, all: countSet{}, proved: map[partner.ID]bool{}}
}

// moment is the current time as snapshots have it.
func (t *Counts) moment() time.Time { return t.now().UTC().Truncate(time.Second) }

// Table is the version of the table.
func (t *Counts) Table() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.table
}

// Forget removes the counts of a partner, or of all for "", that are not stored yet.
func (t *Counts) Forget(partner partner.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := func(at place, _ *Count) bool { return partner == "" || at.partner == partner }
	maps.DeleteFunc(t.all, of)
	maps.DeleteFunc(t.leaving, of)
}

// Snapshot returns a copy of what has been counted with the table in use, and does not leave. It contains no keys, and
// only the bills of examples.
func (t *Counts) Snapshot() []Count {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(merged(t.all), func(n Count) bool { return n.Version != t.table })
}

// unstored is a copy of all counts.
func (t *Counts) unstored() []Count {
	t.mu.Lock()
	defer t.mu.Unlock()
	return merged(t.all, t.leaving)
}

// merged is a copy of counts.
func merged(sets ...countSet) []Count {
	all := countSet{}
	for _, set := range sets {
		for _, n := range set {
			all.merge(*n)
		}
	}
	return all.sorted()
}

// Drain returns all counts and starts them again. They are leaving until Return.
func (t *Counts) Drain() []Count {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaving, t.all = t.all, countSet{}
	return t.leaving.sorted()
}

// Return counts again what was drained, but for some, and what was forgotten meanwhile.
func (t *Counts) Return(without []Count) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range without {
		delete(t.leaving, n.place())
	}
	for at, n := range t.leaving {
		if len(t.all) < maxCounts || t.all[at] != nil {
			t.all.merge(*n)
		}
	}
	t.leaving = nil
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
	if partner == "" || !succeeded && !t.proved[partner] || t.has != nil && t.has(operation) == nil {
		return nil
	}
	n := Count{Partner: partner, Operation: operation, Version: t.table, Since: t.moment()}
	if t.all[n.place()] == nil && len(t.all) < maxCounts {
		t.all.merge(n)
	}
	return t.all[n.place()]
}

// Watch has each comparison reported, with whether the answers differ. report must not wait.
func (t *Counts) Watch(report func(differs bool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch = report
}

// Add counts one comparison. Its first answer is the old backend's.
func (t *Counts) Add(partner partner.ID, operation string, c Comparison) {
	t.mu.Lock()
	defer t.mu.Unlock()
	succeeded := c.Succeeded != [2]bool{}
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
		if n.Compared++; t.watch != nil {
			t.watch(c.Class == Differs)
		}
		n.Bills.add(c.Bill)
		if n.States = n.States || c.States; c.Paid {
			n.Paid.add(c.Bill)
		}
	case NotThere:
		n.NotThere++
		if c.Succeeded == [2]bool{true} {
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
			n.field(Field{d, 1, billing.MaskBill(c.Bill), c.Request, c.At.UTC().Truncate(time.Millisecond)})
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
	var one [2]int
	one[backend] = 1
	if end.Code != "" { // otherwise the gateway refused the call
		n.Calls[backend]++
		add(&n.Codes, end.Code, one)
	}
	for _, field := range end.Mismatched {
		add(&n.Mismatched, field, one)
	}
	for backend, why := range end.Unsupported {
		if why != "" {
			n.addUnsupported(backend, why, Unsupported{1, t.moment()})
		}
	}
}
