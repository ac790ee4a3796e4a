package routing_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// Both backends are probed for the owner of a bill that the ledger does not know.
func TestUnknownBillIsProbedAtBothBackends(t *testing.T) {
	t.Parallel()
	says := []string{"unclear", "absent", "present", "refusing"}
	for _, stage := range []routing.Stage{routing.StageOld, routing.StageNew} {
		preferred := string(stage)
		for _, writes := range []bool{false, true} {
			for old, ofOld := range says {
				for fresh, ofNew := range says {
					d := newCrossroads(t, stage)
					d.says["old"], d.says["new"] = routing.ProbeResult(old), routing.ProbeResult(fresh)
					route, err := d.other(writes)
					name := fmt.Sprintf("%s: old %s, new %s, a write %v: %+v, %v", stage, ofOld, ofNew, writes, route, err)
					owner := ""
					ofPreferred, ofOther := ofOld, ofNew
					if preferred == "new" {
						ofPreferred, ofOther = ofNew, ofOld
					}
					open := func(says string) bool { return says == "unclear" || says == "refusing" }
					switch {
					case ofPreferred == "refusing" && (ofOther == "refusing" || ofOther == "absent"):
						if err != nil || route.Upstream != preferred || !route.Answered {
							t.Error(name)
						}
					case !writes && ofPreferred == "present" && open(ofOther):
						if err != nil || route.Upstream != preferred || route.Answered {
							t.Error(name)
						}
					case open(ofOld) || open(ofNew):
						if !refusedFor(err, "unclear") {
							t.Error(name)
						}
					case ofOld == "present" && ofNew == "present" && writes:
						if !refusedFor(err, "both") {
							t.Error(name)
						}
					case ofOld == ofNew:
						if err != nil || route.Upstream != preferred || route.Answered != (ofOld == "absent") {
							t.Error(name)
						}
					default:
						owner = map[bool]string{true: "old", false: "new"}[ofOld == "present"]
						if err != nil || route.Upstream != owner || route.Answered {
							t.Error(name)
						}
					}
					if err == nil && route.Answered && route.Answer.Code != preferred {
						t.Errorf("%s: the answer is that of %q", name, route.Answer.Code)
					}
					row, err := d.owner()
					if err == nil && row.State == ledger.Released && route.Answered { // "no such bill" was recorded
						continue
					}
					if (err == nil) != (owner != "") || err == nil && (row.Upstream != owner || row.State != ledger.Owned) {
						t.Errorf("%s: the ledger has %+v, %v", name, row, err)
					}
				}
			}
		}
	}
}

// The owner of a bill counts for a repeated create, whatever the old backend says of it, and also if that hangs.
func TestOwnerOfARepeatedCreate(t *testing.T) {
	t.Parallel()
	for _, owner := range []string{"old", "new"} {
		for _, outcome := range []ledger.Outcome{ledger.Succeeded, ledger.Unknown} {
			d := newCrossroads(t, routing.Stage(owner))
			d.made(owner, outcome)
			d.stage(routing.StageNew)
			for _, says := range []routing.ProbeResult{routing.Unclear, routing.Absent, routing.Present, routing.Refusing} {
				d.says["old"] = says
				d.goes(owner, outcome, says)(d.create())
			}
			call := routing.Call{Operation: "bill.create", Creates: true, Writes: true, Partner: someone, Bill: bill}
			hangs := probes(func(ctx context.Context, _ string) routing.ProbeResult { <-ctx.Done(); return routing.Unclear })
			d.goes(owner, outcome, "hangs")(d.Route(t.Context(), call, hangs))
		}
	}
}

// The first create of a bill in stage new takes two commits and no read: one commit before it is sent, and one after it.
func TestCreateInStageNewReadsNothing(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageNew)
	d.made("new", ledger.Succeeded)
	families, err := d.registry.Gather()
	must(t, err)
	operations := map[string]uint64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "billbridge_rollout_ledger_seconds" && m.GetHistogram().GetSampleCount() > 0 {
				operations[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleCount()
			}
		}
	}
	if want := map[string]uint64{"own": 1, "complete": 1}; !maps.Equal(operations, want) {
		t.Errorf("%v, want %v", operations, want)
	}
}

// If the ledger gets an owner while a backend is probed, the owner counts: the bill is, or may be, at the other backend.
// If that is the bill of another merchant, the bill is where it was found.
func TestOwnerRecordedDuringAProbe(t *testing.T) {
	t.Parallel()
	for _, creates := range []bool{false, true} {
		for _, row := range []struct {
			merchant string
			outcome  ledger.Outcome
			reason   string // of the refusal
		}{{"", ledger.Succeeded, "both"}, {"", ledger.Unknown, "unclear"}, {shopB, ledger.Succeeded, ""}} {
			d := newCrossroads(t, routing.StageNew)
			call := routing.Call{Operation: "bill.destroy", Creates: creates, Writes: true, Partner: someone, Bill: bill, Merchant: shopA}
			route, err := d.Route(t.Context(), call, probes(func(ctx context.Context, upstream string) routing.ProbeResult {
				if upstream == "new" {
					return routing.Absent
				}
				c, err := proxytest.On(d.store).Own(ctx, someone, bill, "new", d.now, d.now.Add(time.Hour), row.merchant)
				if err == nil {
					_, err = proxytest.On(d.store).Complete(ctx, c, row.outcome, d.now)
				}
				if err != nil {
					t.Error(err)
				}
				return routing.Present
			}))
			if row.reason == "" {
				d.goes("old", creates)(route, err)
				continue
			}
			d.refuses(row.reason, creates, row.outcome)(route, err)
		}
	}
}

// An owner that is recorded while the old backend hangs counts: nothing contradicts it.
func TestOwnerRecordedWhileTheOldBackendHangs(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageNew)
	call := routing.Call{Operation: "bill.create", Creates: true, Writes: true, Partner: someone, Bill: bill, Merchant: shopA}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	d.goes("new")(d.Route(ctx, call, probes(func(ctx context.Context, _ string) routing.ProbeResult {
		c, err := proxytest.On(d.store).Own(ctx, someone, bill, "new", d.now, d.now.Add(time.Hour), shopA)
		if err == nil {
			_, err = proxytest.On(d.store).Complete(ctx, c, ledger.Succeeded, d.now)
		}
		if err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return routing.Unclear
	})))
}

// A create is sent to the new backend only after the old one has answered "no such bill". A refusal of the caller does not say so.
func TestUnclearProbeSendsNoCreate(t *testing.T) {
	t.Parallel()
	for says, reason := range map[routing.ProbeResult]string{routing.Unclear: "unclear", routing.Refusing: "barred"} {
		d := newCrossroads(t, routing.StageNew)
		d.says["old"] = says
		d.refuses(reason, says)(d.create())
		if row, err := d.owner(); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%d: the ledger has %+v, %v", says, row, err)
		}
		d.says["old"] = routing.Absent
		d.made("new", ledger.Succeeded)
	}
}

// An id that the ledger refuses is sent to the backend that shows the bill.
func TestInvalidBillIDGoesToTheBackendThatShowsIt(t *testing.T) {
	t.Parallel()
	for _, creates := range []bool{false, true} {
		d := newCrossroads(t, routing.StageNew)
		d.says["old"] = routing.Present
		call := routing.Call{Operation: "bill.destroy", Creates: creates, Writes: true, Partner: someone, Bill: strings.Repeat("9", 1001)}
		d.goes("old", creates)(d.Route(t.Context(), call, d.ask))
	}
}

// A read is answered if the preferred backend shows the bill, also while the other one is down: a partner that has never left
// the old backend does not depend on the new one. No owner is recorded, and no write is routed by it.
func TestReadWhileTheOtherBackendIsDown(t *testing.T) {
	t.Parallel()
	for stage, preferred := range map[routing.Stage]string{routing.StageOld: "old", routing.StageNew: "new"} {
		d := newCrossroads(t, stage)
		other := map[string]string{"old": "new", "new": "old"}[preferred]
		d.says[preferred], d.says[other] = routing.Present, routing.Unclear
		if route, err := d.other(false); err != nil || route.Upstream != preferred || route.Reason != "probe" || route.Answered || !route.OnlyIfFound || route.Compare != "" {
			t.Errorf("%s: %+v, %v", stage, route, err)
		}
		d.refuses("unclear", stage)(d.other(true))
		if o, err := d.owner(); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %+v, %v", stage, o, err)
		}
		d.says[preferred], d.says[other] = routing.Unclear, routing.Present
		d.refuses("unclear", stage)(d.other(false))
		d.says[preferred] = routing.Absent
		d.says[other] = routing.Unclear
		d.refuses("unclear", stage)(d.other(false))
	}
}

// Only reads of a partner in shadow are compared, also if a gateway with shared bills has set this stage in the store of one with
// separate bills, and only bills that are created at the new backend in canary or new are read back. Reads of
// such bills are compared if they are paid.
func TestShadowComparesAndNewBillsAreReadBack(t *testing.T) {
	t.Parallel()
	for _, bills := range []string{"separate", "shared"} {
		for _, stage := range routing.Stages {
			d := newCrossroads(t, stage, ", bills: "+bills)
			if stage == routing.StageCanary {
				d.now = d.now.Add(time.Second)
				must(t, d.store.Change(t.Context(), store.Change{Action: store.Staged, Partner: someone, To: "canary", ToPercent: 100, By: "test", At: d.now}))
				d.follow()
			}
			collects := stage == routing.StageCanary || stage == routing.StageNew
			made, err := d.create()
			if err != nil || made.Compare != "" || made.ReadBack != collects {
				t.Errorf("%s: %+v, %v", stage, made, err)
			}
			for _, writes := range []bool{false, true} {
				route, err := d.other(writes)
				want := ""
				if bills == "shared" && stage == routing.StageShadow && !writes {
					want = "new"
				}
				if err != nil || route.Compare != want || route.ReadBack != (collects && !writes) {
					t.Errorf("%s, %s, a write %v: %+v, %v", bills, stage, writes, route, err)
				}
			}
		}
	}
	// A bill of canary that is at the old backend is not read at the new one.
	d := newCrossroads(t, routing.StageCanary)
	if route, err := d.create(); err != nil || route.Upstream != "old" || route.ReadBack {
		t.Errorf("%+v, %v", route, err)
	}
}

// Creates that succeed at the new backend are read back one after another, at half the rate of the gateway's reads, and not
// more than a minute later: so they do not hold up other reads.
func TestBillsTakeTurnsToBeReadBack(t *testing.T) {
	t.Parallel()
	for _, bills := range []string{"separate", "shared"} {
		d := newCrossroads(t, routing.StageNew, ", bills: "+bills)
		n, planned := 0, []time.Duration{}
		create := func(end routing.Ending) {
			t.Helper()
			n++
			c := routing.Call{Operation: "bill.create", ID: fmt.Sprint("call", n), Creates: true, Writes: true, Partner: someone, Bill: fmt.Sprint("B", n)}
			route, err := d.Route(t.Context(), c, d.ask)
			b, failed := ledger.Bill{}, d.Ended(t.Context(), route, end)
			if err == nil && failed == nil {
				b, err = d.store.Bill(t.Context(), someone, c.Bill)
			}
			if err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			if b.Created != nil {
				planned = append(planned, b.Due.Sub(d.now))
				if b.Created.Request != c.ID || b.Created.Upstream != "new" {
					t.Errorf("%+v", b.Created)
				}
			}
		}
		create(routing.Ending{Outcome: ledger.Refused})
		create(routing.Ending{Outcome: ledger.Unknown})
		create(routing.Ending{Outcome: ledger.NotSent})
		if len(planned) != 0 {
			t.Errorf("%s: a create without a success is read back: %s", bills, planned)
		}
		for range 400 {
			create(routing.Ending{Outcome: ledger.Succeeded})
		}
		if len(planned) != 301 || planned[0] != 0 || planned[1] != 200*time.Millisecond || planned[300] != time.Minute {
			t.Errorf("%d are read back, the first at %s", len(planned), planned[:2])
		}
		for _, later := range []time.Duration{time.Second, -time.Hour} { // also if the clock is set back
			d.now, planned = d.now.Add(later), nil
			for range 20 {
				create(routing.Ending{Outcome: ledger.Succeeded})
			}
			if want := map[time.Duration]int{time.Second: 5, -time.Hour: 20}[later]; len(planned) != want {
				t.Errorf("after %s %d are read back, want %d", later, len(planned), want)
			}
		}
	}
}

// A panic in a probe is no clear answer, and it does not end the process.
func TestPanicInAProbeIsNoClearAnswer(t *testing.T) {
	t.Parallel()
	d := newCrossroads(t, routing.StageOld)
	route, err := d.Route(t.Context(), routing.Call{Operation: "bill.destroy", Writes: true, Partner: someone, Bill: bill}, probes(func(_ context.Context, upstream string) routing.ProbeResult {
		if upstream == "new" {
			panic("in a translation")
		}
		return routing.Present
	}))
	if !refusedFor(err, "unclear") {
		t.Errorf("%+v, %v", route, err)
	}
}

// R44: a read or a write was routed, and then a create of its bill succeeded. "No such bill" is an answer from before that.
func TestR44_NoSuchBillFromBeforeACreate(t *testing.T) {
	t.Parallel()
	for _, writes := range []bool{false, true} {
		d := newCrossroads(t, routing.StageDrained)
		call := routing.Call{Operation: "bill.other", Writes: writes, Partner: someone, Bill: bill}
		route, err := d.Route(t.Context(), call, d.ask)
		if err != nil || !route.Deniable {
			t.Fatalf("%+v, %v", route, err)
		}
		d.made("new", ledger.Succeeded)
		if err := d.Deny(t.Context(), call); !refusedFor(err, "making") {
			t.Errorf("writes %v: %v", writes, err)
		}
		if route, err = d.Route(t.Context(), call, d.ask); err != nil || route.Deniable { // its owner decides: no write to the ledger
			t.Errorf("writes %v: %+v, %v", writes, route, err)
		}
	}
}
