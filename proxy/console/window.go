package console

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
	"time"

	"billbridge/proxy"
)

// An outcome is how a call ended, for an operator.
type outcome = string

const (
	succeeded outcome = "ok"
	failed    outcome = "failed"  // the upstream or the gateway could not serve the call
	unknown   outcome = "unknown" // a write may have taken effect
	refused   outcome = "refused" // by the upstream: the caller got its code, which says why
	blocked   outcome = "blocked" // by a check of the gateway: the upstream was not called
)

var outcomes = []outcome{succeeded, failed, unknown, refused, blocked}

// outcomeOf classifies a call.
func outcomeOf(f *proxy.Finished) outcome {
	switch {
	case f.Unknown:
		return unknown
	case f.Succeeded, f.Reason == "" && f.Code == "none" && f.Status < 400: // the second: a path of route.pass
		return succeeded
	case f.Called && (f.Reason != "" || f.CallerGone), f.NotServed, f.Status == 500 && !f.Called:
		return failed
	case f.Called:
		return refused
	}
	return blocked
}

// A reach is how far back a window counts, in slots of the same length.
type reach struct {
	Name  string // of its text
	unit  time.Duration
	slots int
}

// reaches are those of the overview.
var reaches = []reach{{"hour", time.Minute, 60}, {"day", time.Hour, 24}, {"weeks", 24 * time.Hour, 14}}

// long is the whole time that the reach counts.
func (r reach) long() time.Duration { return time.Duration(r.slots) * r.unit }

// slotOf returns the number of the slot of a time. Days begin at midnight in the zone of the process.
func (r reach) slotOf(at time.Time) int64 {
	_, offset := at.Local().Zone()
	return (at.Unix() + int64(offset)) / int64(r.unit/time.Second)
}

// start is when a slot begins.
func (r reach) start(number int64) time.Time {
	at := time.Unix(number*int64(r.unit/time.Second), 0)
	_, offset := at.Local().Zone()
	return at.Add(-time.Duration(offset) * time.Second)
}

// A window counts calls, by operation and upstream, and comparisons. It is safe for concurrent use.
type window struct {
	reach
	mu     sync.Mutex
	since  time.Time
	series map[seriesKey]series
	checks []checks
}

type seriesKey struct{ operation, upstream string }

// A series has the slots of a window; a slot is used again when its time is over.
type series []slot

type slot struct {
	number    int64
	outcomes  [5]uint32 // in the order of outcomes
	durations histogram
}

// checks are the comparisons of a slot.
type checks struct {
	number        int64
	all, differed int
}

func newWindow(now time.Time, r reach) *window {
	return &window{reach: r, since: now, series: map[seriesKey]series{}, checks: make([]checks, r.slots)}
}

func (w *window) add(f *proxy.Finished) {
	number, o := max(w.slotOf(f.At), 0), slices.Index(outcomes, outcomeOf(f))
	w.mu.Lock()
	defer w.mu.Unlock()
	key := seriesKey{f.Operation, f.Upstream}
	s := w.series[key]
	if s == nil {
		s = make(series, w.slots)
		w.series[key] = s
	}
	at := &s[number%int64(w.slots)]
	if at.number != number {
		if at.number > number { // of a call that ended long before others, or before 1970
			return
		}
		*at = slot{number: number}
	}
	at.outcomes[o]++
	at.durations.add(f.Took)
}

// compared counts a comparison of the answers of both backends.
func (w *window) compared(now time.Time, differs bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	number := w.slotOf(now)
	at := &w.checks[number%int64(w.slots)]
	if at.number != number {
		*at = checks{number: number}
	}
	if at.all++; differs {
		at.differed++
	}
}

// A summary is one row of the overview.
type summary struct {
	Operation, Upstream string
	Calls               int
	Of                  map[outcome]int
	P50, P99            time.Duration // not of the sum: it has operations of different kinds
}

// Bad is the number of calls that failed, or whose outcome is unknown.
func (s summary) Bad() int { return s.Of[failed] + s.Of[unknown] }

// summaries returns the series with calls in the time of the window, and their sum.
func (w *window) summaries(now time.Time) (rows []summary, total summary) {
	total.Of = map[outcome]int{}
	rows = w.grouped(now, func(key seriesKey) seriesKey { return key })
	for _, row := range rows {
		total.Calls += row.Calls
		for o, n := range row.Of {
			total.Of[o] += n
		}
	}
	return rows, total
}

// byUpstream returns the calls of each upstream.
func (w *window) byUpstream(now time.Time) map[string]summary {
	all := map[string]summary{}
	for _, one := range w.grouped(now, func(key seriesKey) seriesKey { return seriesKey{upstream: key.upstream} }) {
		all[one.Upstream] = one
	}
	return all
}

// grouped returns the sums of the series for which by returns the same.
func (w *window) grouped(now time.Time, by func(seriesKey) seriesKey) (rows []summary) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, found := w.slotOf(now), map[seriesKey]*summary{}
	durations := map[seriesKey]*histogram{}
	for key, s := range w.series {
		of, used := by(key), false
		for i := range s {
			at := &s[i]
			if at.number <= last-int64(w.slots) || at.number > last {
				continue
			}
			if used = true; found[of] == nil {
				found[of] = &summary{Operation: of.operation, Upstream: of.upstream, Of: map[outcome]int{}}
				durations[of] = new(histogram)
			}
			found[of].count(at)
			durations[of].merge(&at.durations)
		}
		if !used {
			delete(w.series, key) // a reload may have removed the upstream
		}
	}
	for of, row := range found {
		row.P50, row.P99 = durations[of].quantile(0.5), durations[of].quantile(0.99)
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, func(a, b summary) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Upstream, b.Upstream))
	})
	return rows
}

func (s *summary) count(at *slot) {
	for i, n := range at.outcomes {
		s.Calls += int(n)
		s.Of[outcomes[i]] += int(n)
	}
}

// A histogram counts durations. Its buckets are eighths of powers of two in microseconds, so a quantile is exact
// to 7 %.
type histogram [28 * 8]uint32

func bucketOf(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	if us < 8 {
		return int(us)
	}
	exponent := bits.Len64(us) - 4 // us>>exponent is 8 to 15
	return min(8*exponent+int(us>>exponent), len(histogram{})-1)
}

// middleOf returns the middle of a bucket.
func middleOf(bucket int) time.Duration {
	if bucket < 8 {
		return time.Duration(bucket) * time.Microsecond
	}
	exponent := bucket/8 - 1
	from := uint64(8+bucket%8) << exponent
	return time.Duration(2*from+1<<exponent) * time.Microsecond / 2
}

func (h *histogram) add(d time.Duration) { h[bucketOf(d)]++ }

func (h *histogram) merge(other *histogram) {
	for i, n := range other {
		h[i] += n
	}
}

// quantile returns the duration that a share q of the calls does not exceed, or 0 without calls.
func (h *histogram) quantile(q float64) time.Duration {
	var all, seen uint64
	for _, n := range h {
		all += uint64(n)
	}
	rank := uint64(q*float64(all)) + 1
	for i, n := range h {
		if seen += uint64(n); seen >= min(rank, all) && all > 0 {
			return middleOf(i)
		}
	}
	return 0
}
