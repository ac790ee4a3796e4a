package routing_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/config"
	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// A drained partner's bills are at the new backend, and no backend is probed; after a restore of the store both are.
func TestDrainedAndRestored(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageDrained)
	if route, err := d.other(true); err != nil || route.Upstream != "new" || len(d.asked) != 0 {
		t.Errorf("%+v, %v, asked %v", route, err, d.asked)
	}
	pending, err := d.create() // not completed: it is pending in the backup, too
	if err != nil || pending.Upstream != "new" || len(d.asked) != 0 {
		t.Fatalf("%+v, %v, asked %v", pending, err, d.asked)
	}
	d.now = d.now.Add(time.Minute)
	d.change(store.Restored)
	if route, err := d.create(); !refusedFor(err, "unclear") || len(d.asked) == 0 {
		t.Errorf("before the settling period is over: %+v, %v, asked %v", route, err, d.asked)
	}
	d.now = d.now.Add(15 * time.Minute)
	if route, err := d.create(); err != nil || route.Upstream != "new" || len(d.asked) == 0 {
		t.Errorf("%+v, %v, asked %v", route, err, d.asked)
	}
}

// newPendingInTheBackup has a bill that was pending at the new backend in the backup from which the store was restored.
func newPendingInTheBackup(t *testing.T) *crossroads {
	t.Helper()
	d := newCrossroads(t, routing.StageNew)
	d.goes("new")(d.create())
	d.now = d.now.Add(time.Minute)
	d.change(store.Restored)
	return d
}

// A bill that was pending at the new backend in the backup was refused there since, and created at the old backend. All
// operations go to the old backend, because it shows the bill and the new one answers "no such bill".
func TestPendingInTheBackupAndCreatedAtTheOtherBackendSince(t *testing.T) {
	t.Parallel()
	d := newPendingInTheBackup(t)
	d.follow()
	d.says["old"] = routing.Present
	d.says["new"] = routing.Unclear
	d.refuses("unclear")(d.other(true))
	d.says["new"] = routing.Absent
	for _, writes := range []bool{false, true} {
		d.goes("old", writes)(d.other(writes))
	}
	d.made("old", ledger.Taken)
}

// The same bill, created again: the backend that is not in its row is probed, whatever the stage.
func TestCreateOfABillPendingInTheBackup(t *testing.T) {
	t.Parallel()
	for _, stage := range []routing.Stage{routing.StageOld, routing.StageNew, routing.StageDrained} {
		d := newPendingInTheBackup(t)
		d.stage(stage)
		d.says["old"] = routing.Present
		d.made("old", ledger.Taken)
	}
}

// After a restore the new backend is probed also while the kill switch is on. Without a clear answer nothing is sent during the
// settling period; after it the create goes to the old backend, since the switch must work while the new backend is down.
func TestKillSwitchAfterARestore(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		says             routing.ProbeResult
		during, upstream string // the reason of the refusal during the settling period, or the upstream; the upstream after it
	}{
		{routing.Present, "new", "new"},
		{routing.Absent, "unclear", "old"},
		{routing.Unclear, "unclear", "old"},
		{routing.Refusing, "unclear", "old"},
	} {
		for _, stage := range routing.Stages {
			for _, after := range []time.Duration{time.Minute, 15 * time.Minute} {
				d := newCrossroads(t, stage)
				d.change(store.Restored)
				d.change(store.Stopped)
				d.now, d.says["new"] = d.now.Add(after), row.says
				route, err := d.create()
				want := map[time.Duration]string{time.Minute: row.during, 15 * time.Minute: row.upstream}[after]
				if route.Upstream != want && !refusedFor(err, want) {
					t.Errorf("stage %s, %v after %s: %+v, %v, want %s", stage, row.says, after, route, err, want)
				}
			}
		}
	}
}

// After a restore the kill switch sends creates to the old backend although the new one takes its probe and never
// answers.
func TestKillSwitchWorksWhileTheNewBackendHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newCrossroads(t, routing.StageOld)
		d.change(store.Restored)
		d.now = d.now.Add(time.Hour)
		d.change(store.Stopped)
		began := time.Now()
		create := routing.Call{Operation: "bill.create", Creates: true, Writes: true, Partner: someone, Bill: bill}
		route, err := d.Route(t.Context(), create, probes(func(ctx context.Context, _ string) routing.ProbeResult {
			<-ctx.Done()
			return routing.Unclear
		}))
		took := time.Since(began)
		if err != nil || route.Upstream != "old" || took == 0 || took > config.SendWithin {
			t.Errorf("%+v after %s, %v", route, took, err)
		}
	})
}

// The owner of a bill is kept for a time after the bill, and the counts of another table for a month.
func TestOldRowsAreRemoved(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageOld, proxytest.Tuned(func(c *config.Config) { c.Rollout.Keep = 1000 * time.Hour }))
	over := d.now.Add(24 * time.Hour)
	for id, until := range map[string]time.Time{"ends": over, "later": over.Add(time.Hour), "never": {}} {
		route, err := d.Route(t.Context(), routing.Call{Creates: true, Writes: true, Partner: someone, Bill: id, Until: until}, d.ask)
		must(t, err)
		must(t, d.ended(route, ledger.Succeeded))
	}
	works(t)(d.store.AddCounts(t.Context(), "another", []store.Counts{{Partner: someone, Operation: "bill.read", Data: []byte("{}")}}, d.now, nil))
	for _, row := range []struct {
		at           time.Time
		bills, count int
	}{{over.Add(1000 * time.Hour), 3, 0}, {over.Add(1000*time.Hour + time.Millisecond), 2, 0}} {
		d.now = row.at
		must(t, d.Sweep(t.Context()))
		bills, err := d.store.OpenBillsIn(t.Context(), store.AllPartners.Of(someone), row.at)
		if err != nil || len(bills) != 1 || bills[0].Owned != row.bills {
			t.Errorf("%s: %+v, %v", row.at, bills, err)
		}
		if counts, err := d.store.Counts(t.Context(), store.CountsFilter{Version: "another"}); err != nil || len(counts) != row.count {
			t.Errorf("%s: %+v, %v", row.at, counts, err)
		}
	}
}

// A bill without a last day is removed, too.
func TestBillWithoutALastDayIsRemoved(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageOld)
	works(t)(d.create())
	if o, err := d.owner(); err != nil || !o.Ends.Equal(d.now.Add(365*24*time.Hour)) {
		t.Errorf("%+v, %v", o, err)
	}
}

// After a restore and while the kill switch is on, a create that was pending at the new backend in the backup goes there only if
// the old backend has not created the bill since.
func TestStopAfterARestore(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageNew)
	d.goes("new")(d.create())
	for _, action := range []store.Action{store.Restored, store.Stopped} {
		d.now = d.now.Add(time.Minute)
		d.change(action)
	}
	d.asked = nil
	d.says["old"] = routing.Present
	if route, err := d.create(); err != nil || route.Upstream != "old" || len(d.asked) != 1 {
		t.Errorf("%+v, %v, asked %v", route, err, d.asked)
	}
}

// While the clock is years ahead nothing is removed. After it is right or confirmed, bills whose end was estimated stay.
func TestWrongClockRemovesNothing(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageOld)
	right := d.now
	tick := func() {
		t.Helper()
		works(t)(d.store.Tick(t.Context(), d.now))
	}
	tick()
	for id, until := range map[string]time.Time{"with an end": right.Add(24 * time.Hour), "without": {}} {
		works(t)(d.Route(t.Context(), routing.Call{Creates: true, Writes: true, Partner: someone, Bill: id, Until: until}, d.ask))
	}
	sweep := func(step string, want int) {
		t.Helper()
		must(t, d.Sweep(t.Context()))
		bills, err := d.store.OpenBillsIn(t.Context(), store.AllPartners.Of(someone), right)
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
	must(t, d.store.ConfirmClock(t.Context(), store.Author{Name: "anna"}, d.now))
	d.now = d.now.Add(years)
	sweep("wrong again, with a row that is over by either clock", 2)
	d.now = right.Add(years)
	sweep("confirmed", 1)
	if _, err := proxytest.On(d.store).Owner(t.Context(), someone, "without"); err != nil {
		t.Errorf("a bill without an end lost its row: %v", err)
	}
}

// A clock that has stepped ends neither the settling period of a partner nor the one after a restore.
func TestWrongClockDoesNotShortenTheSettlingPeriod(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageNew)
	works(t)(d.store.Tick(t.Context(), d.now))
	fresh := routing.Call{Creates: true, Writes: true, Partner: other, Bill: bill}
	must(t, d.store.Seen(t.Context(), other, d.now))
	must(t, d.store.Change(t.Context(), store.Change{Action: store.Staged, Partner: other, To: "new", By: "test", At: d.now}))
	d.follow()
	d.now = d.now.Add(4 * 365 * 24 * time.Hour)
	d.goes("old", "a partner that was just seen")(d.Route(t.Context(), fresh, d.ask))
	must(t, d.store.Change(t.Context(), store.Change{Action: store.Restored, By: "anna", At: d.now.Add(-time.Hour)}))
	d.follow()
	d.refuses("unclear", "a restore an hour ago by that clock")(d.create())
	if _, err := d.store.Tick(t.Context(), d.now); err != nil { // a minute later at most
		t.Fatal(err)
	}
	d.now = d.now.Add(15 * time.Minute)
	d.goes("new", "a settling period later")(d.create())
}

// If a partner was first seen while the clock was years behind, its settling period is not over when the clock is right again.
func TestPartnerSeenByAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageNew)
	works(t)(d.store.Tick(t.Context(), d.now))
	must(t, d.store.Change(t.Context(), store.Change{Action: store.Staged, Partner: other, To: "new", By: "test", At: d.now}))
	d.follow()
	right := d.now
	d.now = right.Add(-4 * 365 * 24 * time.Hour)
	must(t, d.RecordSeen(t.Context(), other))
	for _, now := range []time.Time{d.now, right.Add(time.Minute)} {
		d.now = now
		call := routing.Call{Creates: true, Writes: true, Partner: other, Bill: now.String()}
		d.goes("old", now)(d.Route(t.Context(), call, d.ask))
	}
}

// A kill switch that the store has lost in a fail-over is turned on again, also if an earlier restore was declared by a clock that
// was ahead.
func TestLostKillSwitchAfterARestoreByAClockAhead(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageNew)
	change := func(action store.Action, by string, at time.Time) {
		t.Helper()
		must(t, d.store.Change(t.Context(), store.Change{Action: action, By: by, At: at}))
	}
	change(store.Restored, "anna", d.now.Add(time.Hour))
	change(store.Stopped, "anna", d.now)
	d.follow()
	change(store.Resumed, "test", d.now) // stands for the loss
	change(store.Restored, store.ByFailOver, d.now)
	d.follow()
	if d.Stopping() == nil {
		t.Error("the kill switch is off")
	}
}
