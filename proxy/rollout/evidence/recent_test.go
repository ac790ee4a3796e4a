package evidence_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/rollout/evidence"
)

// The counts are bounded for any number of merchants, and slots of other days are removed.
func TestRecentBillsAreBounded(t *testing.T) {
	t.Parallel()
	now := since
	counts := evidence.NewCounts("table", func() time.Time { return now })
	made := func(merchant string) {
		counts.Ended(someone, "bill.create", evidence.Old, evidence.End{Code: "0000", Succeeded: true, Creates: true, Merchant: merchant})
	}
	made(strings.Repeat("m", 10_000))
	for i := range 1000 {
		made(fmt.Sprint("m", i))
	}
	kept := counts.Snapshot().Counts[0].Recent.InLastDay(now)
	bills := 0
	for merchant, n := range kept {
		if len(merchant) > 200 {
			t.Errorf("a merchant of %d bytes is kept", len(merchant))
		}
		bills += n
	}
	if len(kept) > 257 || bills != 1001 {
		t.Errorf("%d merchants, %d bills", len(kept), bills)
	}
	slots := func(of *evidence.Counts) int { return len(of.Snapshot().Counts[0].Recent) }
	alone, merged := evidence.NewCounts("table", func() time.Time { return now }), evidence.NewCounts("table", time.Now)
	for day := range 40 {
		now = since.Add(time.Duration(day) * 7 * time.Hour)
		for _, to := range []*evidence.Counts{alone, counts} {
			to.Ended(someone, "bill.create", evidence.Old, evidence.End{Code: "0000", Succeeded: true, Creates: true, Merchant: "m"})
		}
		if err := merged.Merge(counts.Drain()); err != nil {
			t.Fatal(err)
		}
	}
	if a, m := slots(alone), slots(merged); a != 16 || m != 16 {
		t.Errorf("%d slots of one that is never drained, %d of one that is merged", a, m)
	}
}
