package store_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// A call of a method of the store.
type call struct {
	method string
	call   func(ctx context.Context) error
}

// callsOf are calls of every method that runs statements. What removes or changes many rows comes last.
func callsOf(t *testing.T, s *store.Store) (all []call) {
	later, some := noon.Add(time.Hour), partner.Of("partner 7")
	to := func(method string, f func(ctx context.Context) error) { all = append(all, call{method, f}) }
	one := func(_ any, err error) error { return err }
	two := func(_, _ any, err error) error { return err }
	for _, state := range []store.State{"", store.Waiting, store.Delivered, store.Dead, store.Dropped, store.Superseded} {
		for _, f := range []store.Filter{
			{},
			{PartnerPrefix: partnerOne},
			{PartnerPrefix: some},
			{PartnerPrefix: partnerOne, Bill: "b1002"},
			{Bill: "b1002"},
			{Bill: "none"},
			{Upstream: "new"},
			{Upstream: "none"},
			{Since: noon.Add(-time.Minute)},
			{Until: noon.Add(-7 * time.Hour), Limit: 1000},
			{InOrder: true},
		} {
			f.State = state
			to("Page", func(ctx context.Context) error { return one(s.Page(ctx, f)) })
			to("Count", func(ctx context.Context) error { return one(s.Count(ctx, f)) })
		}
	}
	to("Get", func(ctx context.Context) error { return one(s.Get(ctx, "cb_0")) })
	to("Attempts", func(ctx context.Context) error { return one(s.Attempts(ctx, "cb_0")) })
	to("Newer", func(ctx context.Context) error { return one(s.Newer(ctx, callback("cb_0", "b0"))) })
	for i, c := range []store.Callback{callback("new1", "new"), callback("new2", "b1002"), callback("cb_read_3", "b1002"), callback("ev_4", ""), callback("ev_5", ""), callback("again", "b1002")} {
		to("Accept", func(ctx context.Context) error {
			if c.Later, c.Outdone = "paid cancelled", "cancelled"; i == 3 || i == 4 {
				c.Order, c.Address, c.Once, c.Later, c.Outdone = "events", "", true, "", ""
			}
			if i == 5 {
				c.Address, c.Digest, c.Received = "a1002", callback("cb_0", "").Digest, noon.Add(-time.Second)
			}
			return two(s.Accept(ctx, c, time.Hour))
		})
	}
	to("AcceptShowing", func(ctx context.Context) error {
		c := callback("shows", "b1004")
		c.Says, c.Merchant = "paid", "shop"
		return one(s.AcceptShowing(ctx, c, time.Hour, ledger.Event{
			Call: ledger.Call{At: noon, Upstream: "new", Merchant: "shop"}, What: ledger.Told{Shows: ledger.Shows{Means: "paid"}},
		}))
	})
	to("NextDue", func(ctx context.Context) error { return two(s.NextDue(ctx, noon)) })
	to("Stats", func(ctx context.Context) error { return one(s.Stats(ctx, noon)) })
	var claimed []store.Claimed
	to("Claim", func(ctx context.Context) (err error) {
		claimed, err = s.Claim(ctx, later, time.Minute, 20, 4, 20, nil)
		return err
	})
	to("Finish", func(ctx context.Context) (err error) {
		for i, c := range claimed[:min(3, len(claimed))] {
			state := []store.State{store.Waiting, store.Delivered, store.Dead}[i]
			err = errors.Join(err, one(s.Finish(ctx, c, store.Result{At: later, Status: 500, State: state, Next: later.Add(time.Minute)})))
		}
		return err
	})
	for _, since := range []time.Duration{0, time.Hour, 40 * time.Hour} {
		to("Happened", func(ctx context.Context) error { return one(s.Happened(ctx, noon.Add(-since), later)) })
	}
	for _, id := range []partner.ID{"", partnerOne} {
		to("Missing", func(ctx context.Context) error { return two(s.Missing(ctx, id, 100)) })
		to("Partner", func(ctx context.Context) error { return one(s.Partner(ctx, cmp.Or(id, partnerOne)[:12])) })
		for _, list := range []store.BillList{store.AllBills, store.UnknownBills, store.UnclearBills, store.ResolvedBills, store.DoubledBills} {
			for _, f := range []store.BillFilter{{}, {Bill: "none"}, {Upstream: "none", Open: true}, {Due: noon.Add(-time.Hour)}} {
				f.List, f.PartnerPrefix, f.Now, f.UnclearBefore, f.Limit = list, id, noon, later, 100
				to("Bills", func(ctx context.Context) error { return two(s.Bills(ctx, f)) })
			}
		}
		to("OpenBillsIn", func(ctx context.Context) error { return one(s.OpenBillsIn(ctx, store.AllPartners.Of(id), noon)) })
		for _, f := range []store.AuditFilter{
			{},
			{Actions: []store.Action{store.BackedUp}},
			{Actions: []store.Action{store.Staged, store.WaveChanged}},
			{By: "nobody"},
			{By: "b1"},
			{Since: noon.Add(-time.Minute)},
			{OldestFirst: true, Since: noon.Add(-7 * time.Hour)},
			{After: noon.Add(-time.Hour).UnixMilli()},
			{Actions: []store.Action{store.SignedIn}, By: "nobody"},
		} {
			f.Partner, f.Shared, f.Limit = id, len(f.Actions) > 0, 100
			to("Audit", func(ctx context.Context) error { return one(s.Audit(ctx, f)) })
		}
	}
	to("Begin", func(ctx context.Context) error {
		return two(s.Begin(ctx, ledger.Bill{Partner: partnerOne, ID: "begun"}, address("000000000001", "begun"), ledger.Event{
			Call: ledger.Call{At: later, Upstream: "new"}, What: ledger.CreateBegun{Token: "token"},
		}))
	})
	to("Apply", func(ctx context.Context) error {
		c, err := proxytest.On(s).Own(ctx, partnerOne, "created", "new", later, time.Time{}, "shop")
		if err == nil {
			_, err = proxytest.On(s).Complete(ctx, c, ledger.Succeeded, later)
		}
		return err
	})
	to("Apply", func(ctx context.Context) error {
		return one(proxytest.On(s).Deny(ctx, partnerOne, "b1002", later, noon, ""))
	})
	to("Bill", func(ctx context.Context) error { return one(s.Bill(ctx, partnerOne, "b1002")) })
	to("MoveEnd", func(ctx context.Context) error {
		return proxytest.On(s).EndMoved(ctx, partnerOne, "b1002", noon, later, "")
	})
	to("Dismiss", func(ctx context.Context) error {
		return one(s.Dismiss(ctx, partnerOne, "b1002", "shop", "anna", later))
	})
	to("DueReads", func(ctx context.Context) error { return one(s.DueReads(ctx, store.Due{Bills: later, Looks: later})) })
	to("ClaimRead", func(ctx context.Context) error {
		return one(s.ClaimRead(ctx, partnerOne, store.Due{Bills: later, Looks: later}, later))
	})
	to("Bind", func(ctx context.Context) error { return one(s.Bind(ctx, address("bound", "bound"))) })
	to("Bind", func(ctx context.Context) error { return one(s.Bind(ctx, registration("registered", "x", noon))) })
	to("Rebind", func(ctx context.Context) error {
		return s.Rebind(ctx, address("bound", "bound"), store.Change{Action: store.AddressAssigned, By: "anna", At: later, Partner: partnerOne})
	})
	to("Unbind", func(ctx context.Context) error { return s.Unbind(ctx, "bound") })
	to("Address", func(ctx context.Context) error { return one(s.Address(ctx, "a0")) })
	to("Address", func(ctx context.Context) error {
		if _, err := s.Address(ctx, "0123456789abcdef0123456789abcdef"); !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return nil
	})
	to("MayHold", func(ctx context.Context) error { return one(s.MayHold(ctx, partner.Of("new"))) })
	to("Prove", func(ctx context.Context) error { return s.Prove(ctx, partner.Of("new")) })
	to("Seen", func(ctx context.Context) error { return s.Seen(ctx, partner.Of("new"), noon) })
	to("FirstSeen", func(ctx context.Context) error { return one(s.FirstSeen(ctx, partner.Of("new"))) })
	to("SeenPartners", func(ctx context.Context) error { return one(s.SeenPartners(ctx, store.AllPartners)) })
	to("PartnersIn", func(ctx context.Context) error { return one(s.PartnersIn(ctx, store.AllPartners, 100)) })
	to("AddCounts", func(ctx context.Context) error {
		return one(s.AddCounts(ctx, "v2", []store.Counts{{Partner: partnerOne, Operation: "bill.create", Data: []byte("{}")}}, noon, nil))
	})
	to("CountsIn", func(ctx context.Context) error { return one(s.CountsIn(ctx, "v1", store.AllPartners)) })
	to("CountsIn", func(ctx context.Context) error { return one(s.CountsIn(ctx, "v1", store.AllPartners.Of(some))) })
	to("CountsOf", func(ctx context.Context) error { return one(s.CountsOf(ctx, "v1", []partner.ID{some})) })
	to("MarkedCounts", func(ctx context.Context) error { return one(s.MarkedCounts(ctx)) })
	to("Ping", s.Ping)
	to("Tick", func(ctx context.Context) error { return one(s.Tick(ctx, noon)) })
	to("Upstreams", func(ctx context.Context) error { return one(s.Upstreams(ctx)) })
	to("Start", func(ctx context.Context) error { return s.Start(ctx, noon) })
	to("Revision", func(ctx context.Context) error { return one(s.Revision(ctx)) })
	to("Rollout", func(ctx context.Context) error { return one(s.Rollout(ctx)) })
	to("SetConfigDefault", func(ctx context.Context) error {
		return errors.Join(s.SetConfigDefault(ctx, "old", noon), s.SetConfigDefault(ctx, "canary", noon))
	})
	to("Waves", func(ctx context.Context) error { return one(s.Waves(ctx, true)) })
	to("WavePartners", func(ctx context.Context) error { return one(s.WavePartners(ctx, "autumn")) })
	to("InWaves", func(ctx context.Context) error { return one(s.InWaves(ctx)) })
	to("CreateWave", func(ctx context.Context) error {
		return s.CreateWave(ctx, store.Wave{Name: "winter", Plan: "{}", By: "anna", Since: later, Created: later}, []store.WavePartner{{Partner: partner.Of("new")}})
	})
	to("StepWave", func(ctx context.Context) error {
		revision, err := s.Revision(ctx)
		return errors.Join(err, one(s.StepWave(ctx, store.WaveStep{
			Wave: "winter", Revision: revision, Forward: true, Stepped: later,
			Stage: store.Stage{Partner: partner.Of("new"), Stage: "canary", By: "wave winter", At: later},
		})))
	})
	to("ReleasePartner", func(ctx context.Context) error {
		return s.ReleasePartner(ctx, "winter", partner.Of("new"), "wave winter", "anna", later)
	})
	to("SetWave", func(ctx context.Context) error {
		return s.SetWave(ctx, store.Wave{Name: "winter", State: store.WaveEnded, By: "anna", Since: later}, time.Time{}, store.WaveRunning)
	})
	for _, c := range []store.Change{
		{Action: store.Staged, Partner: some, To: "old"},
		{Action: store.Stopped},
		{Action: store.Resumed},
		{Action: store.Restored},
		{Action: store.Begun},
		{Action: store.Reset, Partner: some},
		{Action: store.Assigned, Partner: partnerOne, Subject: "b1002", To: "new"},
	} {
		c.By, c.At = "anna", later
		to("Change", func(ctx context.Context) error { return s.Change(ctx, c) })
	}
	to("Reconcile", func(ctx context.Context) error {
		upstreams := []store.Upstream{{Name: "new", Form: "v2", URL: "https://new"}, {Name: "old", Form: "legacy", URL: "https://old"}}
		for _, u := range []string{"https://gone", "https://moved"} {
			upstreams := append(upstreams, store.Upstream{Name: "gone", Form: "v2", URL: u})
			if _, err := s.Reconcile(ctx, upstreams, true, noon); err != nil {
				return err
			}
		}
		return one(s.Reconcile(ctx, upstreams, true, noon))
	})
	to("SetBackends", func(ctx context.Context) error {
		return s.SetBackends(ctx, store.Backends{Old: "old", New: "new", Staying: []string{"old", "canary"}}, noon)
	})
	to("CheckKey", func(ctx context.Context) error {
		_, err := s.CheckKey(ctx, store.PartnerKey{Key: partnerOne, Partner: partner.Of("other")})
		if conflict := (*store.KeyConflict)(nil); errors.As(err, &conflict) {
			err = nil
		}
		return err
	})
	to("AddKey", func(ctx context.Context) error {
		return one(s.AddKey(ctx, store.PartnerKey{Key: partner.Of("new"), Partner: some}, "anna", later, nil))
	})
	to("Hasten", func(ctx context.Context) error { return one(s.Hasten(ctx, noon.Add(-90*time.Minute), time.Hour)) })
	for _, d := range []store.Decision{store.Replay, store.Drop} {
		to("DecideOne", func(ctx context.Context) error {
			p, err := s.Page(ctx, store.Filter{State: store.Dead, Limit: 1})
			for _, c := range p.Callbacks {
				err = s.DecideOne(ctx, d, c.ID, "anna", later)
			}
			return err
		})
		for _, f := range []store.Filter{{PartnerPrefix: some}, {Bill: "b1002"}, {Upstream: "none"}, {PartnerPrefix: partnerOne, Limit: 15}, {InOrder: true, Limit: 15}} {
			to("Decide", func(ctx context.Context) error { return one(s.Decide(ctx, d, f, "anna", later, nil)) })
		}
	}
	to("PlanReads", func(ctx context.Context) error { return s.PlanReads(ctx, "") })
	to("PlanReads", func(ctx context.Context) error { return s.PlanReads(ctx, some) })
	to("Interrupted", func(ctx context.Context) error {
		return s.Interrupted(ctx, noon.Add(-240*time.Hour), ledger.Interrupted{Finding: "not asked", Next: later})
	})
	to("SweepCounts", func(ctx context.Context) error { return one(s.SweepCounts(ctx, "v2", later)) })
	to("SweepCounts", func(ctx context.Context) error { return one(s.SweepCounts(ctx, "v1", later)) })
	to("SweepBodies", func(ctx context.Context) error { return one(s.SweepBodies(ctx, later, 0)) })
	to("Sweep", func(ctx context.Context) error { return one(s.Sweep(ctx, later, 24*365*time.Hour)) })
	to("Sweep", func(ctx context.Context) error { return one(s.Sweep(ctx, noon.Add(-time.Hour), 0)) })
	to("SweepBills", func(ctx context.Context) error { return one(s.SweepBills(ctx, later, later, 0)) })
	to("ConfirmClock", func(ctx context.Context) error { return s.ConfirmClock(ctx, "anna", later) })
	ctx := reflect.TypeFor[context.Context]()
	for m := range reflect.TypeOf(s).Methods() {
		called := slices.ContainsFunc(all, func(c call) bool { return c.method == m.Name })
		if m.Type.NumIn() > 1 && m.Type.In(1) == ctx && !called && !strings.Contains(notCalled, " "+m.Name+" ") {
			t.Errorf("there is no call of %s", m.Name)
		}
	}
	return all
}

// notCalled are methods for tests, one that reads no table, and those of looks, which may sort the looks of a partner.
const notCalled = " Ask AskBatches Clear Exec PageWithin Synchronous ClaimLook DueLooks EndLook Told "

// growing are the tables that grow with time.
var growing = []string{"callbacks", "attempts", "addresses", "bills", "audit", "counts", "seen", "proven", "stages", "wave_partners"}

// partners are those of the tables with a row for each partner.
const partners = 1000

// template makes a row of each table that fill copies.
func template(t *testing.T, s *store.Store) {
	t.Helper()
	ctx := t.Context()
	must(t, s.Prove(ctx, partnerOne))
	must(t, s.Seen(ctx, partnerOne, noon))
	accept(t, s, callback("cb_0", "b0"))
	for _, c := range claim(t, s, noon) {
		finish(t, s, c, noon, store.Waiting)
	}
	bind(t, s, address("a0", "b0"))
	must(t, proxytest.On(s).NoAnswer(ctx, partnerOne, "b0", ledger.Call{
		Operation: "bill.create", Upstream: "old", Request: "call", At: noon, Member: "member", Merchant: "shop",
	}, ledger.Reading{Finding: "not asked"}, noon))
	must(t, proxytest.On(s).MarkDoubled(ctx, partnerOne, "b0", "bill.read", "call", noon))
	must(t, s.Change(ctx, store.Change{Action: store.SignedIn, By: "anna", At: noon.Add(-365 * 24 * time.Hour)}))
	must(t, s.Change(ctx, store.Change{Action: store.Staged, Partner: partnerOne, To: "old", By: "anna", At: noon.Add(-365 * 24 * time.Hour)}))
	works(t)(s.AddCounts(ctx, "v1", []store.Counts{{Partner: partnerOne, Operation: "bill.create", Data: []byte("{}")}}, noon, nil))
	must(t, s.CreateWave(ctx, store.Wave{Name: "autumn", Plan: "{}", By: "anna", Since: noon, Created: noon}, []store.WavePartner{{Partner: partnerOne}}))
}

// fill copies the rows of template to size rows of each table, half of them of the first partner. Of each kind that a
// statement may look for there are many.
func fill(t *testing.T, s *store.Store) {
	t.Helper()
	var ids []string
	for i := range partners {
		ids = append(ids, "('"+string(partner.Of(fmt.Sprint("partner ", i)))+"')")
	}
	must(t, s.Exec(t.Context(), "INSERT INTO billbridge_proven VALUES "+strings.Join(ids, ", ")))
	at := func(i string) string { return fmt.Sprintf("%d - %s * 1000", noon.UnixMilli(), i) }
	for _, table := range []struct {
		name string
		rows int
		with map[string]string // what columns have in place of the template
	}{
		{"callbacks", size, map[string]string{
			"id": "CASE WHEN i % 7 = 0 THEN 'cb_read_' ELSE 'cb_' END || i", "address": "CASE WHEN i % 5 = 0 THEN '' ELSE 'a' || i END",
			"upstream": "CASE WHEN i % 2 = 0 THEN 'new' ELSE 'old' END", "bill": "CASE WHEN i % 5 = 0 THEN '' ELSE 'b' || i END",
			"host": "'h' || i % 50", "ordering": "CASE WHEN i % 5 = 0 THEN 'events' ELSE 'new/b' || i END", "first": "CASE WHEN i % 6 < 2 THEN 1 ELSE 0 END",
			"received": at("i"), "next": at("i"), "due": at("i") + " + i % 2 * 400000000", "last_at": at("i"), "lease": "''",
			"state":  "CASE i % 6 WHEN 0 THEN 'waiting' WHEN 1 THEN 'waiting' WHEN 2 THEN 'failed' WHEN 3 THEN 'delivered' WHEN 4 THEN 'superseded' ELSE 'dropped' END",
			"done":   "CASE WHEN i % 6 > 2 THEN " + at("i") + " END",
			"erased": "CASE WHEN i % 6 > 2 AND i > 999 THEN " + at("i") + " END",
			"says":   "CASE WHEN i % 3 = 0 THEN 'cancelled' ELSE 'paid' END",
		}},
		{"attempts", size, map[string]string{"callback": "i + 1"}},
		{"addresses", size, map[string]string{
			"id": "'a' || i", "upstream": "CASE WHEN i % 2 = 0 THEN 'new' ELSE 'old' END", "bill": "'b' || i", "created": at("i"),
			"until": "CASE WHEN i % 3 = 0 THEN " + at("i") + " END", "ends": at("i"), "look": at("i"), "missing": at("i"),
		}},
		{"bills", size, map[string]string{
			"bill": "'b' || i", "version": "i", "upstream": "CASE WHEN i % 2 = 0 THEN 'new' ELSE 'old' END",
			"state": "CASE i % 4 WHEN 0 THEN 'released' WHEN 1 THEN 'pending' ELSE 'owned' END",
			"ends":  at("i"), "estimated": "i / 2 % 2", "denied": fmt.Sprint("CASE WHEN i % 3 = 0 THEN ", noon.UnixMilli(), " END"), "due": at("i"),
			"unknown": at("i"), "resolved": at("i"), "doubled": "CASE WHEN i % 3 = 1 THEN " + at("i") + " END",
		}},
		{"audit", size, map[string]string{
			"revision": at("i"), "done_at": at("i"), "done_by": "'b' || i % 5",
			"action": "CASE i % 3 WHEN 0 THEN 'sign_in' WHEN 1 THEN 'stage' ELSE 'replay' END",
		}},
		{"seen", partners, map[string]string{"partner": "p.partner"}},
		{"stages", partners, map[string]string{"partner": "p.partner"}},
		{"counts", partners, map[string]string{"partner": "p.partner", "marked": "1"}},
		{"wave_partners", partners, map[string]string{"partner": "p.partner", "place": "i"}},
	} {
		var columns, values []string
		for _, column := range s.Columns(t, "billbridge_"+table.name) {
			if column == "seq" {
				continue
			}
			columns = append(columns, column)
			value := cmp.Or(table.with[column], "row."+column)
			if column == "partner" && table.with[column] == "" {
				value = "CASE WHEN i % 2 = 0 THEN row.partner ELSE p.partner END"
			}
			values = append(values, value)
		}
		must(t, s.Exec(t.Context(), fmt.Sprintf(`
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d),
				p AS (SELECT partner, row_number() OVER (ORDER BY partner) AS k FROM billbridge_proven WHERE partner <> '%s')
			INSERT INTO billbridge_%s (%s) SELECT %s FROM n JOIN p ON p.k = 1 + i %% %d CROSS JOIN
				(SELECT * FROM billbridge_%[3]s LIMIT 1) AS row`,
			table.rows, partnerOne, table.name, strings.Join(columns, ", "), strings.Join(values, ", "), partners)))
	}
}
