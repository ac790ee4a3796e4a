package routing_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"
)

// Two merchants of one partner.
const (
	shopA = "shop a"
	shopB = "shop b"
)

// newMerchants has two backends that hide a bill from all merchants but its own; bills has it by upstream.
func newMerchants(t *testing.T, stage routing.Stage, bills map[string]string) (
	*crossroads, func(operation, merchant string) (routing.Route, error),
) {
	t.Helper()
	d := newCrossroads(t, stage)
	return d, func(operation, merchant string) (routing.Route, error) {
		d.now = d.now.Add(time.Second)
		call := routing.Call{
			Operation: operation, Creates: operation == "bill.create", Writes: operation != "bill.read", Partner: someone,
			Bill: bill, Member: "a member", Merchant: merchant,
		}
		return d.Route(t.Context(), call, func(_ context.Context, upstream string) (routing.ProbeResult, routing.Answer) {
			if bills[upstream] == merchant {
				return routing.Present, routing.Answer{}
			}
			return d.ask(t.Context(), upstream)
		})
	}
}

// The old backend has a bill of one merchant, which the ledger does not know, and hides it from another merchant, whose
// bill with the same id is created at the new backend. All calls about the first bill reach the old backend.
func TestRefundIsNotDeniedBecauseOfARowOfAnotherMerchant(t *testing.T) {
	t.Parallel()
	bills := map[string]string{"old": shopA}
	d, route := newMerchants(t, routing.StageNew, bills)
	created, err := route("bill.create", shopB)
	if err != nil || created.Upstream != "new" {
		t.Fatalf("%+v, %v", created, err)
	}
	must(t, d.ended(created, ledger.Succeeded))
	bills["new"] = shopB
	// In drained, the old backend is not asked about bills that only it knows.
	for _, stage := range []routing.Stage{routing.StageOld, routing.StageCanary, routing.StageNew} {
		d.stage(stage)
		for _, operation := range []string{"bill.read", "bill.cancel", "bill.destroy", "bill.create"} {
			if r, err := route(operation, shopA); err != nil || r.Upstream != "old" || r.Answered {
				t.Errorf("%s: %s of the first merchant: %+v, %v", stage, operation, r, err)
			}
			d.asked = nil
			for _, merchant := range []string{shopB, ""} {
				r, err := route(operation, merchant)
				if err != nil || r.Upstream != "new" || r.Reason != "owner" && operation != "bill.create" || len(d.asked) > 0 && operation != "bill.create" {
					t.Errorf("%s: %s of merchant %q: %+v, %v, asked %v", stage, operation, merchant, r, err, d.asked)
				}
			}
		}
	}
	if row, err := d.owner(); err != nil || row.Upstream != "new" || row.State != ledger.Owned {
		t.Errorf("the ledger has %+v, %v", row, err)
	}
}

// A row of another merchant at an upstream that is no backend any more holds up no call about a bill that one backend has. If none
// has it, it may be at that upstream: the call is refused, and not told that there is no such bill. So is a create.
func TestRowOfAnotherMerchantAtAnotherUpstream(t *testing.T) {
	t.Parallel()
	for _, stage := range []routing.Stage{routing.StageOld, routing.StageNew, routing.StageDrained} {
		bills := map[string]string{"old": shopA}
		d, route := newMerchants(t, stage, bills)
		d.says = map[string]routing.ProbeResult{"old": routing.Absent, "new": routing.Absent}
		create, err := proxytest.On(d.store).Own(t.Context(), someone, bill, "third", d.now, time.Time{}, shopB)
		if err == nil {
			_, err = proxytest.On(d.store).Complete(t.Context(), create, ledger.Succeeded, d.now)
		}
		must(t, err)
		refused := func(operation, merchant string) {
			t.Helper()
			r, err := route(operation, merchant)
			if wrong, ok := errors.AsType[*routing.Refused](err); !ok || wrong.Reason != "other_upstream" {
				t.Errorf("%s: %s of %s: %+v, %v", stage, operation, merchant, r, err)
			}
		}
		for _, operation := range []string{"bill.read", "bill.cancel", "bill.destroy"} {
			bills["old"] = shopA
			if r, err := route(operation, shopA); err != nil || r.Upstream != "old" || r.Answered {
				t.Errorf("%s: %s of the first merchant: %+v, %v", stage, operation, r, err)
			}
			refused(operation, shopB)
			delete(bills, "old")
			refused(operation, shopA)
		}
		refused("bill.create", shopA)
		refused("bill.create", shopB)
		also := newCrossroads(t, routing.StageNew)
		must(t, also.ownedBeside(t, "third"))
		also.stage(stage)
		also.says = d.says
		cancel := routing.Call{Operation: "bill.cancel", Writes: true, Partner: someone, Bill: bill, Merchant: shopA}
		d.refuses("other_upstream", stage)(also.Route(t.Context(), cancel, also.ask))
		row, err := d.owner()
		if err != nil || row.Upstream != "third" || row.Merchant != shopB || row.State != ledger.Owned || row.Open != 0 {
			t.Errorf("%s: the row is %+v, %v", stage, row, err)
		}
	}
}

// ownedBeside records a bill of shopB at the new backend, and one of shopA with its id at an upstream.
func (d *crossroads) ownedBeside(t *testing.T, upstream string) error {
	t.Helper()
	create, err := proxytest.On(d.store).Own(t.Context(), someone, bill, "new", d.now, time.Time{}, shopB)
	if err == nil {
		_, err = proxytest.On(d.store).Complete(t.Context(), create, ledger.Succeeded, d.now)
	}
	if err == nil {
		_, err = proxytest.On(d.store).Found(t.Context(), someone, bill, upstream, d.now, shopA)
	}
	return err
}

// A row of another merchant decides nothing about a read or a write: both backends are probed, as if there were no row.
// In drained the old backend is probed only if the row is there, and need not answer. The row stays as it is, or gets a later end.
func TestRowOfAnotherMerchantLeavesTheOwnerOpen(t *testing.T) {
	t.Parallel()
	for _, stage := range []routing.Stage{routing.StageOld, routing.StageCanary, routing.StageNew, routing.StageDrained} {
		for _, owner := range []string{"old", "new"} {
			d, free := newCrossroads(t, routing.Stage(owner)), newCrossroads(t, stage)
			if stage == routing.StageDrained && owner == "old" {
				free.stage(routing.StageNew)
			}
			bills := map[string]ledger.Outcome{}
			for says := range 16 {
				for _, outcome := range []ledger.Outcome{ledger.Succeeded, ledger.Unknown} {
					for _, writes := range []bool{false, true} {
						bills[fmt.Sprintf("%d %d %v %s", says/4, says%4, writes, outcome)] = outcome
					}
				}
			}
			for id, outcome := range bills {
				create := routing.Call{Creates: true, Writes: true, Partner: someone, Bill: id, Merchant: shopB}
				created, err := d.Route(t.Context(), create, d.ask)
				if err != nil || created.Upstream != owner || d.ended(created, outcome) != nil {
					t.Fatalf("%+v, %v", created, err)
				}
			}
			d.stage(stage)
			d.now = d.now.Add(time.Hour) // no create is under way any more
			for id := range bills {
				var says [2]routing.ProbeResult
				call := routing.Call{Operation: "bill.destroy", Partner: someone, Bill: id, Merchant: shopA}
				works(t)(fmt.Sscan(id, &says[0], &says[1], &call.Writes))
				routed := func(d *crossroads) string {
					d.says, d.asked = map[string]routing.ProbeResult{"old": says[0], "new": says[1]}, nil
					r, err := d.Route(t.Context(), call, d.ask)
					return fmt.Sprint(r.Upstream, r.Reason, r.Answered, r.OnlyIfFound, r.Deniable, len(d.asked), err)
				}
				before, _ := proxytest.On(d.store).Owner(t.Context(), someone, id)
				got := routed(d)
				if stage == routing.StageDrained && owner == "old" && says == [2]routing.ProbeResult{routing.Unclear, routing.Present} {
					says[0] = routing.Absent // the old backend may be switched off
				}
				if want := routed(free); got != want {
					t.Errorf("stage %s, row at %s, %s: %s, want %s", stage, owner, id, got, want)
				}
				after, err := proxytest.On(d.store).Owner(t.Context(), someone, id)
				if after.Ends.After(before.Ends) { // so long is a bill of this merchant at the other backend taken for open
					after.Ends = before.Ends
				}
				if err != nil || after != before {
					t.Errorf("stage %s, %s: the row is %+v, %v, want %+v", stage, id, after, err, before)
				}
			}
		}
	}
}

// A create goes to the backend of a row of another merchant, as the id is used there, unless the other backend shows a
// bill of this merchant.
func TestCreateBesideARowOfAnotherMerchant(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		stage     routing.Stage
		owner     string
		old       routing.ProbeResult
		upstream  string
		refusedAs string
		asked     int
	}{
		{routing.StageOld, "new", routing.Present, "old", "", 1},
		{routing.StageOld, "new", routing.Absent, "new", "", 1},
		{routing.StageOld, "new", routing.Unclear, "", "unclear", 1},
		{routing.StageNew, "new", routing.Present, "old", "", 1},
		{routing.StageNew, "new", routing.Absent, "new", "", 1},
		{routing.StageNew, "new", routing.Unclear, "", "unclear", 1},
		{routing.StageNew, "new", routing.Refusing, "", "barred", 2},
		{routing.StageDrained, "new", routing.Unclear, "new", "", 0},
		// The new backend has only bills of the ledger.
		{routing.StageOld, "old", routing.Unclear, "old", "", 0},
		{routing.StageDrained, "old", routing.Unclear, "old", "", 0},
	} {
		d := newCrossroads(t, routing.Stage(row.owner))
		create := routing.Call{Operation: "bill.create", Creates: true, Writes: true, Partner: someone, Bill: bill, Merchant: shopB}
		first, err := d.Route(t.Context(), create, d.ask)
		if err != nil || first.Upstream != row.owner || d.ended(first, ledger.Succeeded) != nil {
			t.Fatalf("%+v, %v", first, err)
		}
		d.stage(row.stage)
		d.says["old"], d.asked = row.old, nil
		create.Merchant = shopA
		got, err := d.Route(t.Context(), create, d.ask)
		if got.Upstream != row.upstream || row.refusedAs != "" != refusedFor(err, row.refusedAs) || len(d.asked) != row.asked {
			t.Errorf("%+v: %+v, %v, asked %v", row, got, err, d.asked)
		}
		if err := d.ended(got, ledger.Refused); err != nil {
			t.Error(err)
		}
		if after, err := d.owner(); err != nil || after.Upstream != row.owner || after.Merchant != shopB ||
			after.State != ledger.Owned || after.Open != 0 {
			t.Errorf("%+v: the row is %+v, %v", row, after, err)
		}
	}
}

// R44: "no such bill" for a merchant is true although the ledger has a bill of another merchant: a create that arrived
// before is not sent. Creates of the other merchant are.
func TestR44_NoSuchBillOfAMerchantBesideABillOfAnother(t *testing.T) {
	t.Parallel()
	d, route := newMerchants(t, routing.StageNew, map[string]string{"new": shopB})
	created, err := route("bill.create", shopB)
	if err != nil || created.Upstream != "new" || d.ended(created, ledger.Succeeded) != nil {
		t.Fatalf("%+v, %v", created, err)
	}
	before := d.now
	if r, err := route("bill.read", shopA); err != nil || !r.Answered {
		t.Errorf("%+v, %v", r, err)
	}
	for merchant, denied := range map[string]bool{shopA: true, shopB: false} {
		create := routing.Call{Creates: true, Writes: true, Partner: someone, Bill: bill, Merchant: merchant, Arrived: before}
		if r, err := d.Route(t.Context(), create, d.ask); refusedFor(err, "denied") != denied || !denied && err != nil {
			t.Errorf("%s: %+v, %v", merchant, r, err)
		}
	}
}

// R44: a create of a merchant that the ledger has in the row of a bill of another merchant may take effect. No call of
// the first merchant is told that there is no such bill until it cannot any more.
func TestR44_NoSuchBillWhileACreateIsInTheRowOfAnotherMerchant(t *testing.T) {
	t.Parallel()
	for _, outcome := range []ledger.Outcome{"", ledger.Unknown} {
		d, route := newMerchants(t, routing.StageNew, map[string]string{"new": shopB})
		created, err := route("bill.create", shopB)
		if err != nil || d.ended(created, ledger.Succeeded) != nil {
			t.Fatalf("%+v, %v", created, err)
		}
		d.now = d.now.Add(time.Hour)
		second, err := route("bill.create", shopA)
		if err != nil || second.Upstream != "new" || outcome != "" && d.ended(second, outcome) != nil {
			t.Fatalf("%+v, %v", second, err)
		}
		d.refuses("making", outcome)(route("bill.read", shopA))
		d.now = d.now.Add(time.Hour)
		if r, err := route("bill.read", shopA); err != nil || !r.Answered {
			t.Errorf("outcome %q, an hour later: %+v, %v", outcome, r, err)
		}
	}
}
