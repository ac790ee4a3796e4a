package operate_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/evidence"
	"billbridge/proxy/ledger"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/relay"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// readsAs makes each read of a bill give a result; it returns with whom and where bills were read.
func (d *testOperator) readsAs(result string) (reads *[]string) {
	reads = new([]string)
	d.Operator.Knows = func(partner.ID) bool { return true }
	d.ReadBill = func(_ context.Context, upstream string, as routing.Credentials, bill string) (routing.BackendBill, routing.Credentials) {
		*reads = append(*reads, bill+" at "+upstream+" as "+as.Member+"/"+as.Merchant+" after "+d.Operator.Now().Sub(noon).String())
		as.Key = "key"
		return routing.BackendBill{Upstream: upstream, Result: result}, as
	}
	return reads
}

// noAnswer records a cut off create of a bill without an owner.
func (d *testOperator) noAnswer(bill, merchant string) {
	ctx, bills, one := d.t.Context(), proxytest.On(d.store), partner.Of("one")
	create := ledger.Call{Operation: "bill.create", Upstream: "legacy", Request: "call", At: noon, Member: "member", Merchant: merchant}
	must(d.t, d.store.Prove(ctx, one))
	works(d.t)(bills.Own(ctx, one, bill, "legacy", noon, time.Time{}, ""))
	must(d.t, bills.NoAnswer(ctx, one, bill, create, ledger.Reading{Finding: routing.NotAsked}, d.Router.Settings().NextRead(noon, noon)))
}

// A bill that gives no clear answer is read 64 s, 5, 15 and 60 minutes after the write, and then daily for
// a week. Before 63 s a read resolves nothing, since the write may be under way.
func TestTimesOfReads(t *testing.T) {
	t.Parallel()
	const want = "2m 5m 15m 1h0m 25h0m 49h0m 73h0m 97h0m 121h0m 145h0m"
	d := operatorInMemory(t, separate)
	reads := d.readsAs(routing.ResultTexts[routing.Unclear])
	d.noAnswer("B1", "shop")
	var at []string
	for minute := range 9 * 24 * 60 {
		d.later.Store(int64(time.Duration(minute) * time.Minute))
		if must(t, d.ReadDue(t.Context())); len(*reads) > len(at) {
			_, after, _ := strings.Cut((*reads)[len(at)], " at legacy as member/shop after ")
			at = append(at, strings.TrimSuffix(after, "0s"))
		}
	}
	if got := strings.Join(at, " "); got != want || len(at) != len(*reads) {
		t.Errorf("%s, want %s", got, want)
	}
}

// A create that named no merchant is read with the merchant of the partner's first call. That this one has no such bill does not resolve
// it: the bill may be that of another merchant.
func TestReadWithAnotherMerchantResolvesNothing(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	d.readsAs(routing.ResultTexts[routing.Absent])
	read, first := d.ReadBill, ""
	d.ReadBill = func(ctx context.Context, upstream string, as routing.Credentials, bill string) (routing.BackendBill, routing.Credentials) {
		as.Merchant = cmp.Or(as.Merchant, first) // as the gateway does
		return read(ctx, upstream, as, bill)
	}
	d.noAnswer("B1", "")
	for i, merchant := range []string{"first shop", ""} {
		first = merchant
		d.later.Store(int64(time.Duration(i+1) * time.Hour))
		works(t)(d.ReadAll(t.Context(), operate.PartnerRef{}))
		must(t, d.ReadDue(t.Context()))
		list, err := d.Bills(t.Context(), operate.BillFilter{Outcome: "unknown"})
		if must(t, err); len(list.Bills) != 1-i {
			t.Errorf("read with the merchant %q: %d writes have an unknown outcome", merchant, len(list.Bills))
		}
	}
}

// A partner's bills are read once its key is known. "No such bill" resolves a create only if the bill was read with the
// merchant of the create: another merchant does not have it either.
func TestReadsNeedTheKeyAndTheMerchant(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := operatorInMemory(t, separate)
	reads := d.readsAs(routing.ResultTexts[routing.Absent])
	known := false
	d.Operator.Knows = func(id partner.ID) bool { return known && id == partner.Of("one") }
	d.noAnswer("B1", "shop")
	d.noAnswer("B2", "another shop")
	// Its gateway ended. The ledger has the merchant of the first create, which may have been another one.
	_, err := proxytest.On(d.store).Own(ctx, partner.Of("one"), "B3", "legacy", noon.Add(-time.Hour), time.Time{}, "shop")
	must(t, err)
	must(t, d.store.Interrupted(ctx, noon.Add(-time.Minute), ledger.Interrupted{Finding: routing.NotAsked, Next: noon}))
	d.later.Store(int64(time.Hour))
	must(t, d.ReadDue(ctx))
	if len(*reads) > 0 {
		t.Errorf("read without a key: %q", *reads)
	}
	known = true
	must(t, d.ReadDue(ctx))
	if got, want := strings.Join(*reads, ", "), "B3 at legacy as /shop after 1h0m0s, B1 at legacy as member/shop after 1h0m0s, B2 at legacy as member/another shop after 1h0m0s"; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
	left := func(outcome string) (bills string) {
		list, err := d.Bills(ctx, operate.BillFilter{Outcome: outcome})
		must(t, err)
		for _, b := range list.Bills {
			bills += b.Bill + " " + b.Write.Result + " by " + b.Write.ReadBy + "; "
		}
		return bills
	}
	if unknown, resolved := left("unknown"), left("resolved"); unknown != "B3 no such bill by gateway; " ||
		resolved != "B2 no such bill by gateway; B1 no such bill by gateway; " {
		t.Errorf("unknown: %s, resolved: %s", unknown, resolved)
	}
	ref := operate.PartnerRef{Partner: string(partner.Of("one"))}
	works(t)(d.Read(ctx, operate.BillRef{PartnerRef: ref, Bill: "B3", Merchant: "shop"}))
	equal(t, left("unknown"), "B3 no such bill by operator; ", "an operator has read the bill, and unknown are")
	*reads = nil
	works(t)(proxytest.On(d.store).Own(ctx, partner.Of("one"), "B4", "legacy", noon, time.Time{}, "owning shop"))
	works(t)(d.Read(ctx, operate.BillRef{PartnerRef: ref, Bill: "B4"}))
	if got := strings.Join(*reads, ", "); strings.Count(got, "as /owning shop") != 2 {
		t.Errorf("no merchant was named, and the bill is read as %s", got)
	}
	dismissal := operate.Dismissal{Author: operate.Author{By: "anna"}, PartnerRef: ref, Bill: "B3"}
	if n, err := d.Dismiss(ctx, dismissal); err != nil || n.Writes != 1 || left("unknown") != "" {
		t.Errorf("%+v, %v, left: %s", n, err, left("unknown"))
	}
	fails(t, "no write of the bill has an unknown outcome")(d.Dismiss(ctx, dismissal))
}

// Writes of two merchants with one bill id are listed with their merchants, read with them, and dismissed apart.
func TestWritesOfTwoMerchants(t *testing.T) {
	t.Parallel()
	d, ctx := operatorInMemory(t, separate), t.Context()
	reads := d.readsAs(routing.ResultTexts[routing.Unclear])
	for _, merchant := range []string{"shop", "another shop"} {
		d.noAnswer("B1", merchant)
	}
	merchants := func() (all []string) {
		t.Helper()
		list, err := d.Bills(ctx, operate.BillFilter{Outcome: "unknown"})
		must(t, err)
		for _, b := range list.Bills {
			all = append(all, b.Write.Merchant)
		}
		slices.Sort(all)
		return all
	}
	equal(t, merchants(), []string{"another shop", "shop"})
	d.later.Store(int64(3 * time.Minute))
	must(t, d.ReadDue(ctx))
	ref := operate.PartnerRef{Partner: hash("one")[:12]}
	works(t)(d.Read(ctx, operate.BillRef{PartnerRef: ref, Bill: "B1", Merchant: "shop"}))
	got := strings.Join(*reads, ", ")
	equal(t, strings.Count(got, "/shop")*10+strings.Count(got, "/another shop"), 31, got) // by both backends for a person
	dismissal := operate.Dismissal{Author: operate.Author{By: "anna"}, PartnerRef: ref, Bill: "B1"}
	fails(t, "Name one")(d.Dismiss(ctx, dismissal))
	dismissal.Merchant = "shop"
	works(t)(d.Dismiss(ctx, dismissal))
	equal(t, merchants(), []string{"another shop"})
}

// A read that ends in a panic, or of a bill at an upstream that is no backend any more, is made no more before its turn.
func TestReadsThatFail(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	reads := d.readsAs(routing.ResultTexts[routing.Present])
	d.noAnswer("B1", "shop")
	cancel := ledger.Call{Operation: "bill.cancel", Upstream: "gone", At: noon}
	must(t, proxytest.On(d.store).NoAnswer(t.Context(), partner.Of("one"), "B2", cancel, ledger.Reading{Finding: routing.NotAsked}, noon))
	read := d.ReadBill
	d.ReadBill = func(ctx context.Context, upstream string, as routing.Credentials, bill string) (routing.BackendBill, routing.Credentials) {
		_, _ = read(ctx, upstream, as, bill)
		panic("a bug")
	}
	d.later.Store(int64(3 * time.Minute))
	must(t, d.ReadDue(t.Context()))
	must(t, d.ReadDue(t.Context()))
	if len(*reads) != 1 || !strings.Contains(d.logs.String(), "panic: a bug") {
		t.Errorf("%q\n%s", *reads, d.logs.String())
	}
	list, err := d.Bills(t.Context(), operate.BillFilter{Outcome: "unknown"})
	must(t, err)
	for _, b := range list.Bills {
		if b.Write.Reads != 1 || b.Write.Result != routing.NotAsked || !b.NextRead.After(noon.Add(3*time.Minute)) {
			t.Errorf("%+v", b.Write)
		}
	}
}

// A partner with many due reads does not hold up one whose read becomes due meanwhile.
func TestManyReadsOfAPartnerDelayNoOther(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate+proxytest.Tuned(func(c *config.Config) { c.Limits.Reads = 100 }))
	due := func(key, bill string) {
		must(t, d.store.Prove(t.Context(), partner.Of(key)))
		cancel := ledger.Call{Operation: "bill.cancel", Upstream: "legacy", Merchant: "shop", At: noon}
		must(t, proxytest.On(d.store).NoAnswer(t.Context(), partner.Of(key), bill, cancel, ledger.Reading{Finding: routing.NotAsked}, noon))
	}
	for i := range 10 {
		due("one", fmt.Sprint("B", i))
	}
	reads := d.readsAs(routing.ResultTexts[routing.Unclear])
	read := d.ReadBill
	d.ReadBill = func(ctx context.Context, upstream string, as routing.Credentials, bill string) (routing.BackendBill, routing.Credentials) {
		if len(*reads) == 0 {
			due("two", "LATE")
		}
		return read(ctx, upstream, as, bill)
	}
	d.later.Store(int64(3 * time.Minute))
	must(t, d.ReadDue(t.Context()))
	if i := slices.IndexFunc(*reads, func(r string) bool { return strings.HasPrefix(r, "LATE ") }); i < 1 || i > 2 || len(*reads) != 11 {
		t.Errorf("read as number %d of %d: %q", i, len(*reads), *reads)
	}
}

// A bill is read once for all who ask: a write with an unknown outcome, and a callback that may be lost. A read for a
// callback is seen by the ledger, too.
func TestOneReadIsForAllWhoAsk(t *testing.T) {
	t.Parallel()
	ctx, one := t.Context(), partner.Of("one")
	d := operatorInMemory(t, separate+"callbacks: {public_url: 'https://bridge.example.com', reconcile: {}}\n")
	behind := func(want float64) {
		t.Helper()
		equal(t, testutil.ToFloat64(d.Operator.Behind()), want, "seconds that the first read for a callback is due")
	}
	d.Operator.Relay = relay.New(d.Config(), relay.Options{Store: d.store, Now: d.Operator.Now})
	reads := d.readsAs(routing.ResultTexts[routing.Present])
	read := d.ReadBill
	d.ReadBill = func(ctx context.Context, upstream string, as routing.Credentials, bill string) (routing.BackendBill, routing.Credentials) {
		says, as := read(ctx, upstream, as, bill)
		says.State, says.Ended, says.Shows.Means = "C", true, "cancelled"
		return says, as
	}
	d.noAnswer("B1", "shop")
	works(t)(proxytest.On(d.store).Found(ctx, one, "B2", "legacy", noon, "shop"))
	must(t, d.store.Prove(ctx, partner.Of("two")))
	for i, bill := range []string{"B1", "B2", "B3"} {
		works(t)(d.store.Bind(ctx, store.Address{
			ID: bill, Upstream: "legacy", Operation: "bill.create", Partner: partner.Of([]string{"one", "one", "two"}[i]), Bill: bill, Form: "v2",
			URL: "https://one.example.com/", Created: noon, Member: "member", Merchant: "shop", Look: noon.Add(-time.Duration(i) * time.Minute),
		}))
	}
	d.later.Store(int64(2 * time.Minute))
	must(t, d.ReadDue(ctx))
	behind(240)
	slices.Sort((*reads)[1:])
	for i, read := range *reads { // first the unknown outcome
		equal(t, read, fmt.Sprintf("B%d at legacy as member/shop after 2m0s", i+1))
	}
	equal(t, len(*reads), 3)
	must(t, d.ReadDue(ctx))
	behind(0)
	for _, bill := range []string{"B1", "B2"} {
		b, err := d.store.Bill(ctx, one, bill)
		equal(t, b.Unresolved(), 0, bill, err)
		equal(t, b.Ended, noon.Add(2*time.Minute), bill)
	}
	found, err := d.store.ClaimRead(ctx, one, store.Due{Looks: noon.Add(time.Hour * 12)}, noon)
	must(t, err)
	equal(t, len(found.Looks), 0, "this backend reports no cancels, so that none is missing")
}

// A bill is read back once after its create, whichever gateway ends meanwhile, and counts as the read shows it. What
// contradicts the ledger counts as that alone.
func TestReadBackIsAnEntryOfTheQueue(t *testing.T) {
	t.Parallel()
	compared := func(class evidence.Class, amount string) func(string) evidence.Comparison {
		return func(asked string) evidence.Comparison {
			equal(t, asked, amount, "the create")
			return evidence.Comparison{Class: class, Bill: "B1", Succeeded: [2]bool{true, true}, ReadBack: true, States: true}
		}
	}
	read := routing.BackendBill{Result: routing.ResultTexts[routing.Present], State: "W", Shows: ledger.Shows{Means: "unpaid"}}
	wrong := routing.BackendBill{Result: read.Result, State: "F", Shows: ledger.Shows{Means: "paid", Amount: "101"}}
	for name, row := range map[string]struct {
		bills string
		says  routing.BackendBill
		class evidence.Class // of the read
		want  evidence.Tally
		n     int // that were compared
	}{
		"as it was created":          {separate, read, evidence.Same, evidence.Tally{}, 1},
		"with shared bills":          {shared, read, evidence.Same, evidence.Tally{}, 1},
		"not there":                  {separate, routing.BackendBill{Result: routing.ResultTexts[routing.Absent]}, evidence.NotThere, evidence.Tally{NotThere: 1}, 0},
		"no answer":                  {separate, routing.BackendBill{Result: routing.ResultTexts[routing.Unclear]}, evidence.NoAnswer, evidence.Tally{Unclear: 1}, 0},
		"against the ledger's":       {separate, wrong, evidence.Differs, evidence.Tally{Differed: 1}, 1},
		"not read: no backend of it": {separate, routing.BackendBill{Result: routing.NotAsked}, "", evidence.Tally{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, one := t.Context(), partner.Of("one")
			opened := proxytest.Open(t, "memory:")
			must(t, opened.Prove(ctx, one))
			call := ledger.Call{At: noon, Operation: "bill.create", Request: "call", Upstream: "fresh", Member: "member", Merchant: "shop"}
			event := func(what ledger.What) ledger.Event { return ledger.Event{Call: call, What: what} }
			known := ledger.Bill{Partner: one, ID: "B1"}
			if row.bills == separate {
				bill, _, err := opened.Apply(ctx, known, event(ledger.CreateBegun{Token: "t", Amount: "100"}))
				must(t, err)
				known = bill
				_, _, err = opened.Apply(ctx, known, event(ledger.CreateEnded{Token: "t", Outcome: ledger.Succeeded}),
					event(ledger.Created{Amount: "100", Next: noon.Add(time.Minute)}))
				must(t, err)
			} else {
				_, _, err := opened.Apply(ctx, known, event(ledger.Created{Amount: "100", Next: noon.Add(time.Minute)}))
				must(t, err)
			}
			d := newTestOperator(t, opened, row.bills) // after the create
			if b, err := d.Read(ctx, operate.BillRef{PartnerRef: operate.PartnerRef{Partner: hash("one")}, Bill: "B1"}); err != nil ||
				row.bills == separate && !slices.Equal(b.Ledger.Awaits, []string{"read back"}) {
				t.Errorf("%+v, %v", b.Ledger, err)
			}
			reads := d.readsAs(row.says.Result)
			asked := d.ReadBill
			d.ReadBill = func(ctx context.Context, upstream string, as routing.Credentials, bill string) (routing.BackendBill, routing.Credentials) {
				_, as = asked(ctx, upstream, as, bill)
				says := row.says
				says.Upstream = upstream
				if row.class != "" {
					says.Created = compared(row.class, "100")
				}
				return says, as
			}
			for after := range 3 {
				d.later.Store(int64(time.Duration(after) * time.Minute))
				must(t, d.ReadDue(ctx))
			}
			equal(t, *reads, []string{"B1 at fresh as member/shop after 1m0s"})
			var got evidence.Tally
			n := 0
			for _, c := range d.Router.Counts().Snapshot() {
				got, n = c.Tally, c.Compared
			}
			equal(t, got, row.want)
			equal(t, n, row.n)
			b, err := opened.Bill(ctx, one, "B1")
			if must(t, err); b.Created != nil || !b.Due.IsZero() {
				t.Errorf("%+v", b)
			}
		})
	}
}
