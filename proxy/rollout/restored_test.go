package rollout_test

import (
	"context"
	"testing"
	"time"

	"billbridge/proxy/rollout"
	"billbridge/proxy/store"
)

// A drained partner's bills are at the new backend, and no backend is probed; after a restore of the store both are.
func TestDrainedAndRestored(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageDrained)
	if route, err := d.other(true); err != nil || route.Upstream != "new" || len(d.asked) != 0 {
		t.Errorf("%+v, %v, asked %v", route, err, d.asked)
	}
	pending, err := d.create() // not settled: it is pending in the backup, too
	if err != nil || pending.Upstream != "new" || len(d.asked) != 0 {
		t.Fatalf("%+v, %v, asked %v", pending, err, d.asked)
	}
	d.now = d.now.Add(time.Minute)
	if err := d.store.Restored(t.Context(), "test", d.now); err != nil {
		t.Fatal(err)
	}
	d.follow()
	if route, err := d.create(); !refusedFor(err, "unclear") || len(d.asked) == 0 {
		t.Errorf("before the settling period is over: %+v, %v, asked %v", route, err, d.asked)
	}
	d.now = d.now.Add(15 * time.Minute)
	if route, err := d.create(); err != nil || route.Upstream != "new" || len(d.asked) == 0 {
		t.Errorf("%+v, %v, asked %v", route, err, d.asked)
	}
}

// newPendingInTheBackup has a bill that was pending at the new backend when the backup was made that the store was restored from.
func newPendingInTheBackup(t *testing.T) *crossroads {
	t.Helper()
	d := newCrossroads(t, rollout.StageNew)
	if route, err := d.create(); err != nil || route.Upstream != "new" {
		t.Fatalf("%+v, %v", route, err)
	}
	d.now = d.now.Add(time.Minute)
	if err := d.store.Restored(t.Context(), "test", d.now); err != nil {
		t.Fatal(err)
	}
	return d
}

// A bill that was pending at the new backend when the backup was made was refused there since, and made at the old backend. The
// old backend shows it and the new one says that it has none: that is where it is, for every operation.
func TestPendingInTheBackupAndMadeElsewhereSince(t *testing.T) {
	t.Parallel()
	d := newPendingInTheBackup(t)
	d.follow()
	d.says["old"] = rollout.Present
	d.says["new"] = rollout.Unclear
	if route, err := d.other(true); !refusedFor(err, "unclear") {
		t.Errorf("%+v, %v", route, err)
	}
	d.says["new"] = rollout.Absent
	for _, writes := range []bool{false, true} {
		if route, err := d.other(writes); err != nil || route.Upstream != "old" {
			t.Errorf("a write %v: %+v, %v", writes, route, err)
		}
	}
	d.made("old", store.Taken)
}

// The same bill, created again: the backend that its row names is not the one that is asked, whatever the stage.
func TestCreateOfOnePendingInTheBackup(t *testing.T) {
	t.Parallel()
	for _, stage := range []rollout.Stage{rollout.StageOld, rollout.StageNew, rollout.StageDrained} {
		d := newPendingInTheBackup(t)
		d.stage(stage)
		d.says["old"] = rollout.Present
		d.made("old", store.Taken)
	}
}

// The owner of a bill stays known for as long after the bill as the config says, and what was counted by another table for a
// month.
func TestSweep(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageOld, ", keep: 1000h")
	over := d.now.Add(24 * time.Hour)
	for id, until := range map[string]time.Time{"ends": over, "later": over.Add(time.Hour), "never": {}} {
		route, err := d.Route(t.Context(), rollout.Call{Creates: true, Writes: true, Partner: someone, Bill: id, Until: until}, d.ask)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Complete(t.Context(), route, store.Succeeded); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.store.AddCounts(t.Context(), "another", []store.Counts{{Partner: someone, Operation: "bill.read", Data: []byte("{}")}}, d.now, nil); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		at           time.Time
		bills, count int
	}{{over.Add(1000 * time.Hour), 3, 0}, {over.Add(1000*time.Hour + time.Millisecond), 2, 0}} {
		d.now = row.at
		if err := d.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		bills, err := d.store.OpenBills(t.Context(), someone, row.at)
		if err != nil || len(bills) != 1 || bills[0].Owned != row.bills {
			t.Errorf("%s: %+v, %v", row.at, bills, err)
		}
		if counts, err := d.store.Counts(t.Context(), "another", ""); err != nil || len(counts) != row.count {
			t.Errorf("%s: %+v, %v", row.at, counts, err)
		}
	}
}

// A bill without a last day is not kept for good.
func TestBillWithoutALastDay(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageOld)
	if _, err := d.create(); err != nil {
		t.Fatal(err)
	}
	if o, err := d.store.Owner(t.Context(), someone, bill); err != nil || !o.Ends.Equal(d.now.Add(365*24*time.Hour)) {
		t.Errorf("%+v, %v", o, err)
	}
}

// After a restore and with the kill switch thrown, a create that was pending at the new backend when the backup was made is
// where it was only if the old backend has not made it since.
func TestStopAfterARestore(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageNew)
	if route, err := d.create(); err != nil || route.Upstream != "new" {
		t.Fatalf("%+v, %v", route, err)
	}
	for _, change := range []func(*store.Store, context.Context, string, time.Time) error{(*store.Store).Restored, (*store.Store).Stop} {
		d.now = d.now.Add(time.Minute)
		if err := change(d.store, t.Context(), "test", d.now); err != nil {
			t.Fatal(err)
		}
	}
	d.follow()
	d.asked = nil
	d.says["old"] = rollout.Present
	if route, err := d.create(); err != nil || route.Upstream != "old" || len(d.asked) != 1 {
		t.Errorf("%+v, %v, asked %v", route, err, d.asked)
	}
}

// TestWrongClockWipesNothing: with a clock that is years ahead nothing is removed, until it is right again or confirmed; and then
// no bill whose end was only estimated.
func TestWrongClockWipesNothing(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageOld)
	right := d.now
	tick := func() {
		t.Helper()
		if _, err := d.store.Tick(t.Context(), d.now); err != nil {
			t.Fatal(err)
		}
	}
	tick()
	for id, until := range map[string]time.Time{"with an end": right.Add(24 * time.Hour), "without": {}} {
		if _, err := d.Route(t.Context(), rollout.Call{Creates: true, Writes: true, Partner: someone, Bill: id, Until: until}, d.ask); err != nil {
			t.Fatal(err)
		}
	}
	sweep := func(step string, want int) {
		t.Helper()
		if err := d.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		bills, err := d.store.OpenBills(t.Context(), someone, right)
		if err != nil || len(bills) != 1 || bills[0].Pending != want {
			t.Errorf("%s: %+v, %v, want %d", step, bills, err, want)
		}
	}
	const years = 4 * 365 * 24 * time.Hour
	for _, step := range []struct {
		name string
		off  time.Duration
	}{{"ahead", years}, {"far ahead", 20 * years}, {"behind", -years}, {"right again", 0}} {
		d.now = right.Add(step.off)
		sweep(step.name+", before it is noticed", 2)
		tick()
		sweep(step.name, 2)
	}
	d.now = right.Add(years)
	if err := d.store.ConfirmClock(t.Context(), "anna", d.now); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(years)
	sweep("wrong again, with a row that is over by either clock", 2)
	d.now = right.Add(years)
	sweep("confirmed", 1)
	if _, err := d.store.Owner(t.Context(), someone, "without"); err != nil {
		t.Errorf("a bill without an end lost its row: %v", err)
	}
}

// TestSettlingOutlivesAWrongClock: that a partner was seen for the settling time, and that a restore is that long ago, is not
// taken from a clock that has stepped.
func TestSettlingOutlivesAWrongClock(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageNew)
	if _, err := d.store.Tick(t.Context(), d.now); err != nil {
		t.Fatal(err)
	}
	fresh := rollout.Call{Creates: true, Writes: true, Partner: other, Bill: bill}
	if err := d.store.Seen(t.Context(), other, d.now); err != nil {
		t.Fatal(err)
	}
	if err := d.store.SetStage(t.Context(), store.Stage{Partner: other, Stage: "new", By: "test", At: d.now}); err != nil {
		t.Fatal(err)
	}
	d.follow()
	d.now = d.now.Add(4 * 365 * 24 * time.Hour)
	if route, err := d.Route(t.Context(), fresh, d.ask); err != nil || route.Upstream != "old" {
		t.Errorf("a partner that was just seen: %+v, %v", route, err)
	}
	if err := d.store.Restored(t.Context(), "anna", d.now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	d.follow()
	if route, err := d.create(); !refusedFor(err, "unclear") {
		t.Errorf("a restore an hour ago by that clock: %+v, %v", route, err)
	}
	if _, err := d.store.Tick(t.Context(), d.now); err != nil { // a minute later at most
		t.Fatal(err)
	}
	d.now = d.now.Add(15 * time.Minute)
	if route, err := d.create(); err != nil || route.Upstream != "new" {
		t.Errorf("a settling period later: %+v, %v", route, err)
	}
}

// TestPartnerSeenByAClockThatIsBehind has not been seen for years when the clock is right again.
func TestPartnerSeenByAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageNew)
	if _, err := d.store.Tick(t.Context(), d.now); err != nil {
		t.Fatal(err)
	}
	if err := d.store.SetStage(t.Context(), store.Stage{Partner: other, Stage: "new", By: "test", At: d.now}); err != nil {
		t.Fatal(err)
	}
	d.follow()
	right := d.now
	d.now = right.Add(-4 * 365 * 24 * time.Hour)
	if err := d.RecordSeen(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	for _, now := range []time.Time{d.now, right.Add(time.Minute)} {
		d.now = now
		call := rollout.Call{Creates: true, Writes: true, Partner: other, Bill: now.String()}
		if route, err := d.Route(t.Context(), call, d.ask); err != nil || route.Upstream != "old" {
			t.Errorf("at %s: %+v, %v", now, route, err)
		}
	}
}
