package console

import (
	"math"
	"slices"
	"testing"
	"time"

	"billbridge/proxy"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for want, list := range map[outcome][]proxy.Finished{
		succeeded: {{Called: true, Succeeded: true, Status: 200, Code: "0000"}, {Called: true, Status: 204, Code: "none"}},
		refused: {
			{Called: true, Status: 200, Code: "BILL_003"},
			{Called: true, Status: 400, Code: "none"},
		},
		blocked: {
			{Status: 400, Code: "VALIDATION_001", Reason: "refused"},
			{Status: 404, Code: "ERROR", Reason: "no such path"},
		},
		failed: {
			{Called: true, Status: 502, Code: "ERROR", Reason: "reset"},
			{Status: 503, NotServed: true, Reason: "store"},
			{Status: 200, NotServed: true, Reason: "store"},
			{Status: 500, Code: "ERROR", Reason: "internal error"},
			{Called: true, Status: 200, Code: "0000", CallerGone: true},
			{Called: true, Status: 499, Code: "ERROR", Reason: "the caller went away"},
		},
		unknown: {{Called: true, Unknown: true, Status: 502, Code: "none", Reason: "reset"}},
	} {
		for _, f := range list {
			equal(t, outcomeOf(&f), want, f)
		}
	}
}

// Calls count for 60 minutes, by operation and upstream.
func TestWindow(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 22, 9, 0, 30, 0, time.UTC)
	w := newWindow(start, reaches[0])
	add := func(after time.Duration, o outcome, upstream string, took time.Duration) {
		f := proxy.Finished{
			Subject: proxy.Subject{Operation: "bill.read"}, Times: proxy.Times{At: start.Add(after), Took: took},
			Destination: proxy.Destination{Upstream: upstream}, Called: true, Status: 200, Code: "0000",
		}
		switch o {
		case succeeded:
			f.Succeeded = true
		case refused:
			f.Code = "BILL_003"
		case failed:
			f.Reason = "reset"
		case unknown:
			f.Unknown = true
		}
		w.add(&f)
	}
	add(0, succeeded, "old", time.Millisecond)
	add(0, refused, "old", time.Millisecond)
	add(59*time.Minute, failed, "old", time.Second)
	add(59*time.Minute, unknown, "new", time.Second)

	rows, total := w.summaries(start.Add(59 * time.Minute))
	if len(rows) != 2 || rows[0].Upstream != "new" || rows[1].Calls != 3 || rows[1].Of[refused] != 1 || rows[1].Of[failed] != 1 || rows[0].Of[unknown] != 1 || total.Calls != 4 {
		t.Errorf("after 59 minutes: %+v, total %+v", rows, total)
	}
	if rows, total = w.summaries(start.Add(60 * time.Minute)); total.Calls != 2 || len(rows) != 2 {
		t.Errorf("after 60 minutes: %+v", total)
	}
	add(60*time.Minute, succeeded, "old", time.Millisecond) // in the slot of the first calls
	if _, total = w.summaries(start.Add(60 * time.Minute)); total.Calls != 3 {
		t.Errorf("one more after 60 minutes: %+v", total)
	}
	if rows, total = w.summaries(start.Add(3 * time.Hour)); total.Calls != 0 || rows != nil || len(w.series) != 0 {
		t.Errorf("after three hours: %+v, %d series", rows, len(w.series))
	}
}

func TestQuantilesHaveTwoDigits(t *testing.T) {
	t.Parallel()
	for ms, want := range map[float64]string{
		0.0123: "0.012 ms", 0.256: "0.26 ms", 0.995: "1.0 ms", 1: "1.0 ms", 9.94: "9.9 ms", 9.96: "10 ms", 12.4: "12 ms", 99.6: "100 ms", 123: "120 ms",
		994: "990 ms", 995: "1.0 s", 1004.2: "1.0 s", 1660: "1.7 s", 12345: "12 s", 245760: "250 s",
	} {
		equal(t, rounded(time.Duration(ms*1e6)), want, ms)
	}
}

func TestHistogramIsExactToSevenPercent(t *testing.T) {
	t.Parallel()
	for _, took := range []time.Duration{9 * time.Microsecond, 33 * time.Microsecond, 1234 * time.Microsecond, 17 * time.Millisecond, 999 * time.Millisecond, 42 * time.Second} {
		h := histogram{}
		h.add(took)
		if got := h.quantile(0.99); math.Abs(float64(got-took))/float64(took) > 0.07 {
			t.Errorf("%s is shown as %s", took, got)
		}
	}
	h := histogram{}
	equal(t, h.quantile(0.5), 0, "a quantile without calls")
	var all []time.Duration
	for i := range 1000 {
		took := time.Duration(i+1) * 100 * time.Microsecond
		all = append(all, took)
		h.add(took)
	}
	slices.Sort(all)
	for q, want := range map[float64]time.Duration{0.5: all[500], 0.99: all[990], 1: all[999]} {
		if got := h.quantile(q); math.Abs(float64(got-want))/float64(want) > 0.07 {
			t.Errorf("the quantile %v is %s, want %s", q, got, want)
		}
	}
	equal(t, bucketOf(time.Hour), len(h)-1, "an hour is in the bucket")
}
