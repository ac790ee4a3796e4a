package evidence_test

import (
	"testing"
	"time"

	"billbridge/proxy/rollout/evidence"
)

// The bills of a day are counted by backend, and slots of other days are removed.
func TestRecentBillsAreBounded(t *testing.T) {
	t.Parallel()
	now := since
	counts := evidence.NewCounts("table", func() time.Time { return now })
	created := evidence.End{Code: "0000", Succeeded: true, Creates: true}
	for i := range 1000 {
		counts.Ended(someone, "bill.create", evidence.Backend(i%5/4), created)
	}
	if got := counts.Snapshot().Counts[0].Recent.InLastDay(now); got != [2]int{800, 200} {
		t.Errorf("bills at the old and the new backend: %v", got)
	}
	slots := func(of *evidence.Counts) int { return len(of.Snapshot().Counts[0].Recent) }
	alone, merged := evidence.NewCounts("table", func() time.Time { return now }), evidence.NewCounts("table", time.Now)
	for day := range 40 {
		now = since.Add(time.Duration(day) * 7 * time.Hour)
		for _, to := range []*evidence.Counts{alone, counts} {
			to.Ended(someone, "bill.create", evidence.Old, created)
		}
		merged.Merge(counts.Drain())
	}
	if a, m := slots(alone), slots(merged); a != 16 || m != 16 {
		t.Errorf("%d slots of one that is never drained, %d of one that is merged", a, m)
	}
}
