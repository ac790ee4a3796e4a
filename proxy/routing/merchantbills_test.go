package routing_test

import (
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// A create of one merchant has an unknown outcome, and one of another merchant with the same id succeeds: the bill is
// that of the other merchant. The first one is not told that there is no such bill while its create may take effect.
func TestSuccessIsThatOfItsMerchant(t *testing.T) {
	t.Parallel()
	bills := map[string]string{}
	d, route := newMerchants(t, routing.StageNew, bills)
	for _, merchant := range []string{shopA, shopB} {
		created, err := route("bill.create", merchant)
		outcome := map[string]ledger.Outcome{shopA: ledger.Unknown, shopB: ledger.Succeeded}[merchant]
		if err != nil || created.Upstream != "new" || d.ended(created, outcome) != nil {
			t.Fatalf("%+v, %v", created, err)
		}
	}
	bills["new"] = shopB
	d.refuses("making", "of the first merchant")(route("bill.read", shopA))
	if r, err := route("bill.read", shopB); err != nil || r.Upstream != "new" || r.Reason != "owner" || r.Deniable {
		t.Errorf("of the other merchant: %+v, %v", r, err)
	}
}

// The bills of two merchants with one id are open until both are over: neither the end of one nor an earlier end that one
// gets ends the other.
func TestBillsOfTwoMerchantsAreOpenUntilBothAreOver(t *testing.T) {
	t.Parallel()
	for n := range 4 {
		endsFirst, isFound := n%2 == 1, n/2 == 1
		bills := map[string]string{}
		d, route := newMerchants(t, routing.StageOld, bills)
		create := func(merchant string) {
			t.Helper()
			created, err := route("bill.create", merchant)
			if err != nil || created.Upstream != "old" || d.ended(created, ledger.Succeeded) != nil {
				t.Fatalf("%+v, %v", created, err)
			}
		}
		second := func() {
			t.Helper()
			if !isFound {
				create(shopB)
				return
			}
			bills["old"] = shopB // since before the gateway was in use
			if r, err := route("bill.read", shopB); err != nil || r.Upstream != "old" || r.Answered {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		create(shopA)
		if !endsFirst {
			second()
		}
		ended := routing.ReadResult{Result: routing.Present, State: "C", Ended: true, By: routing.ByOperator, Merchant: shopA}
		must(t, d.RecordRead(t.Context(), ledger.Bill{Partner: someone, ID: bill}, nil, d.Looked("old", ended, false, d.now)...))
		if endsFirst {
			second()
		}
		soon, late := d.now.Add(time.Minute), d.now.Add(1000*24*time.Hour)
		for _, until := range []time.Time{late, soon} {
			must(t, d.store.MoveEnd(t.Context(), ledger.Bill{Partner: someone, ID: bill}, ledger.Call{At: d.now, Merchant: shopB}, until))
		}
		for at, want := range map[time.Time]int{d.now: 1, late.Add(-time.Second): 1, late.Add(time.Second): 0} {
			if open := d.openAt(t, "old", at); open != want {
				t.Errorf("ends first %v, found %v: at %s %d bills are open, want %d", endsFirst, isFound, at, open, want)
			}
		}
	}
}

// A bill of one merchant is found at the old backend, and the ledger has one of another merchant with the same id at the
// new backend: the first one keeps the partner from being drained, too.
func TestBillBesideARowOfAnotherMerchantIsOpenAtItsBackend(t *testing.T) {
	t.Parallel()
	d, route := newMerchants(t, routing.StageNew, map[string]string{"old": shopA})
	created, err := route("bill.create", shopB)
	if err != nil || created.Upstream != "new" || d.ended(created, ledger.Succeeded) != nil {
		t.Fatalf("%+v, %v", created, err)
	}
	if open := d.openAt(t, "old", d.now); open != 0 {
		t.Errorf("%d bills are open before it was found", open)
	}
	d.goes("old")(route("bill.read", shopA))
	for backend, want := range map[string]int{"old": 1, "new": 1} {
		if open := d.openAt(t, backend, d.now); open != want {
			t.Errorf("%d bills are open at %s, want %d", open, backend, want)
		}
	}
	if open := d.openAt(t, "old", d.now.Add(400*24*time.Hour)); open != 0 {
		t.Errorf("%d bills are open after the estimated end", open)
	}
}

// openAt is how many bills are open at a backend.
func (d *crossroads) openAt(t *testing.T, backend string, at time.Time) (open int) {
	t.Helper()
	bills, err := d.store.OpenBillsIn(t.Context(), store.AllPartners, at)
	must(t, err)
	for _, b := range bills {
		if b.Upstream == backend {
			open += b.Open()
		}
	}
	return open
}

// What a read shows of a bill of one merchant says nothing about that of another merchant with the same id: neither that
// it has ended, nor how a write of it ended.
func TestReadOfAnotherMerchantRecordsNothing(t *testing.T) {
	t.Parallel()
	d, route := newMerchants(t, routing.StageOld, nil)
	created, err := route("bill.create", shopA)
	if err != nil || d.ended(created, ledger.Succeeded) != nil {
		t.Fatalf("%+v, %v", created, err)
	}
	cancel, err := route("bill.cancel", shopA)
	if err != nil || d.Ended(t.Context(), cancel, routing.Ending{Outcome: ledger.Unknown, Unknown: true}) != nil {
		t.Fatalf("%+v, %v", cancel, err)
	}
	d.now = d.now.Add(time.Hour)
	shows := func(merchant string) proxytest.Owner {
		t.Helper()
		read := routing.ReadResult{Result: routing.Present, State: "C", Ended: true, By: routing.ByOperator, Merchant: merchant}
		must(t, d.RecordRead(t.Context(), ledger.Bill{Partner: someone, ID: bill}, nil, d.Looked("old", read, false, d.now)...))
		row, err := d.owner()
		must(t, err)
		return row
	}
	if row := shows(shopB); !row.Ended.IsZero() || !row.Unknown {
		t.Errorf("after a read of another merchant: %+v", row)
	}
	if row := shows(shopA); row.Ended.IsZero() || row.Unknown {
		t.Errorf("after a read of its merchant: %+v", row)
	}
	must(t, d.store.MoveEnd(t.Context(), ledger.Bill{Partner: someone, ID: bill}, ledger.Call{At: d.now, Merchant: shopB}, d.now.Add(time.Minute)))
	if row, err := d.owner(); err != nil || row.Ends.Equal(d.now.Add(time.Minute)) {
		t.Errorf("a call of another merchant moved its end: %+v, %v", row, err)
	}
}

// A create of one merchant stands in the row of a bill of another merchant, and its gateway ends: its outcome is unknown,
// and only a read with its own merchant finds it out.
func TestInterruptedCreateInTheRowOfAnotherMerchant(t *testing.T) {
	t.Parallel()
	for _, other := range []ledger.Outcome{ledger.Succeeded, ledger.Unknown} {
		d, route := newMerchants(t, routing.StageNew, map[string]string{})
		created, err := route("bill.create", shopB)
		if err != nil || d.Ended(t.Context(), created, routing.Ending{Outcome: other, Unknown: other == ledger.Unknown}) != nil {
			t.Fatalf("%+v, %v", created, err)
		}
		d.goes("new")(route("bill.create", shopA))
		d.now = d.now.Add(time.Hour)
		unknown := func(of string) (n int) {
			t.Helper()
			b, err := d.store.Bill(t.Context(), someone, bill)
			must(t, err)
			for _, w := range b.Writes {
				if w.Merchant == of && w.Resolved.IsZero() {
					n++
				}
			}
			return n
		}
		for range 2 { // the second time it is there
			must(t, d.store.Interrupted(t.Context(), d.now, ledger.Interrupted{Finding: routing.NotAsked, Next: d.now}))
			if n := unknown(shopA); n != 1 {
				t.Fatalf("%s: %d creates of the first merchant have an unknown outcome", other, n)
			}
		}
		b, err := d.store.Bill(t.Context(), someone, bill)
		if w := b.LastWrite(shopA); err != nil || w.Upstream != "new" || w.Member != "a member" || b.Due.IsZero() {
			t.Errorf("%s: %+v of %+v, %v", other, w, b, err)
		}
		for _, row := range []struct {
			merchant string
			want     int
		}{{shopB, 1}, {shopA, 0}} {
			read := routing.ReadResult{Result: routing.Present, State: "W", By: routing.ByGateway, Merchant: row.merchant}
			must(t, d.RecordRead(t.Context(), ledger.Bill{Partner: someone, ID: bill}, nil, d.Looked("new", read, false, d.now)...))
			if n := unknown(shopA); n != row.want {
				t.Errorf("%s: after a read of %s: %d", other, row.merchant, n)
			}
		}
	}
}

// A call found the bill of one merchant at the old backend, and the row is of another merchant's bill with the id at the
// new one. Once the partner is drained, calls about the first bill still reach it, and no second one is created. While the
// old backend does not answer, calls about the other bill work, and so do those of a third merchant that the new backend shows.
func TestDrainedPartnerBesideARowOfAnotherMerchant(t *testing.T) {
	t.Parallel()
	bills := map[string]string{}
	d, route := newMerchants(t, routing.StageNew, bills)
	must(t, d.ownedBeside(t, "old"))
	d.stage(routing.StageDrained)
	for _, row := range []struct{ operation, merchant, at, upstream, refusedAs string }{
		{"bill.read", shopA, "old", "old", ""},
		{"bill.cancel", shopA, "old", "old", ""},
		{"bill.create", shopA, "old", "old", ""}, // the backend refuses it
		{"bill.create", "shop c", "", "new", ""},
		{"bill.cancel", shopB, "off", "new", ""},
		{"bill.cancel", shopA, "off", "", "unclear"},
		{"bill.create", shopA, "off", "", "unclear"},
		{"bill.cancel", "shop c", "off", "new", ""},
		{"bill.read", "shop c", "off", "new", ""},
	} {
		d.says["old"], bills["old"], bills["new"] = routing.Absent, row.at, shopB
		if row.at == "off" {
			d.says["old"] = routing.Unclear
		}
		if row.merchant == "shop c" && row.at == "off" {
			bills["new"] = "shop c"
		}
		if row.at == "old" {
			bills["old"] = shopA
		}
		r, err := route(row.operation, row.merchant)
		if r.Upstream != row.upstream || r.Answered || row.refusedAs != "" != refusedFor(err, row.refusedAs) || row.refusedAs == "" && err != nil {
			t.Errorf("%+v: %+v, %v", row, r, err)
		}
		if row.operation == "bill.create" && err == nil {
			if err := d.ended(r, ledger.Refused); err != nil {
				t.Error(err)
			}
		}
	}
}
