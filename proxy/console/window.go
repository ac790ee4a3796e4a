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

// A window counts the calls of the last 60 minutes, by operation and upstream. It is safe for concurrent use.
type window struct {
	mu     sync.Mutex
	since  time.Time
	series map[seriesKey]*series
}

type seriesKey struct{ operation, upstream string }

// minutes is the length of the window.
const minutes = 60

// A series has a slot for each minute; a slot is used again after an hour.
type series [minutes]slot

type slot struct {
	minute    int64     // since 1970
	outcomes  [5]uint32 // in the order of outcomes
	durations histogram
}

func newWindow(now time.Time) *window { return &window{since: now, series: map[seriesKey]*series{}} }

func (w *window) add(f *proxy.Finished) {
	minute, o := f.At.Unix()/60, slices.Index(outcomes, outcomeOf(f))
	w.mu.Lock()
	defer w.mu.Unlock()
	key := seriesKey{f.Operation, f.Upstream}
	s := w.series[key]
	if s == nil {
		s = new(series)
		w.series[key] = s
	}
	at := &s[minute%minutes]
	if at.minute != minute {
		if at.minute > minute { // of a call that ended more than an hour before others
			return
		}
		*at = slot{minute: minute}
	}
	at.outcomes[o]++
	at.durations.add(f.Took)
}

// A summary is one row of the overview.
type summary struct {
	Operation, Upstream string
	Calls               int
	Of                  map[outcome]int
	P50, P99            time.Duration // not of the sum: it has operations of different kinds
}

// summaries returns the series with calls in the last 60 minutes, and their sum.
func (w *window) summaries(now time.Time) (rows []summary, total summary) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := now.Unix()/60 - minutes + 1
	total.Of = map[outcome]int{}
	for key, s := range w.series {
		row := summary{Operation: key.operation, Upstream: key.upstream, Of: map[outcome]int{}}
		durations := histogram{}
		for i := range s {
			at := &s[i]
			if at.minute < first || at.minute >= first+minutes {
				continue
			}
			row.count(at)
			total.count(at)
			durations.merge(&at.durations)
		}
		if row.Calls == 0 {
			delete(w.series, key) // a reload may have removed the upstream
			continue
		}
		row.P50, row.P99 = durations.quantile(0.5), durations.quantile(0.99)
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b summary) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Upstream, b.Upstream))
	})
	return rows, total
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
