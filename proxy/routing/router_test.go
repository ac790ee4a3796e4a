package routing_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	someone = "a94a8fe5ccb19ba61c4c0873d391e987982fbbd3a94a8fe5ccb19ba61c4c0873"
	bill    = "A1B2C3D4E5F6G7H8I9J0"
	other   = "b94a8fe5ccb19ba61c4c0873d391e987982fbbd3a94a8fe5ccb19ba61c4c0873" // another partner
)

var must, works = proxytest.Must, proxytest.Works

// Crossroads are a router, its store, and the results of probes of both backends.
type crossroads struct {
	*routing.Router
	t        testing.TB
	store    *store.Store
	registry *prometheus.Registry
	mu       sync.Mutex
	now      time.Time
	says     map[string]routing.ProbeResult
	asked    []string
}

func newCrossroads(t testing.TB, stage routing.Stage, more ...string) *crossroads {
	t.Helper()
	opened := proxytest.Open(t, "memory:")
	d := &crossroads{t: t, store: opened, registry: prometheus.NewRegistry(), now: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC), says: map[string]routing.ProbeResult{"old": routing.Absent, "new": routing.Absent}}
	c := proxytest.Config(t, "upstreams: {old: {form: legacy, url: \"http://127.0.0.2:9\"}, new: {form: v2, url: \"http://127.0.0.2:9\"}}\nroute: {default: old}\n"+
		"store: {url: sqlite:unused.db}\nrollout: {old: old, new: new"+strings.Join(more, "")+"}\n")
	earlier := d.now.Add(-time.Hour)
	err := errors.Join(opened.Seen(t.Context(), someone, earlier), opened.Change(t.Context(), store.Change{Action: store.Begun, By: "test", At: earlier}))
	must(t, err)
	if d.Router, err = routing.New(t.Context(), c, routing.Options{Store: opened, Registerer: d.registry, Now: func() time.Time { return d.now }}); err != nil {
		t.Fatal(err)
	}
	d.stage(stage)
	return d
}

// stage sets the partner's stage, and the router reads it.
func (d *crossroads) stage(s routing.Stage) {
	d.t.Helper()
	d.now = d.now.Add(time.Second)
	must(d.t, d.store.Change(d.t.Context(), store.Change{Action: store.Staged, Partner: someone, To: string(s), By: "test", At: d.now}))
	d.follow()
}

func (d *crossroads) follow() {
	d.t.Helper()
	must(d.t, d.Follow(d.t.Context()))
}

func (d *crossroads) ask(_ context.Context, upstream string) (routing.ProbeResult, routing.Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, upstream)
	return d.says[upstream], routing.Answer{Code: upstream}
}

// probes returns a probe whose answers have nothing.
func probes(result func(context.Context, string) routing.ProbeResult) routing.Probe {
	return func(ctx context.Context, upstream string) (routing.ProbeResult, routing.Answer) {
		return result(ctx, upstream), routing.Answer{}
	}
}

func (d *crossroads) create() (routing.Route, error) {
	return d.Route(d.t.Context(), routing.Call{Operation: "bill.create", Creates: true, Writes: true, Partner: someone, Bill: bill}, d.ask)
}

func (d *crossroads) other(writes bool) (routing.Route, error) {
	return d.Route(d.t.Context(), routing.Call{Operation: "bill.destroy", Writes: writes, Partner: someone, Bill: bill}, d.ask)
}

// made sends a create and completes it.
func (d *crossroads) made(want string, outcome ledger.Outcome) {
	d.t.Helper()
	route, err := d.create()
	if err != nil || route.Upstream != want {
		d.t.Fatalf("the create goes to %q, %v, want %s", route.Upstream, err, want)
	}
	must(d.t, d.ended(route, outcome))
}

// ended ends the create of a route.
func (d *crossroads) ended(route routing.Route, outcome ledger.Outcome) error {
	return d.Ended(d.t.Context(), route, routing.Ending{Outcome: outcome})
}

// change makes a change now, and the router reads it.
func (d *crossroads) change(action store.Action) {
	d.t.Helper()
	must(d.t, d.store.Change(d.t.Context(), store.Change{Action: action, By: "test", At: d.now}))
	d.follow()
}

// owner is the bill in the ledger.
func (d *crossroads) owner() (proxytest.Owner, error) {
	return proxytest.On(d.store).Owner(d.t.Context(), someone, bill)
}

// refuses expects that a call is refused, and goes that it is sent to an upstream.
func (d *crossroads) refuses(reason string, about ...any) func(routing.Route, error) {
	return func(route routing.Route, err error) {
		d.t.Helper()
		if !refusedFor(err, reason) {
			d.t.Errorf("%v %+v, %v, want it refused: %s", about, route, err, reason)
		}
	}
}

func (d *crossroads) goes(upstream string, about ...any) func(routing.Route, error) {
	return func(route routing.Route, err error) {
		d.t.Helper()
		if err != nil || route.Upstream != upstream {
			d.t.Errorf("%v %+v, %v, want %s", about, route, err, upstream)
		}
	}
}

func refusedFor(err error, reason string) bool {
	var refused *routing.Refused
	return errors.As(err, &refused) && refused.Reason == reason
}

// A create that timed out at the old backend before the gateway was in use, and is repeated now, makes no second bill.
func TestCreateOfABillThatTheOldBackendHas(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageNew)
	d.says["old"] = routing.Present
	d.made("old", ledger.Taken)
	d.says["old"] = routing.Absent // a later probe result does not matter
	d.made("old", ledger.Taken)
	if route, err := d.other(true); err != nil || route.Upstream != "old" || route.Reason != "owner" {
		t.Errorf("%+v, %v", route, err)
	}
}

// After a change of the stage, only a bill that certainly was not created may go to the other backend.
func TestStageChangesBetweenCreates(t *testing.T) {
	t.Parallel()
	for outcome, then := range map[ledger.Outcome]string{
		ledger.Succeeded: "old", ledger.Unknown: "old", ledger.Taken: "old", ledger.Refused: "new", ledger.NotSent: "new",
	} {
		d := newCrossroads(t, routing.StageOld)
		d.made("old", outcome)
		d.stage(routing.StageNew)
		d.made(then, ledger.Succeeded)
		d.stage(routing.StageOld)
		d.made(then, ledger.Taken)
	}
}

// If the stage changes while a create is in progress, the next create of the bill goes to the same backend, whatever the result
// of the first.
func TestStageChangesDuringACreate(t *testing.T) {
	t.Parallel()
	for _, outcome := range []ledger.Outcome{ledger.Succeeded, ledger.Refused, ledger.Unknown} {
		d := newCrossroads(t, routing.StageOld)
		first, err := d.create()
		must(t, err)
		d.stage(routing.StageNew)
		second, err := d.create()
		if err != nil || first.Upstream != "old" || second.Upstream != "old" {
			t.Fatalf("%+v, %+v, %v", first, second, err)
		}
		must(t, d.ended(first, outcome))
		d.made("old", ledger.Refused) // the second is still in progress
	}
}

// Many creates of one bill at one time, under changing stages, all go to one backend.
func TestCreatesOfOneBillGoToOneBackend(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageNew)
	var all sync.WaitGroup
	ways := make([]routing.Route, 64)
	for i := range ways {
		if i%8 == 4 { // the stage changes while creates are under way
			stage := []routing.Stage{routing.StageOld, routing.StageNew}[i/8%2]
			must(t, d.store.Change(t.Context(), store.Change{Action: store.Staged, Partner: someone, To: string(stage), By: "test", At: d.now}))
			d.follow()
		}
		all.Go(func() {
			var err error
			if ways[i], err = d.create(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, route := range ways {
		if route.Upstream != ways[0].Upstream {
			t.Fatalf("%+v and %+v", ways[0], route)
		}
	}
}

// A partner leaves the old backend only after the settling period. The kill switch sends new creates to the old backend without
// a probe of the new one.
func TestSettlingPeriodAndKillSwitch(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageNew)
	d.change(store.Stopped)
	d.asked = nil
	d.made("old", ledger.Refused)
	if len(d.asked) != 0 {
		t.Errorf("asked %v", d.asked)
	}
	d.change(store.Resumed)
	d.made("new", ledger.Refused)

	stranger := partner.ID(strings.Repeat("0f", 32))
	must(t, d.store.Change(t.Context(), store.Change{Action: store.Staged, To: "new", By: "test", At: d.now}))
	d.follow()
	to := func() string {
		route, err := d.Route(t.Context(), routing.Call{Creates: true, Writes: true, Partner: stranger, Bill: fmt.Sprint(d.now.Unix())}, d.ask)
		must(t, err)
		return route.Upstream
	}
	if got := to(); got != "old" {
		t.Errorf("a partner that was not seen goes to %s", got)
	}
	must(t, d.RecordSeen(t.Context(), stranger))
	d.now = d.now.Add(15*time.Minute - time.Second)
	if got := to(); got != "old" {
		t.Errorf("before its time it goes to %s", got)
	}
	d.now = d.now.Add(time.Second)
	if got := to(); got != "new" {
		t.Errorf("in its time it goes to %s", got)
	}
}

// While the ledger is unreachable no write is sent, and a read is answered only if a probe shows the bill.
func TestLedgerUnreachable(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageNew)
	d.made("new", ledger.Succeeded)
	must(t, d.store.Close())
	d.refuses("store")(d.create())
	d.refuses("store")(d.other(true))
	if route, err := d.other(false); err != nil || route.Upstream != "new" || !route.OnlyIfFound {
		t.Errorf("%+v, %v", route, err)
	}
}

// With bills: shared, bills have no owner: only the stage decides, and nothing is recorded.
func TestSharedBills(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageNew, ", bills: shared")
	d.made("new", ledger.Unknown)
	d.stage(routing.StageOld)
	d.made("old", ledger.Succeeded)
	d.stage(routing.StageNew)
	if route, err := d.other(true); err != nil || route.Upstream != "new" || len(d.asked) != 0 {
		t.Errorf("%+v, %v, asked %v", route, err, d.asked)
	}
	if _, err := d.owner(); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

// With bills: shared, a read of the partner that shows a bill paid is evidence too, and is not recorded.
func TestPaidReadsOfSharedBillsAreEvidence(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageNew, ", bills: shared")
	d.Counts().Know(someone)
	for _, row := range []struct {
		result routing.ProbeResult
		shows  ledger.Shows
		paid   int // of the counted bills
	}{
		{routing.Absent, ledger.Shows{}, -1},
		{routing.Present, ledger.Shows{Amount: "1000"}, -1},
		{routing.Present, ledger.Shows{Paid: true}, -1},
		{routing.Present, ledger.Shows{Paid: true, Amount: "1000"}, 1},
	} {
		route, err := d.other(false)
		must(t, err)
		shown := routing.ReadResult{Result: row.result, State: "F", Shows: row.shows}
		relevant := route.Relevant(shown)
		if relevant {
			err = d.Ended(t.Context(), route, routing.Ending{Shown: &shown})
		}
		paid := -1
		for _, n := range d.Counts().Snapshot() {
			paid = len(n.Paid)
		}
		if err != nil || paid != row.paid || relevant && row.result == routing.Absent {
			t.Errorf("%+v: %d paid, relevant %t, %v", row, paid, relevant, err)
		}
	}
	if _, err := d.owner(); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

// All operations on a bill that may have been created go to the backend of its create, without a probe.
func TestPendingBillHasItsOwner(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageOld)
	d.made("old", ledger.Unknown)
	d.stage(routing.StageDrained)
	for _, writes := range []bool{false, true} {
		if route, err := d.other(writes); err != nil || route.Upstream != "old" || route.Reason != "owner" || len(d.asked) != 0 {
			t.Errorf("%+v, %v, asked %v", route, err, d.asked)
		}
	}
}

// If another replica records a create of the bill first, this create goes to that replica's backend.
func TestConcurrentCreateOfAnotherReplica(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageNew)
	route, err := d.Route(t.Context(), routing.Call{Creates: true, Writes: true, Partner: someone, Bill: bill}, probes(func(ctx context.Context, upstream string) routing.ProbeResult {
		if _, err := proxytest.On(d.store).Own(ctx, someone, bill, "old", d.now, time.Time{}, ""); err != nil {
			t.Error(err)
		}
		return routing.Absent
	}))
	if err != nil || route.Upstream != "old" || route.Reason != "owner" {
		t.Errorf("%+v, %v", route, err)
	}
}

// A reset also removes what this gateway has counted and not stored yet.
func TestResetForgetsWhatIsNotStoredYet(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageOld)
	d.Counts().Ended(someone, "bill.read", evidence.Old, evidence.End{Code: "0000", Succeeded: true})
	if n := len(d.Counts().Snapshot()); n != 1 {
		t.Fatalf("%d counts", n)
	}
	must(t, d.Decide(t.Context(), store.Change{Action: store.Reset, Partner: someone, By: "test", At: d.now}))
	if left := d.Counts().Snapshot(); len(left) > 0 {
		t.Errorf("%+v", left)
	}
}
