package proxy_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"billbridge/proxy/evidence"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/store"
)

// report returns the report of the rollout as soon as far accepts it.
func (p *process) report(far func(operate.Report) bool) (r operate.Report) {
	p.t.Helper()
	body := ""
	proxytest.Eventually(p.t, func() bool {
		body = p.ask(200, "GET /rollout/report")
		r = operate.Report{}
		must(p.t, json.Unmarshal([]byte(body), &r))
		return far(r)
	}, func() string { return "the report stays\n" + body + "\n" + p.logs.String() })
	return r
}

// verdictOn returns the verdict on an operation by one kind of evidence. Its parts are not nil.
func verdictOn(r operate.Report, operation string, by evidence.Evidence) (found evidence.Verdict) {
	for _, v := range r.Verdicts {
		if v.Operation == operation && v.Evidence == by {
			found = v
		}
	}
	found.Compared = cmp.Or(found.Compared, &evidence.Compared{})
	found.CallStats = cmp.Or(found.CallStats, &evidence.CallStats{})
	return found
}

// writes is the number of calls that are not reads.
func (b *backend) writes() (n int) {
	for _, got := range b.received() {
		if !strings.HasSuffix(got.target, "/read") {
			n++
		}
	}
	return n
}

// newSharedBills is a gateway between the two forms of one service, so that both upstreams have the same bills.
func newSharedBills(t *testing.T, stage, overlay string) (p *process, service *sandbox.Service, old, fresh *backend) {
	t.Helper()
	service = newService()
	old, fresh = newBackend(t, service), newBackend(t, service)
	table := ""
	if overlay != "" {
		table = overlayFile(t, overlay)
	}
	p = newProcess(t, anyPort+fmt.Sprintf(`
upstreams:
  old: {form: legacy, url: %q}
  new: {form: v2, url: %q}
route: {default: old}
rollout: {old: old, new: new, bills: shared, default: %s, shadow: {ignore: [apprPayType, apprCashTrader]}}
`, old.url, fresh.url, stage)+table)
	return p, service, old, fresh
}

// Reads of a partner in stage shadow are also sent to the other upstream, writes never. The report finds an error in
// the table and does not report correct rows. Bills that are compared in bulk count for the same verdict.
func TestShadowComparesReads(t *testing.T) {
	t.Parallel()
	for _, client := range forms {
		for name, row := range map[string]struct {
			overlay string
			ruling  evidence.Ruling
			reason  string
			class   string
			bulk    string
		}{
			"right":   {"", evidence.Inconclusive, "comparisons: 6, at least 100 are needed", "same", `"bills":{"not_there":1,"same":3},"old_only":0,"new_only":0,"left":0}`},
			"mistake": {wrongAmount, evidence.Fail, "3 of 6 reads: apprPrice (money): old ", "differs", `"bills":{"differs":3,"not_there":1},`},
		} {
			parallel(t, client+"/"+name, func(t *testing.T) {
				p, service, old, fresh := newSharedBills(t, "shadow", row.overlay)
				n, v := 0, evidence.Verdict{}
				for _, bill := range []string{"SHADOW1", "SHADOW2", "SHADOW3"} {
					read := func() { // the next payment must come after the comparison
						n++
						play(p, "success "+client+" read billId="+bill)
						v = p.verdict("bill.read", evidence.ByShadow, compared(n))
					}
					play(p, "success "+client+" create billId="+bill)
					read()
					must(t, service.Pay(demoKey, bill))
					read()
					play(p, "200:BILL_006 "+client+" resend billId="+bill)
				}
				if v.Ruling != row.ruling || !strings.HasPrefix(v.Reason.String(), row.reason) || v.Bills != 3 || (v.Differed > 0) != (name == "mistake") {
					t.Errorf("%+v %+v", v, v.Compared)
				}
				checkText(t, p.metrics(), `billbridge_rollout_comparisons_total{class="`+row.class+`"} `)
				play(p, "200 POST /rollout/compare?ids=SHADOW1%0ASHADOW2%0ASHADOW3%0AOTHER&partner={partner} | "+row.bulk)
				v = verdictOn(operate.Report{Verdicts: p.verdicts()}, "bill.read", evidence.ByShadow)
				equal(t, [4]int{v.Number, v.NotThere, v.Bills, v.Paid}, [4]int{9, 1, 3, 3})
				equal(t, [2]int{old.writes(), fresh.writes()}, [2]int{6, 0})
			})
		}
	}
}

// A reply is compared with the HTTP status that it came with: the caller's form can have another one for its code.
func TestReplyIsComparedWithItsStatus(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, client string) {
		old, fresh := newBackend(t, replyWith(402, `{"message":"no"}`)), newBackend(t, replyWith(200, `{"code":"PAYMENT_005","msg":"no"}`))
		p := newProcess(t, anyPort+fmt.Sprintf("upstreams: {old: {form: v2, url: %q}, new: {form: legacy, url: %q}}\nroute: {default: old}\n"+
			"rollout: {old: old, new: new, bills: shared, default: shadow}\n", old.url, fresh.url)+overlayFile(t, withStatus))
		p.send(newCall(client, "read"))
		eventually(t, "the codes do not differ", func() bool {
			return strings.Contains(p.metrics(), `billbridge_rollout_comparisons_total{class="differs"} 1`)
		})
	})
}

// A read without a key, which a backend answers, is not counted for any partner and does not prevent a verdict.
func TestCallsWithoutAPartnerAreNoEvidence(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "shadow")
	play(m, `
fault old {"count":2,"body":"{\"code\":\"0000\",\"msg\":\"ok\",\"appr_state\":\"W\"}"}
post 200 /if/bill/read {"member":"m","merchant":"s","bill_id":"B1"}
success legacy create`)
	equal(t, len(m.verdicts()), 0)
	m.newCalls.expectCalls(t, 0)
}

// A call that one backend refuses anyway does not count against the form of the other. A call that was refused because
// of the form of its backend, and that the other form can carry, counts against the form of its backend.
func TestFieldLossCountsOnlyWhereTheOtherBackendAccepts(t *testing.T) {
	t.Parallel()
	m := newRolloutBetween(t, "v2", "legacy", "old")
	play(m, `
success v2 create
200:PAYMENT_003 v2 create billId=REFUSED0000000000001 tax=1819 price=50`)
	equal(t, len(m.verdicts()), 0)
	play(m, "success v2 create billId=TAXED000000000000001 tax=1819")
	some := func(v evidence.Verdict) bool { return v.Operation != "" }
	v := m.verdict("bill.create", evidence.ByCalls, some)
	equal(t, v.Ruling, evidence.Fail)
	equal(t, v.Reason.String(), "the form of the new backend cannot carry VALIDATION_001 bill.tax (calls: 1)")

	m = newRolloutBetween(t, "legacy", "v2", "old")
	play(m, `
success v2 create
invalid v2 create billId=TAXED000000000000001 tax=1819
200 POST /rollout/stage?by=anna&partner=default&stage=new&{forced}
success v2 create billId=ATTHENEWBACKEND00001`)
	// The refused create was never sent to the old backend, so it is not one of its calls.
	if v = m.verdict("bill.create", evidence.ByCalls, some); v.Calls != [2]int{1, 1} || len(v.Codes) != 1 {
		t.Errorf("%+v", v.CallStats)
	}
	m.ask(409, "POST /rollout/stop?by=a", "old cannot carry bill.create: VALIDATION_001 bill.tax (calls: 1, the last at ")
}

// Sub-business operations go to one upstream in every stage, also if both upstreams have them.
func TestSubBusinessCallsKeepTheirUpstream(t *testing.T) {
	t.Parallel()
	for _, stage := range routing.Stages {
		m := newRolloutBetween(t, "v2", "v2", string(stage))
		m.post("/read/mapping", `{"apiKey":"`+demoKey+`"}`).check(t, "v2", success)
		m.checkCalls(1, 0)
	}
}

// The call statistics are stored when the server ends.
func TestCountsAreStoredAtTheEnd(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "new")
	m.expect(v2("create"), success)
	m.stopAndWait()
	if kept, err := m.store.Counts(t.Context(), store.CountsFilter{Of: []partner.ID{partner.Of(demoKey)}}); err != nil || len(kept) != 1 || kept[0].Operation != "bill.create" {
		t.Errorf("%+v, %v", kept, err)
	}
}

// While the store is down, the owner of a bill is unknown. A backend's reply "no such bill" must not count as its
// failure then.
func TestStoreOutageIsNotCountedAgainstABackend(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "new")
	play(m, "has old W\nsuccess v2 create billId=ATTHENEWBACKEND00001\nsuccess v2 read")
	must(t, os.Rename(m.file, m.file+".away"))
	play(m, "refused v2 read,read\nsuccess v2 read billId=ATTHENEWBACKEND00001")
	must(t, os.Rename(m.file+".away", m.file))
	equal(t, verdictOn(operate.Report{Verdicts: m.verdicts()}, "bill.read", evidence.ByCalls).Calls, [2]int{1, 1})
}

// A caller that disconnects does not count as a failure of the backend.
func TestDisconnectsAreNotCountedAgainstABackend(t *testing.T) {
	t.Parallel()
	g := newGate(t, "/read", 0)
	m := newRolloutWith(t, "new", func(backend string, service http.Handler) http.Handler {
		if backend == "new" {
			return g.holdCalls(service)
		}
		return service
	}, "")
	play(m, "has new W\nsuccess v2 read")
	g.hold.Store(1)
	leave, ended := m.sendAndLeave(v2("read"))
	receive(t, g.reached, "call at the backend")
	leave()
	equal(t, receive(t, ended, "the caller") != nil, true)
	m.waitForLog(`"status":499`)
	equal(t, verdictOn(operate.Report{Verdicts: m.verdicts()}, "bill.read", evidence.ByCalls).Calls, [2]int{0, 1})
}
