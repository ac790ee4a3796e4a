package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/rollout"
	"billbridge/proxy/store"
	"billbridge/translate"
)

const (
	partner = "a94a8fe5ccb19ba61c4c0873d391e987982fbbd3a94a8fe5ccb19ba61c4c0873"
	bill    = "A1B2C3D4E5F6G7H8I9J0"
)

// Crossroads are a router, its store, and what the two sides say of every bill.
type crossroads struct {
	*rollout.Router
	t     testing.TB
	store *store.Store
	mu    sync.Mutex
	now   time.Time
	says  map[string]rollout.Finding
	asked []string
}

func newCrossroads(t testing.TB, stage rollout.Stage, more ...string) *crossroads {
	t.Helper()
	opened, err := store.Open(t.Context(), "memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	d := &crossroads{t: t, store: opened, now: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC), says: map[string]rollout.Finding{"old": rollout.Absent, "new": rollout.Absent}}
	c, err := config.Parse(translate.File{Name: "test.yaml", Data: []byte(
		"upstreams: {old: {form: legacy, url: \"http://127.0.0.2:9\"}, new: {form: v2, url: \"http://127.0.0.2:9\"}}\nroute: {default: old}\n" +
			"store: {url: sqlite:unused.db}\nrollout: {old: old, new: new" + strings.Join(more, "") + "}\n")}, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	if err := opened.Seen(t.Context(), partner, d.now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if d.Router, err = rollout.New(t.Context(), c, rollout.Options{Store: opened, Now: func() time.Time { return d.now }}); err != nil {
		t.Fatal(err)
	}
	d.stage(stage)
	return d
}

// stage puts the partner into a stage, and the router follows.
func (d *crossroads) stage(s rollout.Stage) {
	d.t.Helper()
	d.now = d.now.Add(time.Second)
	if err := d.store.SetStage(d.t.Context(), store.Stage{Partner: partner, Stage: string(s), By: "test", At: d.now}); err != nil {
		d.t.Fatal(err)
	}
	d.follow()
}

func (d *crossroads) follow() {
	d.t.Helper()
	if err := d.Follow(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *crossroads) ask(_ context.Context, upstream string) rollout.Finding {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, upstream)
	return d.says[upstream]
}

func (d *crossroads) create() (rollout.Way, error) {
	return d.Route(d.t.Context(), rollout.Call{Operation: "bill.create", Creates: true, Writes: true, Partner: partner, Bill: bill}, d.ask)
}

func (d *crossroads) other(writes bool) (rollout.Way, error) {
	return d.Route(d.t.Context(), rollout.Call{Operation: "bill.destroy", Writes: writes, Partner: partner, Bill: bill}, d.ask)
}

// made makes a create and ends it.
func (d *crossroads) made(want string, outcome store.Outcome) {
	d.t.Helper()
	way, err := d.create()
	if err != nil || way.Upstream != want {
		d.t.Fatalf("the create goes to %q, %v, want %s", way.Upstream, err, want)
	}
	if err := d.Settle(d.t.Context(), way, outcome); err != nil {
		d.t.Fatal(err)
	}
}

func refusedFor(err error, reason string) bool {
	var refused *rollout.Refused
	return errors.As(err, &refused) && refused.Reason == reason
}

// A create that timed out at the old backend before the bridge was there, and comes again now, is not a second bill.
func TestCreateThatOldHasAlready(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageNew)
	d.says["old"] = rollout.Present
	d.made("old", store.Taken)
	d.says["old"] = rollout.Absent // whatever it says later
	d.made("old", store.Taken)
	if way, err := d.other(true); err != nil || way.Upstream != "old" || way.Reason != rollout.ByOwner {
		t.Errorf("%+v, %v", way, err)
	}
}

// What the old side leaves open is not sent anywhere, and leaves nothing in the ledger.
func TestCreateOnAnOpenAnswer(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageNew)
	d.says["old"] = rollout.Unclear
	if way, err := d.create(); !refusedFor(err, "unclear") {
		t.Errorf("%+v, %v", way, err)
	}
	if o, err := d.store.Owner(t.Context(), partner, bill); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%+v, %v", o, err)
	}
	d.says["old"] = rollout.Absent
	d.made("new", store.Succeeded)
}

// Only a bill that certainly was not made may go to the other side when the stage has changed.
func TestStageChangesBetweenCreates(t *testing.T) {
	t.Parallel()
	for outcome, then := range map[store.Outcome]string{
		store.Succeeded: "old", store.Unknown: "old", store.Taken: "old", store.Refused: "new", store.NotSent: "new",
	} {
		d := newCrossroads(t, rollout.StageOld)
		d.made("old", outcome)
		d.stage(rollout.StageNew)
		d.made(then, store.Succeeded)
		d.stage(rollout.StageOld)
		d.made(then, store.Taken)
	}
}

// A stage that changes while a create is on its way does not take the next one of the same bill elsewhere, whatever
// becomes of the first.
func TestStageChangesUnderACreate(t *testing.T) {
	t.Parallel()
	for _, outcome := range []store.Outcome{store.Succeeded, store.Refused, store.Unknown} {
		d := newCrossroads(t, rollout.StageOld)
		first, err := d.create()
		if err != nil {
			t.Fatal(err)
		}
		d.stage(rollout.StageNew)
		second, err := d.create()
		if err != nil || first.Upstream != "old" || second.Upstream != "old" {
			t.Fatalf("%+v, %+v, %v", first, second, err)
		}
		if err := d.Settle(t.Context(), first, outcome); err != nil {
			t.Fatal(err)
		}
		d.made("old", store.Refused) // the second is on its way still
	}
}

// Many creates of one bill at one time, under changing stages, all go to one side.
func TestCreatesOfOneBillGoToOneSide(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageNew)
	var all sync.WaitGroup
	ways := make([]rollout.Way, 64)
	for i := range ways {
		all.Go(func() {
			var err error
			if ways[i], err = d.create(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, way := range ways {
		if way.Upstream != ways[0].Upstream {
			t.Fatalf("%+v and %+v", ways[0], way)
		}
	}
}

// A partner leaves the old side only after it has been seen for the settling time; the kill switch brings new creates
// back without asking the new side anything.
func TestSettlingAndStop(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageNew)
	if err := d.store.Stop(t.Context(), "test", d.now); err != nil {
		t.Fatal(err)
	}
	d.follow()
	d.asked = nil
	d.made("old", store.Refused)
	if len(d.asked) != 0 {
		t.Errorf("asked %v", d.asked)
	}
	if err := d.store.Resume(t.Context(), "test", d.now); err != nil {
		t.Fatal(err)
	}
	d.follow()
	d.made("new", store.Refused)

	stranger := strings.Repeat("0f", 32)
	if err := d.store.SetStage(t.Context(), store.Stage{Stage: "new", By: "test", At: d.now}); err != nil {
		t.Fatal(err)
	}
	d.follow()
	to := func() string {
		way, err := d.Route(t.Context(), rollout.Call{Creates: true, Writes: true, Partner: stranger, Bill: fmt.Sprint(d.now.Unix())}, d.ask)
		if err != nil {
			t.Fatal(err)
		}
		return way.Upstream
	}
	if got := to(); got != "old" {
		t.Errorf("one that nobody has seen goes to %s", got)
	}
	if err := d.Saw(t.Context(), stranger); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(15*time.Minute - time.Second)
	if got := to(); got != "old" {
		t.Errorf("before its time it goes to %s", got)
	}
	d.now = d.now.Add(time.Second)
	if got := to(); got != "new" {
		t.Errorf("in its time it goes to %s", got)
	}
}

// Whose a bill is that nobody has noted, both sides say.
func TestOwnerUnknown(t *testing.T) {
	t.Parallel()
	for _, stage := range []rollout.Stage{rollout.StageOld, rollout.StageNew} {
		preferred := string(stage)
		for _, writes := range []bool{false, true} {
			for old, ofOld := range []string{"unclear", "absent", "present"} {
				for fresh, ofNew := range []string{"unclear", "absent", "present"} {
					d := newCrossroads(t, stage)
					d.says["old"], d.says["new"] = rollout.Finding(old), rollout.Finding(fresh)
					way, err := d.other(writes)
					name := fmt.Sprintf("%s: old %s, new %s, a write %v: %+v, %v", stage, ofOld, ofNew, writes, way, err)
					owner := ""
					switch {
					case !writes && map[string]string{"old": ofOld, "new": ofNew}[preferred] == "present" && (ofOld == "unclear" || ofNew == "unclear"):
						if err != nil || way.Upstream != preferred || way.Nowhere {
							t.Error(name)
						}
					case ofOld == "unclear" || ofNew == "unclear":
						if !refusedFor(err, "unclear") {
							t.Error(name)
						}
					case ofOld == "present" && ofNew == "present" && writes:
						if !refusedFor(err, "both") {
							t.Error(name)
						}
					case ofOld == ofNew:
						if err != nil || way.Upstream != preferred || way.Nowhere != (ofOld == "absent") {
							t.Error(name)
						}
					default:
						owner = map[bool]string{true: "old", false: "new"}[ofOld == "present"]
						if err != nil || way.Upstream != owner || way.Nowhere {
							t.Error(name)
						}
					}
					row, err := d.store.Owner(t.Context(), partner, bill)
					if (err == nil) != (owner != "") || err == nil && (row.Upstream != owner || row.State != store.Owned) {
						t.Errorf("%s: the ledger has %+v, %v", name, row, err)
					}
				}
			}
		}
	}
}

// A drained partner's bills are at the new side, and nobody is asked; after the store was restored from a backup both are.
func TestDrainedAndRestored(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageDrained)
	if way, err := d.other(true); err != nil || way.Upstream != "new" || len(d.asked) != 0 {
		t.Errorf("%+v, %v, asked %v", way, err, d.asked)
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
	if way, err := d.create(); err != nil || way.Upstream != "new" || len(d.asked) == 0 {
		t.Errorf("%+v, %v, asked %v", way, err, d.asked)
	}
}

// A bill that was pending at the new side when the backup was made was refused there since, and made at the old side. The
// old side shows it and the new one says that it has none: that is where it is, for every operation.
func TestPendingInTheBackupAndMadeElsewhereSince(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageNew)
	if way, err := d.create(); err != nil || way.Upstream != "new" {
		t.Fatalf("%+v, %v", way, err)
	}
	d.now = d.now.Add(time.Minute)
	if err := d.store.Restored(t.Context(), "test", d.now); err != nil {
		t.Fatal(err)
	}
	d.follow()
	d.says["old"] = rollout.Present
	d.says["new"] = rollout.Unclear
	if way, err := d.other(true); !refusedFor(err, "unclear") {
		t.Errorf("%+v, %v", way, err)
	}
	d.says["new"] = rollout.Absent
	for _, writes := range []bool{false, true} {
		if way, err := d.other(writes); err != nil || way.Upstream != "old" {
			t.Errorf("a write %v: %+v, %v", writes, way, err)
		}
	}
	d.made("old", store.Taken)
}

// The same bill, created again: the side that its row names is not the one that is asked, whatever the stage.
func TestCreateOfOnePendingInTheBackup(t *testing.T) {
	t.Parallel()
	for _, stage := range []rollout.Stage{rollout.StageOld, rollout.StageNew, rollout.StageDrained} {
		d := newCrossroads(t, rollout.StageNew)
		if way, err := d.create(); err != nil || way.Upstream != "new" {
			t.Fatalf("%+v, %v", way, err)
		}
		d.now = d.now.Add(time.Minute)
		if err := d.store.Restored(t.Context(), "test", d.now); err != nil {
			t.Fatal(err)
		}
		d.stage(stage)
		d.says["old"] = rollout.Present
		d.made("old", store.Taken)
	}
}

// Without the ledger nothing is written anywhere, and only what is found is read.
func TestWithoutTheLedger(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageNew)
	d.made("new", store.Succeeded)
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	if way, err := d.create(); !refusedFor(err, "store") {
		t.Errorf("%+v, %v", way, err)
	}
	if way, err := d.other(true); !refusedFor(err, "store") {
		t.Errorf("%+v, %v", way, err)
	}
	if way, err := d.other(false); err != nil || way.Upstream != "new" || !way.Unsure {
		t.Errorf("%+v, %v", way, err)
	}
}

// Where both sides see the same bills nobody owns one: stages alone decide, and nothing is kept.
func TestSharedBills(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageNew, ", bills: shared")
	d.made("new", store.Unknown)
	d.stage(rollout.StageOld)
	d.made("old", store.Succeeded)
	d.stage(rollout.StageNew)
	if way, err := d.other(true); err != nil || way.Upstream != "new" || len(d.asked) != 0 {
		t.Errorf("%+v, %v, asked %v", way, err, d.asked)
	}
	if _, err := d.store.Owner(t.Context(), partner, bill); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

// A bill that may have been made is where its create went, for every operation; nobody is asked.
func TestPendingBillHasItsOwner(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageOld)
	d.made("old", store.Unknown)
	d.stage(rollout.StageDrained)
	for _, writes := range []bool{false, true} {
		if way, err := d.other(writes); err != nil || way.Upstream != "old" || way.Reason != rollout.ByOwner || len(d.asked) != 0 {
			t.Errorf("%+v, %v, asked %v", way, err, d.asked)
		}
	}
}

// Between the look at the ledger and the note in it another replica may have been faster: its side it is.
func TestCreateThatAnotherWasFasterWith(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageNew)
	way, err := d.Route(t.Context(), rollout.Call{Creates: true, Writes: true, Partner: partner, Bill: bill}, func(ctx context.Context, upstream string) rollout.Finding {
		if _, err := d.store.Own(ctx, partner, bill, "old", d.now, time.Time{}); err != nil {
			t.Error(err)
		}
		return rollout.Absent
	})
	if err != nil || way.Upstream != "old" || way.Reason != rollout.ByOwner {
		t.Errorf("%+v, %v", way, err)
	}
}

// A read is answered by the preferred side that shows the bill, also while the other one is down: so a partner that has
// never left the old side does not need the new one. That notes nothing, and no write goes by it.
func TestReadWhileTheOtherSideIsDown(t *testing.T) {
	t.Parallel()
	for stage, preferred := range map[rollout.Stage]string{rollout.StageOld: "old", rollout.StageShadow: "old", rollout.StageNew: "new"} {
		d := newCrossroads(t, stage)
		other := map[string]string{"old": "new", "new": "old"}[preferred]
		d.says[preferred], d.says[other] = rollout.Present, rollout.Unclear
		if way, err := d.other(false); err != nil || way.Upstream != preferred || way.Reason != rollout.ByProbe || way.Nowhere || !way.Unsure || way.Compare != "" {
			t.Errorf("%s: %+v, %v", stage, way, err)
		}
		if way, err := d.other(true); !refusedFor(err, "unclear") {
			t.Errorf("%s: %+v, %v", stage, way, err)
		}
		if o, err := d.store.Owner(t.Context(), partner, bill); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %+v, %v", stage, o, err)
		}
		d.says[preferred], d.says[other] = rollout.Unclear, rollout.Present
		if way, err := d.other(false); !refusedFor(err, "unclear") {
			t.Errorf("%s: %+v, %v", stage, way, err)
		}
		d.says[preferred] = rollout.Absent
		d.says[other] = rollout.Unclear
		if way, err := d.other(false); !refusedFor(err, "unclear") {
			t.Errorf("%s: %+v, %v", stage, way, err)
		}
	}
}

// Only reads of a partner in shadow are compared, and only bills that canary makes at the new side are read back.
func TestWhatIsComparedAndReadBack(t *testing.T) {
	t.Parallel()
	for _, stage := range rollout.Stages {
		d := newCrossroads(t, stage)
		if stage == rollout.StageCanary {
			d.now = d.now.Add(time.Second)
			if err := d.store.SetStage(t.Context(), store.Stage{Partner: partner, Stage: "canary", Percent: 100, By: "test", At: d.now}); err != nil {
				t.Fatal(err)
			}
			d.follow()
		}
		made, err := d.create()
		if err != nil || made.Compare != "" || made.ReadBack != (stage == rollout.StageCanary) {
			t.Errorf("%s: %+v, %v", stage, made, err)
		}
		for _, writes := range []bool{false, true} {
			way, err := d.other(writes)
			want := ""
			if stage == rollout.StageShadow && !writes {
				want = "new"
			}
			if err != nil || way.Compare != want || way.ReadBack {
				t.Errorf("%s, a write %v: %+v, %v", stage, writes, way, err)
			}
		}
	}
	// A bill of canary that is at the old side is not read at the new one.
	d := newCrossroads(t, rollout.StageCanary)
	if way, err := d.create(); err != nil || way.Upstream != "old" || way.ReadBack {
		t.Errorf("%+v, %v", way, err)
	}
}

// Whose a bill is stays known for as long after the bill as the config says, and what was counted by another table for a
// month.
func TestSweep(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageOld, ", keep: 1000h")
	over := d.now.Add(24 * time.Hour)
	for id, until := range map[string]time.Time{"ends": over, "later": over.Add(time.Hour), "never": {}} {
		way, err := d.Route(t.Context(), rollout.Call{Creates: true, Writes: true, Partner: partner, Bill: id, Until: until}, d.ask)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Settle(t.Context(), way, store.Succeeded); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.store.AddCounts(t.Context(), "another", []store.Counts{{Partner: partner, Operation: "bill.read", Data: []byte("{}")}}, d.now, nil); err != nil {
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
		bills, err := d.store.OpenBills(t.Context(), partner, row.at)
		if err != nil || len(bills) != 1 || bills[0].Owned != row.bills {
			t.Errorf("%s: %+v, %v", row.at, bills, err)
		}
		if counts, err := d.store.Counts(t.Context(), "another", ""); err != nil || len(counts) != row.count {
			t.Errorf("%s: %+v, %v", row.at, counts, err)
		}
	}
}

// A panic while a side is asked leaves it open whether it has the bill, and ends nothing else.
func TestPanicInAQuestion(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageOld)
	way, err := d.Route(t.Context(), rollout.Call{Operation: "bill.destroy", Writes: true, Partner: partner, Bill: bill}, func(_ context.Context, upstream string) rollout.Finding {
		if upstream == "new" {
			panic("in a translation")
		}
		return rollout.Present
	})
	if !refusedFor(err, "unclear") {
		t.Errorf("%+v, %v", way, err)
	}
}

// A bill without a last day is not kept for good.
func TestBillWithoutALastDay(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageOld)
	if _, err := d.create(); err != nil {
		t.Fatal(err)
	}
	if o, err := d.store.Owner(t.Context(), partner, bill); err != nil || !o.Ends.Equal(d.now.Add(365*24*time.Hour)) {
		t.Errorf("%+v, %v", o, err)
	}
}

// After a restore and with the kill switch thrown, a create that was pending at the new side when the backup was made is
// where it was only if the old side has not made it since.
func TestStopAfterARestore(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageNew)
	if way, err := d.create(); err != nil || way.Upstream != "new" {
		t.Fatalf("%+v, %v", way, err)
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
	if way, err := d.create(); err != nil || way.Upstream != "old" || len(d.asked) != 1 {
		t.Errorf("%+v, %v, asked %v", way, err, d.asked)
	}
}

// A second create of a bill goes by its owner, also where the stage would have it there.
func TestSecondCreateGoesByTheOwner(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, rollout.StageOld)
	d.made("old", store.Succeeded)
	if way, err := d.create(); err != nil || way.Reason != rollout.ByOwner {
		t.Errorf("%+v, %v", way, err)
	}
}
